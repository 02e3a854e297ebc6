"""Read cost, small files and buckets of tables with random histories equal the same measures, computed slowly."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.errors import Conflict
from hudi_ops.health.check import Check, NotHere
from hudi_ops.health.checks import buckets, read_cost, small_files
from hudi_ops.table.table import Table
from tests.bounds import bound
from tests.unit.health.bench import judged, looked
from tests.unit.health.slow_buckets import slow_buckets
from tests.unit.health.slow_read_cost import slow_read_cost
from tests.unit.health.slow_small_files import slow_small_files
from tests.unit.health.states_read_cost import batch, table_at

RING: dict[str, Any] = {"index": "bucket", "bucket_engine": "consistent", "buckets": 2, "buckets_min": 1}
KINDS: dict[str, dict[str, Any]] = {
    "cow": {"table_type": "cow", "index": "bloom"},
    "mor": {"table_type": "mor", "index": "simple", "metadata": True},
    "buckets": {"table_type": "mor", "index": "bucket", "buckets": 2},
    "rings": {"table_type": "mor", **RING, "buckets_max": 6},
}
SLOW = {read_cost.CHECK: slow_read_cost, small_files.CHECK: slow_small_files, buckets.CHECK: slow_buckets}
RESIZE = {"split_bytes": 3_700, "merge_bytes": 900}


def move(table: Table, kind: str, chance: random.Random) -> None:
    """Change the table by one action, drawn from those that its kind has."""
    low = chance.randrange(60)
    rows = batch(low, low + chance.randrange(1, 40), chance.randrange(1, 9), parts=3)
    moves = [lambda: table.ingest(rows)] * 5 + [lambda: table.ingest(rows, operation="insert_overwrite")]
    moves += [
        lambda: table.ingest(rows.select(["id", "part", "ts"]), operation="delete"),
        lambda: table.clean.run(retain=1),
    ]
    service = {"rings": table.resize, "buckets": table.compaction}.get(kind, table.clustering)
    keywords = RESIZE if kind == "rings" else {}
    if kind in {"cow", "mor"}:
        moves += [lambda: table.ingest(rows, operation="bulk_insert")] * 4
    moves += [lambda: service.plan(**keywords), lambda: service.run(**keywords), lambda: service.execute()]
    if kind != "cow":
        moves += [table.compaction.plan, table.compaction.run]
    with suppress(Conflict):  # of a plan with a write
        chance.choice(moves)()


@pytest.mark.parametrize("kind", KINDS)
def test_measures_equal_slow_ones(kind: str, tmp_path: Path) -> None:
    compared = dict.fromkeys((check.name for check in SLOW), 0)
    for seed in range(bound(1, 2, 50)):
        path = tmp_path / f"t{seed}"
        table, chance = table_at(path, **KINDS[kind]), random.Random(f"{kind} {seed}")
        for step in range(bound(16, 18, 40)):
            move(table, kind, chance)
            for check, slow in SLOW.items():
                compared[check.name] += compare(path, check, slow(str(path)), f"{kind}, seed {seed}, step {step}")
    here = {"cow": (0, 1, 0), "mor": (1, 1, 0), "buckets": (1, 0, 1), "rings": (1, 0, 1)}[kind]
    assert tuple(int(count >= 5) for count in compared.values()) == here


def compare(path: Path, check: Check, slow: dict[str, float | None], said: str) -> bool:
    """Compare the measures of a check with slow ones; return whether the check applies and says anything but 0."""
    if isinstance(check.measure(looked(path)), NotHere):
        return False
    found = {one.name: one.value for one in judged(path, check).measures}
    assert found == slow, said
    return any(found.values())

"""A resize that Apache Hudi planned, with child logs of its writers: we execute it, and every row is there once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.index.resizes import changes_of
from hudi_ops.index.ring import parse_ring
from hudi_ops.index.ring_files import ring_path
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.services.resize.hand_plans import changed_ring, child_logs, rings_of, run_plan
from tests.tables import BY_HAND, table_of

PLAN = "20261121021917676"
TERMS = AdoptionOptions(timezone="UTC")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(ms_of_instant("20261122000000000"), tick_ms=1)


@pytest.fixture
def storage(hudi_fixtures: Callable[[str], Path], clock: ManualClock) -> MemoryStorage:
    found = MemoryStorage("resized", clock)
    source = open_storage(str(hudi_fixtures("v9_bucket_consistent_pending_resize")))
    for info in source.list():
        found.put(info.path, source.get(info.path))
    opened(found, clock).adopt()
    return found


def opened(storage: MemoryStorage, clock: ManualClock) -> Table:
    return table_of(storage, clock, "executor", TERMS, upkeep=BY_HAND)


@pytest.mark.parametrize("memory_bytes", [None, 1_000])
def test_our_execution_keeps_every_row_once(
    storage: MemoryStorage, clock: ManualClock, memory_bytes: int | None
) -> None:
    table = opened(storage, clock)
    before = table.read(table.schema.names).sort_by("id")
    logs = child_logs(storage, PLAN)
    assert len(logs) == 7
    result = run_plan(table, PLAN, memory_bytes=memory_bytes)
    assert (result.splits, result.merges, result.left_out, result.files) == (2, 0, 0, 6)
    assert result.streamed == (0 if memory_bytes is None else 4)
    assert child_logs(storage, PLAN) == logs
    table = opened(storage, clock)
    assert table.read(table.schema.names).sort_by("id").equals(before)
    rings = rings_of(table, ["p=a", "p=b"])
    assert {path: (ring.instant, len(ring.prefixes)) for path, ring in rings.items()} == {
        "p=a": (PLAN, 4),
        "p=b": (PLAN, 2),
    }
    table.ingest(before)
    assert opened(storage, clock).read(table.schema.names).sort_by("id").equals(before)
    assert [one for one in verify_table(storage, deep=True, clock=clock).findings if one.severity == "error"] == []


def test_the_ring_is_the_one_that_apache_hudi_would_make(hudi_fixtures: Callable[[str], Path]) -> None:
    """In the other fixture it executed such a plan: from the ring before and the plan's children ours has its bytes."""
    resized = open_storage(str(hudi_fixtures("v9_bucket_consistent_resized")))
    timeline = load_timeline(resized, load_config(resized))
    seen = 0
    for info in resized.list(".hoodie/.bucket_index"):
        instant = info.name.removesuffix(".hashing_meta")
        found = timeline.find(instant, "clustering") if info.name.endswith(".hashing_meta") else None
        plan = read_plan(resized, timeline, found) if found is not None else None
        if not isinstance(plan, ReplacePlan):
            continue
        for change in changes_of(plan, "t", instant):
            path = change.partition_path
            parents = [
                one.name.removesuffix(".hashing_meta")
                for one in resized.list(f".hoodie/.bucket_index/consistent_hashing_metadata/{path}")
                if one.name.endswith(".hashing_meta") and one.name < info.name
            ]
            parent = parse_ring(resized.get(ring_path(path, max(parents))), "", path, max(parents))
            made = changed_ring(parent, changes_of(plan, "t", instant), instant)
            assert made.to_bytes() == resized.get(ring_path(path, instant))
            seen += 1
    assert seen

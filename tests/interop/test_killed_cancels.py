"""Compactions on real Spark, cancelled at random moments, their driver or a worker killed in a third of them.

Each round writes updates and deletes into log files, plans a compaction of 16 file groups, and starts `spark_apps/compact.py`. The
plan is cancelled at a moment that the dice choose; before or after that a process is killed. The plan ends aborted, rows are those
of a dict, and the same groups are compacted at once. At the end, past the time in which a task may write late, a clean leaves
nothing of any cancelled plan, and Apache Hudi and the `hudi` package read the same rows. Two rounds; with `--soak` thirty, on both
versions.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.services.cancel.errors import AlreadyCommitted
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.spark_application import DEADLINE_S, Application
from tests.tables import past_expiry

ROUNDS = bound(1, 2, 30)
SEED = 1979
GROUPS = 16
ROWS = bound(4_000, 20_000, 120_000)
CLEANS_MAX = bound(1, 1, 10)
"""One clean looks at about 256 announced files."""
SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("part", pa.string()),
    ("value", pa.int64()),
    ("ts", pa.int64()),
    ("_hoodie_is_deleted", pa.bool_()),
])
KEPT = (".aborted", ".aborted.swept", "/cancelled/{}")
"""What stays of a cancelled plan: its record, and the mark of its slot."""


def rows(ids: list[int], time_: int, deleted: bool = False) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "part": [f"p{one % 2}" for one in ids],
            "value": [one * 1_000 + time_ for one in ids],
            "ts": [time_] * len(ids),
            "_hoodie_is_deleted": [deleted] * len(ids),
        },
        schema=SCHEMA,
    )


def cancelled_at_random(table: Table, app: Application, instant: str, kill: str, dice: random.Random) -> str:
    """Cancel the plan, and kill what is named before or after it; returns how it ended, and what was killed."""
    killed = "none"
    if kill == "worker" or dice.random() < 0.75:
        if not app.wait_for_markers(dice.randint(1, GROUPS - 1)):
            return f"completed, {killed} killed"
    else:
        time.sleep(dice.uniform(0, 4))
    steps = ["request", "kill"] if dice.random() < 0.5 else ["kill", "request"]
    for step in steps:
        if step == "kill" and kill == "driver":
            app.kill_driver()
            killed = kill
        elif step == "kill" and kill == "worker":
            killed = kill if app.kill_worker() else killed
        elif step == "request":
            try:
                table.request_cancel(instant, f"round of {kill or 'no'} kill")
            except AlreadyCommitted:
                return f"completed, {killed} killed"
    # It waits for a living executor, and repeats nothing.
    result = table.cancel(instant, wait_s=DEADLINE_S)
    assert result.state == "aborted", result
    if kill != "driver":
        # 12: it stopped; 2: it began after the plan was removed.
        assert app.process.wait(DEADLINE_S) in {12, 2}, app.output.read_text()
    return f"aborted, {killed} killed"


def held_by(found: pa.Table) -> dict[int, int]:
    held = dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert found.num_rows == len(held), "a key shows twice"
    return held


def left_of(table: Table, instants: list[str]) -> list[str]:
    """Files that carry a cancelled instant in their path, but what stays of it."""
    paths = [info.path for info in table.context.storage.list()]
    return [
        path
        for instant in instants
        for path in paths
        if instant in path and not path.endswith(tuple(end.format(instant) for end in KEPT))
    ]


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("version", [9, 8])
def test_cancelled_and_killed_applications_leave_nothing(
    version: int, tmp_path: Path, hudi_rs: Callable[..., pa.Table], request: pytest.FixtureRequest
) -> None:
    dice = random.Random(SEED + version)
    print(f"seed {SEED + version}, {ROUNDS} rounds, version {version}")
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", table_type="mor",
        buckets=GROUPS // 2, version=version, archive={"automatic": False},
    )  # fmt: skip
    table.ingest(rows(list(range(ROWS)), 1))
    model = {one: one * 1_000 + 1 for one in range(ROWS)}
    ends: Counter[str] = Counter()
    cancelled: list[str] = []
    applications: list[Application] = []
    try:
        for number in range(ROUNDS):
            time_ = number + 2
            changed, gone = dice.sample(range(ROWS), ROWS // 10), dice.sample(range(ROWS), ROWS // 50)
            table.ingest(rows(changed, time_))
            table.ingest(rows(gone, time_, deleted=True))
            model |= {one: one * 1_000 + time_ for one in changed}
            for one in gone:
                model.pop(one, None)
            planned = table.compaction.plan(cancel="cancellable")
            assert planned.instant is not None
            assert len(planned.planned) == GROUPS
            kill = "" if number % 3 else ("driver", "worker")[number // 3 % 2]
            applications.append(Application(path, planned.instant, tmp_path))
            end = cancelled_at_random(table, applications[-1], planned.instant, kill, dice)
            ends[end] += 1
            if end.startswith("aborted"):
                cancelled.append(planned.instant)
                (record,) = table.plans(planned.instant, aborted=True)
                assert record.state == "aborted"
                assert held_by(table.read(["id", "value"])) == model
                assert table.compaction.run().slices == GROUPS, "the same groups can be planned again at once"
            assert held_by(table.read(["id", "value"], query="read_optimized")) == model
    finally:
        for application in applications:
            application.end()
    late = [one for one in left_of(table, cancelled) if one.endswith(".parquet")]
    print(f"rounds ended as: {dict(ends)}; data files that came after the removal: {len(late)}")
    assert len(cancelled) >= ROUNDS * 3 // 4, "cancels came too late to mean anything"
    later = Table(replace(table.context, clock=past_expiry()))
    for _ in range(CLEANS_MAX):
        later.clean.run()
    assert left_of(table, cancelled) == []
    assert not list((path / ".hoodie" / ".cancel").glob("*"))
    assert held_by(table.read(["id", "value"])) == model
    assert verify_table(table.context.storage, deep=True, clock=past_expiry()).errors == ()
    peer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    for listing in ("true", "false"):
        options = {"hoodie.metadata.enable": listing}
        assert held_by(peer.read(path, columns=["id", "value"], options=options)) == model, f"metadata {listing}"
    assert held_by(hudi_rs(path)) == model

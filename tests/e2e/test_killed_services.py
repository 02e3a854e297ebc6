"""Spark applications that compact or cluster are killed amid the work, driver or Python worker: plans resume, no row is lost.

Each round writes updates and deletes into log files, plans a compaction or a clustering in turn, starts its application on a local
master, waits for a number of markers that the dice choose, and kills. What is left of the application may go on writing: it is not
waited for. Then another process executes the plan. At the end the `hudi` package reads the same rows, in the soak Apache Hudi too.
Twice; with `--soak` twenty times.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from hudi_ops.errors import Busy
from hudi_ops.services.base.result import PlanResult, ServiceResult
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import read_with_hudi_rs
from tests.spark_application import DEADLINE_S, Application
from tests.tables import past_expiry

ROUNDS = 20 if SOAK else 2
SCRIPTS = ("compact.py", "cluster.py")
GROUPS = 16
ROWS = 120_000
SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("part", pa.string()),
    ("value", pa.int64()),
    ("ts", pa.int64()),
    ("_hoodie_is_deleted", pa.bool_()),
])


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


def plan_of(table: Table, script: str) -> PlanResult:
    """Plan all groups of the table."""
    return table.compaction.plan() if script == "compact.py" else table.clustering.plan(sort_by="value", rewrite=True)


def resumed(table: Table, instant: str, script: str) -> ServiceResult:
    """Somebody else executes the plan; while the application lives it is told so, and comes again."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return (table.compaction if script == "compact.py" else table.clustering).execute(instant=instant)
        except Busy:
            assert time.monotonic() < deadline_s, "the dead executor's lease was waited for"
            time.sleep(0.2)


def kill_driver(app: Application) -> None:
    app.kill_driver()


def kill_worker(app: Application) -> None:
    assert app.kill_worker(), "no Python worker runs"
    app.process.wait(timeout=DEADLINE_S)


def test_killed_applications_lose_nothing(tmp_path: Path) -> None:
    dice = random.Random(61)
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", table_type="mor",
        buckets=GROUPS // 2,
    )  # fmt: skip
    table.ingest(rows(list(range(ROWS)), 1))
    model = {one: one * 1_000 + 1 for one in range(ROWS)}
    killed = {"driver": 0, "worker": 0}
    for number in range(ROUNDS):
        time_ = number + 2
        changed = dice.sample(range(ROWS), ROWS // 10)
        gone = dice.sample(range(ROWS), ROWS // 50)
        table.ingest(rows(changed, time_))
        table.ingest(rows(gone, time_, deleted=True))
        model |= {one: one * 1_000 + time_ for one in changed}
        for one in gone:
            model.pop(one, None)
        script = SCRIPTS[number % 2]
        planned = plan_of(table, script)
        assert planned.instant is not None
        assert len(planned.planned) == GROUPS
        what, kill = ("driver", kill_driver) if number % 4 in {0, 3} else ("worker", kill_worker)
        app = Application(path, planned.instant, tmp_path, script)
        try:
            is_amid = app.wait_for_markers(dice.randint(1, GROUPS - 4))
            killed[what] += is_amid
            if is_amid:
                kill(app)
            check_resumed(table, planned.instant, app, model, script)
        finally:
            app.end()
    print(f"killed in the middle: {killed}")
    assert sum(killed.values()) >= ROUNDS * 3 // 4, "kills came too late to mean anything"
    # A worker may outlive its killed driver, and put its file after the plan was completed: the second look removes it.
    Table(replace(table.context, clock=past_expiry())).recover()
    assert verify_table(table.context.storage, deep=True, clock=past_expiry()).errors == ()
    refuse_other_rows(read_with_hudi_rs(path), model)
    if SOAK:  # in full, interop/test_killed_cancels.py has Apache Hudi read what killed applications left
        with HudiPeer() as peer:
            refuse_other_rows(peer.read(path), model)


def refuse_other_rows(theirs: pa.Table, model: dict[int, int]) -> None:
    assert dict(zip(theirs["id"].to_pylist(), theirs["value"].to_pylist(), strict=True)) == model
    assert theirs.num_rows == len(model)


def check_resumed(table: Table, instant: str, app: Application, model: dict[int, int], script: str) -> None:
    result = resumed(table, instant, script)
    assert result.instant == instant
    found = table.read(["id", "value"], query="read_optimized")
    held = dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert found.num_rows == len(held), "a key shows twice"
    assert held == model, "base files hold what the model holds"
    if app.process.returncode == 0:
        told = json.loads(app.output.read_text().splitlines()[-1])
        assert (told["ok"], told["instant"]) == (True, instant)

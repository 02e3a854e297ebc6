"""Tasks under a running scheduler: cleared and marked as failed while they execute, for each service that executes plans.

Method: Airflow runs as `bin/ui` starts it, and its REST API does what the buttons of the UI do. An execution is held at a
write of its own; then its task is cleared, or marked as failed. The supervisor of the task ends it, the scheduler runs it again.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.airflow.dag_runs import ROOT
from tests.airflow.running import RunningAirflow, running_airflow

HELD = """
import os, sys, time

arguments = dict(one.partition("=")[::2] for one in sys.argv)
hold = os.path.join(os.environ.get("HOLDS", ""), arguments.get("--table", ""))
if arguments.get("--mode") == "execute" and os.path.isfile(hold):
    from hudi_ops.storage.local import LocalStorage

    where = open(hold).read()

    def held(call):
        def called(self, path, *others):
            if where in path and os.path.exists(hold):
                open(hold + ".reached", "w").write(str(os.getpid()))
                asked = sys.argv[sys.argv.index("--stop-file") + 1]
                while os.path.exists(hold) and not os.path.exists(asked):
                    time.sleep(0.02)
            return call(self, path, *others)
        return called

    for name in ("put", "put_if_absent"):
        setattr(LocalStorage, name, held(getattr(LocalStorage, name)))
"""
"""Holds the execution of a table at a write to a path, until it is asked to stop or let go."""

DAGS = ("indexing", "clustering", "compaction", "clean")
ROWS = pa.table({"id": ["a", "b", "c", "d"], "v": [1, 2, 3, 4]})


@dataclass
class World:
    """A running Airflow, and the folder of its tables."""

    airflow: RunningAirflow
    folder: Path

    def hold(self, table: str, where: str) -> Path:
        """Hold executions of a table at writes to paths with `where` in it."""
        file = self.folder / "holds" / table
        Path(f"{file}.reached").unlink(missing_ok=True)
        file.write_text(where)
        return file

    def wait_until_held(self, hold: Path) -> int:
        """Wait until an execution is held; return its process."""
        reached = Path(f"{hold}.reached")
        end = time.monotonic() + 240
        while not (reached.exists() and reached.read_text()):
            assert time.monotonic() < end, "no execution came to the write"
            time.sleep(0.05)
        return int(reached.read_text())

    def wait_until_gone(self, process: int) -> None:
        """Wait until the supervisor of a task has ended its application."""
        end = time.monotonic() + 120
        while Path(f"/proc/{process}").exists():
            assert time.monotonic() < end, "the application goes on"
            time.sleep(0.1)


TABLES = """
tables:
  indexed: {path: indexed, record_key: [id]}
  sorted: {path: sorted, record_key: [id]}
  ringed: {path: ringed, record_key: [id], type: mor}
  logged: {path: logged, record_key: [id], type: mor}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("scheduled")
    (home := folder / "airflow").mkdir()
    (folder / "holds").mkdir()
    (dags := folder / "dags").mkdir()
    (hooks := folder / "hooks").mkdir()
    (hooks / "sitecustomize.py").write_text(HELD)
    (folder / "tables.yaml").write_text(TABLES)
    for name in DAGS:
        body = (ROOT / "dags" / f"{name}.py").read_text()
        if name == "compaction":
            # One service with the other setting of what a stop does to a plan.
            first, future, rest = body.partition("from __future__ import annotations\n")
            body = f'{first}{future}\nimport os\n\nos.environ["HUDI_OPS_ON_STOP"] = "cancel"\n{rest}'
        (dags / f"{name}.py").write_text(body)
    with running_airflow(
        home,
        dags,
        PYTHONPATH=str(hooks),
        HOLDS=str(folder / "holds"),
        HUDI_OPS_TABLES=str(folder / "tables.yaml"),
        HUDI_OPS_RETRIES="0",
    ) as airflow:
        end = time.monotonic() + 120
        while not all(airflow.knows(dag) for dag in DAGS):
            assert time.monotonic() < end, "the DAGs were not read"
            time.sleep(0.5)
        yield World(airflow, folder)


@dataclass(frozen=True)
class Case:
    """A service, its table, and where its execution is held."""

    dag: str
    table: str
    kind: str
    """Kind of the service's instants on the timeline."""

    form: dict[str, Any]
    where: str
    options: dict[str, Any]
    loads: int = 1

    def create(self, world: World) -> None:
        """Create the table anew, with its rows."""
        shutil.rmtree(world.folder / self.table, ignore_errors=True)
        path = str(world.folder / self.table)
        with closing(
            Table.create(path, name=self.table, record_key=["id"], schema=ROWS.schema, metadata=False, **self.options)
        ) as table:
            for _ in range(self.loads):
                table.ingest(ROWS)

    def trigger(self, world: World) -> str:
        """Start a run of the DAG as its form does."""
        return world.airflow.trigger(self.dag, {"table": self.table, "engine": "local", **self.form})


def index_at(where: str) -> Case:
    """A build of an index that is held at a write."""
    return Case("indexing", "indexed", "indexing", {"partitions": ["bloom_filters"]}, where, {})


INDEX = index_at("bloom_filters")
SORT = Case("clustering", "sorted", "replacecommit", {"sort_by": "v"}, ".marker", {})
RESIZE = Case(
    "resizing",
    "ringed",
    "replacecommit",
    {"split_bytes": 1000, "merge_bytes": 0},
    ".marker",
    {"table_type": "mor", "bucket_engine": "consistent", "buckets": 1, "buckets_max": 2},
)
COMPACTION = Case(
    "compaction", "logged", "commit", {"cancel": "cancellable"}, ".marker", {"table_type": "mor"}, loads=2
)
LEFT = [INDEX, index_at(".deltacommit"), index_at("hoodie.properties"), SORT, RESIZE]


def each(in_full: Case) -> pytest.MarkDecorator:
    """Return the mark of a test of all stops: full has this one."""
    soak = pytest.mark.soak("repeats with another service what full does with one")
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=f"{case.table} at {case.where}", marks=[] if case is in_full else [soak])
            for case in LEFT
        ],
    )


def stopped(world: World, case: Case, stop: Callable[[str, str, str], None]) -> tuple[str, str]:
    """Hold an execution, stop its task, and wait until its application is gone; return the run, and the plan's instant."""
    case.create(world)
    hold = world.hold(case.table, case.where)
    run = case.trigger(world)
    held = world.wait_until_held(hold)
    instant = world.airflow.result(case.dag, run, "plan")["instant"]
    stop(case.dag, run, "execute")
    world.wait_until_gone(held)
    hold.unlink()
    return run, str(instant)


def check(world: World, case: Case, instant: str) -> None:
    """Judge the table: one completed instant of the service, no pending one, all rows, nothing that `verify` finds."""
    with closing(Table.open(str(world.folder / case.table))) as table:
        assert table.plans() == []
        timeline = table._session.loader.load().timeline
        assert [one.time for one in timeline if one.kind == case.kind and one.is_completed and one.time >= instant] == [
            instant
        ]
        assert table.read(["id", "v"]).sort_by("id").to_pylist() == ROWS.to_pylist()
        assert verify_table(table.context.storage, deep=True, index=True).findings == ()


@each(in_full=INDEX)
def test_a_task_that_is_cleared_while_it_executes_goes_on(world: World, case: Case) -> None:
    run, instant = stopped(world, case, world.airflow.clear)
    last = world.airflow.wait(case.dag, run, "execute", "success", "failed", "skipped")
    assert (last["state"], last["try_number"]) == ("success", 2), world.airflow.log(case.dag, run, "execute", 2)
    assert world.airflow.result(case.dag, run, "execute")["instant"] == instant
    check(world, case, instant)


@each(in_full=SORT)
def test_a_task_that_is_marked_as_failed_leaves_its_plan_to_the_next_run(world: World, case: Case) -> None:
    run, instant = stopped(world, case, world.airflow.mark_failed)
    with closing(Table.open(str(world.folder / case.table))) as table:
        assert [row.instant for row in table.plans()] == [instant]
    after = case.trigger(world)
    last = world.airflow.wait(case.dag, after, "execute", "success", "failed", "skipped")
    assert last["state"] == "success", world.airflow.log(case.dag, after, "execute", 1)
    assert world.airflow.result(case.dag, after, "execute")["instant"] == instant
    assert world.airflow.task(case.dag, run, "execute")["state"] == "failed"
    check(world, case, instant)


def test_a_task_that_is_marked_as_failed_cancels_its_plan_where_stops_cancel(world: World) -> None:
    """Goal: the plan is aborted with the reason, a clear is skipped, and the next run plans the same groups."""
    case = COMPACTION
    run, instant = stopped(world, case, world.airflow.mark_failed)
    with closing(Table.open(str(world.folder / case.table))) as table:
        (row,) = table.plans(instant)
        assert (row.state, row.reason) == ("aborted", "its task was stopped")
    world.airflow.clear(case.dag, run, "execute")
    assert world.airflow.wait(case.dag, run, "execute", "success", "failed", "skipped")["state"] == "skipped"
    after = case.trigger(world)
    assert world.airflow.wait(case.dag, after, "execute", "success", "failed", "skipped")["state"] == "success"
    newer = world.airflow.result(case.dag, after, "execute")["instant"]
    assert newer > instant
    check(world, case, newer)


def test_a_database_that_is_held_for_seconds_ends_neither_the_scheduler_nor_a_call(world: World) -> None:
    with closing(sqlite3.connect(world.airflow.home / "airflow.db", isolation_level=None, timeout=60)) as database:
        database.execute("begin immediate")
        run: list[str] = []
        caller = threading.Thread(target=lambda: run.append(world.airflow.trigger("clean", {"table": "indexed"})))
        caller.start()
        time.sleep(7)  # the default of SQLite's driver is five
        database.execute("rollback")
        caller.join()
    world.airflow.wait("clean", run[0], "cancel", "success", "failed")
    assert world.airflow.is_healthy()


def files_of(world: World, table: str) -> dict[str, bytes]:
    """Return every file of a table with its bytes."""
    return {str(file): file.read_bytes() for file in (world.folder / table).rglob("*") if file.is_file()}


def test_dry_runs_and_runs_with_a_misspelt_field_change_nothing(world: World) -> None:
    """Goal: `plan` of a dry run says what it would do, and the tasks after it do nothing; a misspelt `dry_run` is refused."""
    given = {"table": COMPACTION.table, "engine": "local"}
    COMPACTION.create(world)
    before = files_of(world, COMPACTION.table)
    misspelt = world.airflow.trigger("compaction", {**given, "dryrun": True})
    clean = world.airflow.trigger("clean", {"table": COMPACTION.table, "retain": 1, "dry_run": True})
    assert world.airflow.wait("compaction", misspelt, "plan", "success", "failed", "skipped")["state"] == "failed"
    assert "did you mean 'dry_run'" in world.airflow.log("compaction", misspelt, "plan", 1)
    run = world.airflow.trigger("compaction", {**given, "dry_run": True})
    assert world.airflow.wait("compaction", run, "execute", "success", "failed", "skipped")["state"] == "skipped"
    result = world.airflow.result("compaction", run, "plan")
    assert (result["instant"], result["dry_run"], result["counts"]["planned"]) == (None, True, 1)
    assert "Dry run, nothing was changed: " in world.airflow.log("compaction", run, "plan", 1)
    assert world.airflow.wait("clean", clean, "archive", "success", "failed", "skipped")["state"] == "success"
    assert [world.airflow.task("clean", clean, task)["state"] for task in ("cancel", "plan", "execute")] == [
        "success", "success", "skipped",
    ]  # fmt: skip
    assert world.airflow.result("clean", clean, "archive")["dry_run"]
    assert files_of(world, COMPACTION.table) == before

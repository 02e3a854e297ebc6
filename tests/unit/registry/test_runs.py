"""A run in the registry is what its process did: it planned, lost a race, failed after a commit, was killed."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from hudi_ops.clock import SystemClock
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.errors import Conflict
from hudi_ops.registry import best_effort
from hudi_ops.registry.refresh import rebuild, refresh
from hudi_ops.registry.schema import RUNS
from hudi_ops.table.table import Table
from hudi_ops.timeline.names import ms_of_instant
from tests.unit.registry.on_disk import declared, located, made, written
from tests.unit.registry.told import runs

KILLED = """
import os, signal, sys
from hudi_ops.concurrency.attempt import begin
from hudi_ops.config.tables_file import locate_table
from hudi_ops.registry.best_effort import begin_run
from hudi_ops.table.table import Table

location = locate_table("trips", sys.argv[1])
begin_run("ingest", location, requester="ada")
table = Table.at(location)
print(begin(table._session.ctx, table._session.loader, "deltacommit").instant, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_run_that_goes_on(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = declared(tmp_path)
    made(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, file], capture_output=True, text=True, timeout=60, env=environment
    )
    assert (killed.returncode, len(runs(engine))) == (-signal.SIGKILL, 1), killed.stderr
    refresh(["trips"], file, engine=engine)
    (ended,) = [run for run in runs(engine) if run.state in {"running", "failed"}]
    assert (ended.instant, ended.state, ended.requester) == (killed.stdout.strip(), "failed", "ada")
    # Without a lease the next try of the task tells it.
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "run_1")
    for _ in range(2):
        best_effort.begin_run("clean", located(tmp_path))
    assert [run.state for run in runs(engine) if run.service == "clean"] == ["running", "failed"]
    # The end of a run finds it, also if the table was made again after its begin.
    run = best_effort.begin_run("ingest", located(tmp_path))
    shutil.rmtree(tmp_path / "tables" / "trips")
    table = made(tmp_path)
    run.end({"ok": True, "instant": written(table)}, cpu_s=0.1)
    with engine.connect() as connection:
        assert not [one for one in connection.execute(select(RUNS)) if one.run_key == run.run.key]


def test_a_run_is_what_its_process_did(engine: Engine, tmp_path: Path) -> None:
    """A plan is no compaction, a lost race is skipped, an error is kept beside the instant, and a plan's age is no work."""
    declared(tmp_path)
    table = made(tmp_path, rounds=3)
    location = located(tmp_path)
    plan = table.compaction.plan().instant
    assert plan is not None
    planning = best_effort.begin_run("compact", location, is_planning=True)
    planning.end({"ok": True, "instant": plan}, cpu_s=0.1)
    loser = best_effort.begin_run("compact", location)
    table.compaction.execute()
    lost = table.compaction.lost(Conflict("it was completed", instant=plan, next_step="nothing", cause="completed"))
    loser.end({"ok": True, **lost.as_dict()}, cpu_s=0.1)
    late = best_effort.begin_run("compact", location, instant=plan)
    late.end({"ok": False, "error": "AlreadyCommitted", "message": "it is complete", "exit_code": 2, "instant": plan})
    half = best_effort.begin_run("ingest", location)
    instant = written(table, 7)
    half.end({"ok": False, "error": "Busy", "message": "the clean waits", "exit_code": 11, "instant": instant})
    found = [
        (run.service, run.state, run.instant, run.is_from_timeline, (run.error or {}).get("error"))
        for run in runs(engine)
    ]
    assert sorted(found, key=str) == sorted(
        [
            ("compaction", "planned", plan, False, None),
            ("compaction", "skipped", plan, False, None),
            ("compaction", "failed", plan, False, "AlreadyCommitted"),
            ("compaction", "succeeded", plan, True, None),  # of the process that completed it
            ("ingestion", "succeeded", instant, True, "Busy"),
        ],
        key=str,
    )
    assert next(run for run in runs(engine) if run.state == "skipped").note.startswith("nothing completed here")


def test_an_interrupted_application_ends_its_run(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared(tmp_path)
    made(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "spark_apps")
    app = importlib.import_module("_app")
    options = Namespace(mode="run", accept_future_instants="false")
    job = app.Job("compact", CompactionRequest(), options, located(tmp_path), None)

    def interrupted() -> dict[str, object]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.kept_in_registry(job, interrupted)
    (run,) = [run for run in runs(engine) if run.service == "compaction"]
    assert (run.state, run.note) == ("cancelled", "interrupted from the keyboard")


def test_a_run_takes_as_long_as_its_execution(engine: Engine, tmp_path: Path) -> None:
    """Its instant is as old as its plan."""
    file = declared(tmp_path)
    made(tmp_path, rounds=3)
    plan = Table.at(located(tmp_path)).compaction.plan().instant
    assert plan is not None
    while (begun_ms := SystemClock().now_ms()) <= ms_of_instant(plan):
        pass  # a fast machine is in the millisecond of the plan still
    Table.at(located(tmp_path)).compaction.execute()
    refresh(["trips"], file, engine=engine)
    (run,) = [run for run in runs(engine) if run.instant == plan]
    assert run.begun_ms >= begun_ms > ms_of_instant(plan)
    rebuild(["trips"], file, engine=engine)
    assert [one for one in runs(engine) if one.instant == plan] == [run]

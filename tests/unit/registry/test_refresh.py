"""Looks at real tables: what is found is kept, an unchanged table costs eight reads, and a lost registry is made again."""

from __future__ import annotations

import logging
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.health.many import judged
from hudi_ops.registry import best_effort
from hudi_ops.registry.database import file_of
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.picture import picture_of
from hudi_ops.registry.recording import record_look
from hudi_ops.registry.refresh import load_before, look_at, rebuild, refresh, registry_at
from hudi_ops.registry.rows import Found
from hudi_ops.registry.store import list_tables, table_named
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from tests.unit.health.bench import UNCHANGED_CALLS
from tests.unit.registry.on_disk import declared, located, made, written
from tests.unit.registry.told import runs, without


def drop(engine: Engine, request: pytest.FixtureRequest) -> None:
    """Drop the database, and make an empty one."""
    engine.dispose()
    file = file_of(engine)
    if file is not None:
        for one in file.parent.iterdir():
            one.unlink()
    else:
        server = request.getfixturevalue("postgres")
        server.run("DROP DATABASE migrated WITH (FORCE)")
        server.run("CREATE DATABASE migrated TEMPLATE template0")
    migrate()


def test_what_a_table_tells_is_equal_after_the_registry_was_lost(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Ingests, a compaction, a cancelled clustering, a clean: recorded by their processes, by looks, and by a rebuild."""
    file = declared(tmp_path)
    made(tmp_path, rounds=3)
    location = located(tmp_path)

    for name, value in (("DAG_ID", "nightly"), ("TASK_ID", "task"), ("DAG_RUN_ID", "run_1")):
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)

    def ran(app: str, call: Any) -> None:
        run = best_effort.begin_run(app, location, requester="ada", is_planning=app == "cluster")
        run.end({"app": app, "ok": True, **call().as_dict()}, cpu_s=1.5)

    table = Table.at(location)
    ran("compact", table.compaction.run)
    refresh(["trips"], file, engine=engine)
    written(table, 5)
    plan = table.clustering.plan(ClusteringRequest(sort_by=("v",)))
    assert plan.instant is not None
    ran("cluster", lambda: plan)
    ran("cancel", lambda: table.cancel(plan.instant or "", "not now", requester="bob"))
    for version in range(6, 18):
        written(table, version)
    ran("clean", table.clean.run)
    refresh(["trips"], file, engine=engine)
    recorded, before = runs(engine), table_named(engine, "trips")
    assert before is not None
    processes = [run for run in recorded if not run.is_from_timeline]
    assert {(run.service, run.state) for run in processes} == {("clustering", "planned"), ("cancel", "succeeded")} | (
        set() if any(run.service == "clean" and run.is_from_timeline for run in recorded) else {("clean", "skipped")}
    )
    cancelled = next(run for run in recorded if run.instant == plan.instant and run.is_from_timeline)
    assert (cancelled.service, cancelled.state, cancelled.requester, cancelled.note) == (
        "clustering",
        "cancelled",
        "bob",
        "not now",
    )
    compacted = next(run for run in recorded if run.service == "compaction")
    assert (compacted.state, compacted.cpu_s, compacted.dag_run, compacted.requester) == (
        "succeeded",
        1.5,
        "nightly/task/run_1",
        "ada",
    )
    assert len({run.key for run in recorded}) == len(recorded) >= 17

    drop(engine, request)
    rebuild(["trips"], file, engine=engine)
    after = table_named(engine, "trips")
    assert after is not None
    told = [replace(run, cpu_s=None, requester="") if run.instant != plan.instant else run for run in recorded]
    assert runs(engine) == [run for run in told if run.is_from_timeline]
    # Since when a target is missed is the time of the first verdict, which a rebuild makes anew.
    assert [{**one, "since": None} for one in after.row.checks] == [{**one, "since": None} for one in before.row.checks]
    aging = ("at", "measures", "seen", "note", "since")
    for one, other in zip(after.verdict["checks"], before.verdict["checks"], strict=True):  # type: ignore[index]
        assert without(one, *aging) == without(other, *aging)
    assert without(after.verdict or {}, "at", "checks") == without(before.verdict or {}, "at", "checks")
    assert (
        after.settings
        == before.settings
        == {"record_key": ["id"], "path": str(tmp_path / "tables/trips")}
        | {
            "type": "mor",
            "buckets": 1,
        }
    )
    # A rebuild without a drop changes nothing either, except what only processes knew.
    rebuild(["trips"], file, engine=engine)
    assert runs(engine) == [run for run in told if run.is_from_timeline]


def test_an_unchanged_table_costs_eight_reads_and_a_changed_one_a_picture(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = declared(tmp_path)
    table = made(tmp_path)
    calls: list[str] = []
    for name in ("get", "list", "list_folder", "list_new", "head"):
        call = getattr(LocalStorage, name)

        def counted(self: Any, *values: Any, call: Any = call, name: str = name, **keywords: Any) -> Any:
            calls.append(f"{name} {values}")
            return call(self, *values, **keywords)

        monkeypatch.setattr(LocalStorage, name, counted)
    refresh(["trips"], file, engine=engine)
    for _ in range(2):
        calls.clear()
        refresh(["trips"], file, engine=engine)
        assert len(calls) <= UNCHANGED_CALLS + 2, calls
    first = table_named(engine, "trips")
    instant = written(table, 9)
    refresh(["trips"], file, engine=engine)
    second = table_named(engine, "trips")
    assert first is not None
    assert second is not None
    assert [one["time"] for one in (second.picture or {})["timeline"]][-1] == instant
    assert runs(engine)[0].instant == instant
    # Rows of the picture before are used again, and are those of a picture that reads them all.
    assert (second.picture or {})["timeline"] == picture_of(located(tmp_path)).model_dump(mode="json")["timeline"]
    # A plan changes with time alone: its age, and whether it is overdue.
    table.compaction.plan()
    refresh(["trips"], file, engine=engine)
    assert load_before(engine, ["trips"])["trips"].changes_with_time


def test_a_table_deleted_and_made_again_is_another(engine: Engine, tmp_path: Path) -> None:
    file = declared(tmp_path)
    table = made(tmp_path)
    table.compaction.plan()
    refresh(["trips", "riders"], file, engine=engine)
    assert {one.name: one.status for one in list_tables(engine).rows}["riders"] == "unknown"  # there is none yet
    first = table_named(engine, "trips")
    shutil.rmtree(tmp_path / "tables" / "trips")
    refresh(["trips"], file, engine=engine)
    gone = table_named(engine, "trips")
    assert first is not None
    assert gone is not None
    assert (gone.row.id, gone.row.status) == (first.row.id, "unknown")
    assert gone.row.error
    assert gone.verdict is not None
    assert gone.verdict["error"]["message"].startswith(gone.row.error)
    made(tmp_path)
    refresh(["trips"], file, engine=engine)
    again = table_named(engine, "trips")
    assert again is not None
    assert again.row.id != first.row.id
    assert [one.id for one in again.earlier] == [first.row.id]
    assert again.picture is not None
    assert again.picture["table_id"] == again.row.table_id
    assert again.picture["plans"] == []
    assert {run.service for run in runs(engine)} == {"ingestion"}


def test_a_write_that_was_undone_is_said_to_be(engine: Engine, tmp_path: Path) -> None:
    file = declared(tmp_path)
    table = made(tmp_path)
    saved = table.savepoints.create().instant
    undone = written(table, 3)
    refresh(["trips"], file, engine=engine)
    table.savepoints.restore(saved)
    refresh(["trips"], file, engine=engine)
    found = {run.instant: run for run in runs(engine)}
    assert (found[undone].state, found[undone].note) == ("failed", "undone: the table no longer has this instant")
    assert found[saved].state == "succeeded"
    assert "restore" in {run.service for run in found.values()}


def test_a_write_that_ends_amid_a_look_is_not_undone(engine: Engine, tmp_path: Path) -> None:
    """It is recorded between the look's read of the timeline and its save."""
    file = declared(tmp_path)
    table = made(tmp_path)
    refresh(["trips"], file, engine=engine)
    written(table, 3)
    saved: list[str] = []

    def save(found: Found) -> None:
        run = best_effort.begin_run("ingest", located(tmp_path))
        instant = written(table, 4)
        run.end({"ok": True, "instant": instant}, cpu_s=0.1)
        saved.append(instant)
        record_look(engine, found)

    look_at(["trips"], file, replace(registry_at(engine), save=save))
    found = {run.instant: run.state for run in runs(engine)}
    assert found[saved[0]] == "succeeded"


def test_a_rebuild_of_a_table_that_does_not_answer_erases_nothing(engine: Engine, tmp_path: Path) -> None:
    file = declared(tmp_path)
    made(tmp_path)
    refresh(["trips"], file, engine=engine)
    before, known = table_named(engine, "trips"), runs(engine)
    (tmp_path / "tables/trips").rename(tmp_path / "elsewhere")
    rebuild(["trips"], file, engine=engine)
    after = table_named(engine, "trips")
    assert before is not None
    assert after is not None
    assert (after.row.id, after.row.status, after.picture) == (before.row.id, "unknown", before.picture)
    assert runs(engine) == known != []


def test_a_picture_that_fails_hides_no_verdict(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A part that cannot be read says why; a picture that cannot be taken is missing; the verdict is there."""
    file = declared(tmp_path)
    made(tmp_path)
    hold = tmp_path / "tables" / "trips" / ".hoodie" / ".holds"
    hold.mkdir()
    (hold / "broken.json").write_text("{")
    refresh(["trips"], file, engine=engine)
    found = table_named(engine, "trips")
    assert found is not None
    assert found.verdict is not None
    assert found.picture is not None
    assert "is not a hold" in found.picture["errors"]["keepers"]["message"]
    assert load_before(engine, ["trips"])["trips"].changes_with_time
    assert len(found.picture["timeline"]) >= 2
    picture = picture_of(located(tmp_path), {"form": 0})
    assert picture.errors.keys() == {"keepers"}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_what_reads_more_of_a_table_without_end_delays_no_verdict(tmp_path: Path) -> None:
    made(tmp_path, "trips")
    made(tmp_path, "riders")
    declared(tmp_path)
    ends = threading.Event()

    def then(name: str, *_: object) -> None:
        if name == "trips":
            ends.wait(30)

    wanted: dict[str, Any] = {name: lambda name=name: located(tmp_path, name) for name in ("trips", "riders")}
    found = [(verdict.table, verdict.error) for verdict in judged(wanted, limit_s=1.5, then=then)]
    ends.set()
    assert found == [("riders", None), ("trips", None)]

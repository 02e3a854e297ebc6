"""A picture says what the commands say, of tables of this library and of Apache Hudi, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.cli.main import main
from hudi_ops.concurrency.attempt import begin
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.config.tables_file import TableLocation, locate_table
from hudi_ops.health.seen import state_digest
from hudi_ops.read.current_view import storage_at
from hudi_ops.registry.database import storable
from hudi_ops.registry.picture import Picture, picture_of
from hudi_ops.registry.runs import runs_of_table
from tests.unit.cli.conftest import tree_of
from tests.unit.registry.on_disk import declared, located, made, written

SAID_BY = {
    "about": (["show"], None),
    "timeline": (["timeline"], "instants"),
    "plans": (["plans", "--aborted"], "plans"),
    "lock": (["lock"], None),
    "indexes": (["index", "show"], "indexes"),
}
"""Part of a picture -> words of the command, the table after the first; and the value of its JSON."""

AGES = {"age_s", "beaten", "expires"}

FIXTURES = [
    *("v6_nonpartitioned_mor", "v8_trips_8i3u1d_mor", "v9_async_index", "v9_mor_pending_compaction_clustering"),
    *("v9_bucket_consistent_pending_resize", "v9_cow_clean_savepoint_rollback_archive"),
]


def said(capsys: pytest.CaptureFixture[str], words: list[str], location: TableLocation) -> Any:
    """The JSON of a command, or its error."""
    capsys.readouterr()
    main([words[0], location.path, *words[1:], "--json"])
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def ageless(value: Any) -> Any:
    """A value without what changes with each second."""
    if isinstance(value, dict):
        return {name: ageless(one) for name, one in value.items() if name not in AGES}
    return [ageless(one) for one in value] if isinstance(value, list) else value


def compare(picture: Picture, location: TableLocation, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare each part with its command; one that cannot be read has the error of the command."""
    dumped = json.loads(json.dumps(storable(picture.model_dump(mode="json")), allow_nan=False))
    for part, (words, value) in SAID_BY.items():
        told = said(capsys, words, location)
        if part in picture.errors:
            assert told["error"] == picture.errors[part]["error"]
        elif "error" not in told:
            assert ageless(dumped[part]) == ageless(told[value] if value else told), part


def test_a_picture_of_a_table_in_trouble_says_what_the_commands_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared(tmp_path)
    table = made(tmp_path, rounds=3)
    kept = table.savepoints.create().instant
    aborted = table.clustering.plan(ClusteringRequest(sort_by=("v",))).instant or ""
    table.cancel(aborted, "not now", requester="bob")
    planned = table.compaction.plan().instant
    hold = table.holds.take(written(table, 4), seconds=60, purpose="export")
    location, files = located(tmp_path), tree_of(tmp_path)
    picture = picture_of(location)
    assert tree_of(tmp_path) == files
    compare(picture, location, capsys)
    assert {(one["instant"], one["state"]) for one in picture.plans} == {(aborted, "aborted"), (planned, "planned")}
    assert {(one["kind"], one["name"]) for one in picture.keepers} >= {("savepoint", kept), ("hold", hold.id)}
    assert (picture.name, picture.errors, picture.changes_with_time, picture.timeline_left) == ("trips", {}, True, 0)
    storage = storage_at(location)
    assert picture.digest == state_digest(storage, picture.head)
    written(table, 5)
    assert picture.digest != state_digest(storage, picture.head)


@pytest.mark.parametrize("name", FIXTURES)
def test_a_picture_of_a_table_of_apache_hudi_says_what_the_commands_say(
    name: str, hudi_fixtures: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = hudi_fixtures(name)
    location, files = locate_table(str(folder)), tree_of(folder)
    picture = picture_of(location)
    compare(picture, location, capsys)
    assert picture.table_id == ""
    assert not [one for one in picture.errors.values() if one["exit_code"] not in {2, 3}], picture.errors
    told = runs_of_table(location, [row["time"] for row in picture.timeline])[1]
    assert {run.state for run in told.runs} <= {"succeeded", "failed"}
    completed = {
        row["time"] for row in picture.timeline if row["state"] == "completed" and row["action"] != "savepoint"
    }
    assert {run.instant for run in told.runs if run.state == "succeeded"} == completed
    assert tree_of(folder) == files


def test_a_running_write_is_a_run_of_its_dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease says who works; once it completed, the commit log says it."""
    for name, value in (("DAG_ID", "ingestion"), ("TASK_ID", "ingest"), ("DAG_RUN_ID", "manual__1")):
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    declared(tmp_path)
    table = made(tmp_path, rounds=3)
    planned = table.compaction.plan().instant or ""
    location = located(tmp_path)
    assert runs_of_table(location, [planned])[1].runs == []  # nothing works on it
    table.compaction.execute()
    (done,) = runs_of_table(location, [planned])[1].runs
    assert (done.service, done.state, done.dag_run) == ("compaction", "succeeded", "ingestion/ingest/manual__1")
    assert done.ended_ms is not None
    assert done.ended_ms >= done.begun_ms
    begun = begin(table._session.ctx, table._session.loader, "deltacommit").instant
    (running,) = runs_of_table(location, [begun])[1].runs
    assert (running.service, running.state, running.ended_ms) == ("ingestion", "running", None)
    assert running.dag_run == "ingestion/ingest/manual__1"

"""The DAG `clean`: cancel, plan and execute are applications of their own; execute gets the plan of `plan`, or is skipped.

Each task may be killed, and tried again.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.airflow.dag_runs import airflow, asset_events, last_result
from tests.airflow.deadly import dies_once

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})


def test_the_dag_keeps_the_house_rules(tables_file: Path, load_dag) -> None:
    dag = load_dag("clean").dag
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, dag.schedule) == ("clean", 1, False, None)
    assert dag.tags == {"hudi", "clean"}
    assert dag.doc_md
    assert dag.get_task("cancel").downstream_task_ids == {"plan"}
    assert dag.get_task("plan").downstream_task_ids == {"execute"}
    assert dag.get_task("execute").downstream_task_ids == {"archive"}
    archive = dag.get_task("archive")
    assert archive.trigger_rule == "none_failed"
    assert archive.application.endswith("/archive.py")
    assert not any("--policy" in one for one in archive.application_args)


def test_the_form_offers_every_table_and_every_policy(tables_file: Path, load_dag) -> None:
    params = load_dag("clean").dag.params
    assert params.get_param("policy").schema["enum"] == ["commits", "hours", "versions"]
    assert "trips" in params.get_param("table").schema["enum"]
    assert set(params) >= {"retain", "max_files", "full", "dry_run"}
    assert not {"files", "instant", "abandoned", "resume"} & set(params)


def test_a_schedule_is_a_setting(tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_OPS_CLEAN_SCHEDULE", "@daily")
    assert load_dag("clean").dag.schedule == "@daily"


@pytest.fixture
def trips(tables_file: Path) -> Path:
    """A table with three writes of both of its file groups."""
    from hudi_ops import Table

    path = tables_file.parent / "trips"
    table = Table.create(
        str(path),
        name="trips",
        record_key=["id"],
        schema=TRIPS.schema,
        partition_by=["city"],
        ordering="ts",
        metadata_compact_after=1,  # an archive waits for this
    )
    for at in (1, 2, 3):
        table.ingest(TRIPS.set_column(2, "ts", pa.array([at] * 3)).set_column(3, "fare", pa.array([at * 1.0] * 3)))
    table.close()
    return path


def fares(path: Path) -> dict[str, float]:
    from hudi_ops import Table

    rows = Table.open(str(path)).read(["id", "fare"])
    return dict(zip(rows["id"].to_pylist(), rows["fare"].to_pylist(), strict=True))


@pytest.mark.soak("compactions prove `plan_and_execute`, which all services share, by a run of their DAG in full")
def test_a_dag_run_plans_and_executes_and_the_next_skips(trips: Path, airflow_home: Path) -> None:
    before, files = len(asset_events(airflow_home)), set(trips.glob("**/*.parquet"))
    chosen = '{"table": "trips", "retain": 1}'
    first = airflow(airflow_home, "dags", "test", "clean", "2026-01-01", "--conf", chosen)
    assert first.returncode == 0, first.stdout[-3000:]
    assert "trips: no plan is overdue or cancelled" in first.stdout
    result = last_result(first.stdout, "clean")
    assert (result["app"], result["ok"], result["deleted"]) == ("clean", True, 2)
    assert len(files - set(trips.glob("**/*.parquet"))) == 2
    assert fares(trips) == {"a": 3.0, "b": 3.0, "c": 3.0}
    second = airflow(airflow_home, "dags", "test", "clean", "2026-01-02", "--conf", chosen)
    assert second.returncode == 0, second.stdout[-3000:]
    assert last_result(second.stdout, "clean")["instant"] is None
    assert "nothing to do: the task before it said so" in second.stdout
    archived = last_result(second.stdout, "archive")
    assert (archived["ok"], archived["instants"]) == (True, 0), "it runs where the clean was skipped"
    event = {"instant": result["instant"], "action": "clean", "rows": 0}
    assert asset_events(airflow_home)[before:] == [("hudi://trips", event)]


@pytest.mark.soak("full has this of compactions")
def test_a_plan_that_was_left_is_executed_once(trips: Path, airflow_home: Path) -> None:
    from hudi_ops import Table

    planned = Table.open(str(trips)).clean.plan(retain=1).instant
    run = airflow(airflow_home, "dags", "test", "clean", "2026-02-01", "--conf", '{"table": "trips"}')
    assert run.returncode == 0, run.stdout[-3000:]
    assert (last_result(run.stdout, "clean")["instant"], last_result(run.stdout, "clean")["deleted"]) == (planned, 2)
    # A retry of the same task finds it done.
    again = Table.open(str(trips)).clean.execute(instant=planned)
    assert (again.instant, again.deleted, again.note) == (planned, 0, "it was completed before")


@pytest.mark.soak("full kills the same tasks of index builds")
def test_each_task_can_be_killed_and_tried_again(
    trips: Path, tables_file: Path, airflow_home: Path, tmp_path: Path
) -> None:
    """Goal: a retry of any task goes on. Method: its driver is killed at an operation of storage that only this task has."""
    from hudi_ops import Table
    from hudi_ops.verify import verify_table

    declared = "source: landing, clean: {retain: 1}, archive: {keep_min: 2, keep_max: 3}}"
    tables_file.write_text(tables_file.read_text().replace("source: landing}", declared))
    assert declared in tables_file.read_text()
    files = set(trips.glob("**/*.parquet"))
    dies_once(airflow_home, tmp_path, "clean", "plan", ".clean.requested")
    dies_once(airflow_home, tmp_path, "clean", "execute", ".parquet")
    dies_once(airflow_home, tmp_path, "clean", "archive", "_version_")

    assert len(files - set(trips.glob("**/*.parquet"))) == 2
    table = Table.open(str(trips))
    assert len(table._session.loader.load().timeline.completed_writes) == 2
    assert fares(trips) == {"a": 3.0, "b": 3.0, "c": 3.0}
    assert verify_table(table.context.storage, deep=True, index=True).ok

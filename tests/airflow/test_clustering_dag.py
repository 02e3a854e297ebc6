"""The DAG `clustering`: its form, its schedule, and runs of plan and execute by Airflow on Spark and alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from tests.airflow.dag_runs import airflow, asset_events, last_result

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "fare": [3.0, 2.0, 1.0]})


@pytest.fixture
def clustered_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with two tables, of which one has a schedule."""
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n"
        "  trips: {path: trips, record_key: [id], partition_by: [city], index: bloom}\n"
        "  riders:\n"
        "    path: riders\n"
        "    record_key: [id]\n"
        "    schedules:\n"
        "      clustering: {schedule: '@daily', sort_by: [fare, id], order: z-order, group_bytes: 500000000}\n"
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


def test_the_form_offers_all_tables_and_every_order(clustered_file: Path, load_dag) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    dag = load_dag("clustering").dag
    assert (dag.max_active_runs, dag.catchup, dag.schedule, dag.tags) == (1, False, None, {"hudi", "clustering"})
    assert dag.get_task("plan").downstream_task_ids == {"execute"}
    enums = {name: dag.params.get_param(name).schema["enum"] for name in ("table", "order", "on_overlap")}
    assert enums["table"] == ["trips", "riders"]
    assert enums["order"] == [None, "none", "linear", "z-order", "hilbert"]
    for name, value in (("order", "random"), ("target_bytes", 0), ("on_overlap", "pass")):
        with pytest.raises(ParamValidationError, match=name):
            load_dag("clustering").dag.params[name] = value
    dag.params.validate()
    dag.params.update({"sort_by": "fare,id", "order": "hilbert", "small_bytes": None, "max_bytes": 1, "partitions": ""})
    dag.params.validate()


def rendered(dag: Any, **values: Any) -> list[str]:
    """The arguments of the application for a run with these values."""
    task = dag.get_task("plan")
    return list(task.render_template(task.application_args, {"params": {**dag.params.dump(), **values}}))


def test_a_schedule_has_the_values_of_its_entry(clustered_file: Path, load_dag) -> None:
    dag = vars(load_dag("clustering"))["clustering__riders"]
    assert (dag.schedule, dag.params.get_param("table").schema["enum"]) == ("@daily", ["riders"])
    wanted = {"--sort-by=fare,id", "--order=z-order", "--group-bytes=500000000", "--mode=plan"}
    assert wanted <= set(rendered(dag))


@pytest.fixture
def trips(clustered_file: Path) -> Path:
    """A table with two small files in one partition, and two in the other."""
    path = clustered_file.parent / "trips"
    table = Table.create(
        str(path), name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"], index="bloom"
    )
    for number in range(2):
        ids = pa.array([f"{id_}{number}" for id_ in TRIPS["id"].to_pylist()])
        table.ingest(TRIPS.set_column(0, "id", ids), operation="bulk_insert")
    table.close()
    return path


@pytest.mark.soak("compactions prove `plan_and_execute`, which all services share, by a run of their DAG in full")
def test_a_dag_run_merges_and_sorts_on_executors(trips: Path, airflow_home: Path) -> None:
    before = len(asset_events(airflow_home))
    given = {"table": "trips", "sort_by": "fare", "engine": "spark"}
    run = airflow(airflow_home, "dags", "test", "clustering", "2026-01-01", "--conf", json.dumps(given))
    assert run.returncode == 0, run.stdout[-3000:]
    result = last_result(run.stdout)
    assert (result["app"], result["groups"], result["replaced"], result["files"]) == ("cluster", 2, 4, 2)
    assert result["engine"] == "spark"
    assert "Clustered 4 file groups into 2 files with 6 rows of trips" in run.stdout
    rows = Table.open(str(trips)).read(["id", "fare"], where="city = 'x'")
    assert rows["fare"].to_pylist() == [2.0, 2.0, 3.0, 3.0]
    event = {"instant": result["instant"], "action": "clustering", "rows": 6}
    assert asset_events(airflow_home)[before:] == [("hudi://trips", event)]


@pytest.mark.soak("full has this of compactions")
def test_execute_run_alone_takes_the_oldest_plan_and_names_what_it_left_out(trips: Path, airflow_home: Path) -> None:
    table = Table.open(str(trips))
    older = table.clustering.plan().instant
    table.ingest(pa.table({"id": ["c0"], "city": ["y"], "fare": [9.0]}))
    newer = table.clustering.plan(partitions=["city=y"], sort_by=["fare"]).instant
    run = airflow(
        airflow_home, "tasks", "test", "clustering", "execute", "2026-04-01", "--task-params", '{"table": "trips"}'
    )
    result = last_result(run.stdout + run.stderr)
    assert (result["instant"], result["groups"], result["left_out"]) == (older, 1, 1)
    assert "left out 1 of 2 plan groups, which writes touched" in run.stdout + run.stderr
    assert [plan.instant for plan in Table.open(str(trips)).plans()] == ([newer] if newer else [])
    rows = Table.open(str(trips)).read(["id", "fare"])
    assert dict(zip(rows["id"].to_pylist(), rows["fare"].to_pylist(), strict=True)) == {
        **{f"{id_}{number}": fare for id_, fare in (("a", 3.0), ("b", 2.0), ("c", 1.0)) for number in range(2)},
        "c0": 9.0,
    }

"""The DAG `resizing`: its form, its schedule, and a run of plan and execute by Airflow on Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.doors import form_fields, request_of_arguments
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.errors import InvalidRequest
from tests.airflow.dag_runs import airflow, asset_events, last_result

RINGS = {"bucket_engine": "consistent", "buckets": 2, "buckets_max": 8}


@pytest.fixture
def ringed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with a table that has hash rings, and one that has none."""
    file = tmp_path / "tables.yaml"
    declared = {"path": "ringed", "record_key": ["id"], "partition_by": ["city"], "type": "mor", **RINGS}
    schedule = {"schedule": "@hourly", "split_bytes": 500_000_000, "max_partitions": 3}
    tables = {
        "plain": {"path": "plain", "record_key": ["id"], "type": "mor"},
        "ringed": {**declared, "schedules": {"resizing": schedule}},
    }
    file.write_text(json.dumps({"tables": tables}))
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


def test_the_form_offers_tables_with_hash_rings_and_the_fields_of_a_resize(ringed_file: Path, load_dag) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    module = load_dag("resizing")
    dag = module.dag
    assert (dag.max_active_runs, dag.catchup, dag.schedule, dag.tags) == (1, False, None, {"hudi", "resizing"})
    assert dag.params.get_param("table").schema["enum"] == ["ringed"]
    assert set(dag.params) == {"table"} | set(form_fields(ResizeRequest))
    with pytest.raises(ParamValidationError, match="split_bytes"):
        load_dag("resizing").dag.params["split_bytes"] = 0
    scheduled = vars(module)["resizing__ringed"]
    task = scheduled.get_task("plan")
    arguments = task.render_template(task.application_args, {"params": scheduled.params.dump()})
    assert scheduled.schedule == "@hourly"
    assert request_of_arguments(task.request, arguments) == ResizeRequest(split_bytes=500_000_000, max_partitions=3)


def test_a_table_without_rings_has_no_schedule_of_a_resize(ringed_file: Path, load_dag) -> None:
    ringed_file.write_text("tables: {trips: {path: x, record_key: [id], type: mor, schedules: {resizing: '@daily'}}}")
    with pytest.raises(InvalidRequest, match=r"schedules.resizing: the table has no hash rings"):
        load_dag("resizing")


def test_a_dag_run_splits_buckets_on_executors(ringed_file: Path, airflow_home: Path) -> None:
    path = str(ringed_file.parent / "ringed")
    rows = pa.table({"id": [f"k{n}" for n in range(40)], "city": ["x"] * 40, "fare": [1.0] * 40})
    table = Table.create(
        path, name="ringed", record_key=["id"], partition_by=["city"], table_type="mor", schema=rows.schema, **RINGS
    )
    table.ingest(rows)
    table.close()
    before = len(asset_events(airflow_home))
    given = {"table": "ringed", "split_bytes": 2000, "merge_bytes": 0, "engine": "spark"}
    run = airflow(airflow_home, "dags", "test", "resizing", "2026-01-02", "--conf", json.dumps(given))
    assert run.returncode == 0, run.stdout[-3000:]
    result = last_result(run.stdout)
    assert (result["app"], result["splits"], result["files"], result["engine"]) == ("resize", 2, 4, "spark")
    assert "Resized 2 buckets into 4 buckets with 40 rows of ringed" in run.stdout
    table = Table.open(path)
    assert [len(ring.nodes) for ring in table.ring()] == [4]
    assert sorted(table.read(["id"])["id"].to_pylist()) == sorted(f"k{n}" for n in range(40))
    event = {"instant": result["instant"], "action": "resize", "rows": 40}
    assert asset_events(airflow_home)[before:] == [("hudi://ringed", event)]

"""The DAG `clustering`: its form, its schedule, and runs of plan and execute by Airflow on Spark and alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.doors import form_fields
from hudi_ops.config.requests import SERVICES, ResizeRequest
from hudi_ops.config.requests.kinds import request_of_kind_arguments
from hudi_ops.errors import InvalidRequest
from tests.airflow.dag_runs import airflow, asset_events, last_result

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "fare": [3.0, 2.0, 1.0]})


@pytest.fixture
def clustered_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with three tables, of which one has a schedule of each service."""
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n"
        "  trips: {path: trips, record_key: [id], partition_by: [city], index: bloom}\n"
        "  riders:\n"
        "    path: riders\n"
        "    record_key: [id]\n"
        "    schedules:\n"
        "      clustering: {schedule: '@daily', sort_by: [fare, id], order: z-order, group_bytes: 500000000}\n"
        "  ringed:\n"
        "    path: ringed\n"
        "    record_key: [id]\n"
        "    partition_by: [city]\n"
        "    type: mor\n"
        "    bucket_engine: consistent\n"
        "    buckets: 2\n"
        "    buckets_max: 8\n"
        "    schedules:\n"
        "      resize: {schedule: '@hourly', split_bytes: 500000000, max_partitions: 3}\n"
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


def test_the_form_offers_all_tables_and_every_order(clustered_file: Path, load_dag) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    dag = load_dag("clustering").dag
    assert (dag.max_active_runs, dag.catchup, dag.schedule, dag.tags) == (1, False, None, {"hudi", "clustering"})
    assert dag.get_task("plan").downstream_task_ids == {"execute"}
    enums = {name: dag.params.get_param(name).schema["enum"] for name in ("table", "service", "order", "on_overlap")}
    assert enums["table"] == ["trips", "riders", "ringed"]
    assert enums["service"] == ["clustering", "resize"]
    assert enums["order"] == [None, "none", "linear", "z-order", "hilbert"]
    assert "| service |" in dag.doc_md
    for name, value in (("service", "compaction"), ("order", "random"), ("target_bytes", 0), ("on_overlap", "pass")):
        with pytest.raises(ParamValidationError, match=name):
            load_dag("clustering").dag.params[name] = value
    dag.params.validate()
    dag.params.update({"sort_by": "fare,id", "order": "hilbert", "small_bytes": None, "max_bytes": 1, "partitions": ""})
    dag.params.validate()


def rendered(dag: Any, **values: Any) -> list[str]:
    """The arguments of the application for a run with these values."""
    task = dag.get_task("plan")
    return list(task.render_template(task.application_args, {"params": {**dag.params.dump(), **values}}))


def test_the_fields_of_each_service_stand_in_a_section_of_their_own(clustered_file: Path, load_dag) -> None:
    dag = load_dag("clustering").dag
    sections = {name: param.schema.get("section") for name, param in dag.params.items()}
    shared = {"table", "service", "partitions", "max_bytes", "cancel", "engine", "dry_run"}
    assert {name for name, section in sections.items() if section is None} == shared
    assert {name for name, section in sections.items() if section == "Resize"} == {
        *("split_bytes", "merge_bytes", "max_partitions"),
    }
    assert sections["sort_by"] == sections["on_overlap"] == "Clustering"
    assert [*sections][:2] == ["table", "service"]
    limit = dag.params.get_param("max_bytes")
    assert (limit.schema["type"], limit.value) == (["null", "integer"], None)
    assert str(limit.description).startswith("clustering: Stop adding file groups")
    assert "resize: Stop adding buckets" in str(limit.description)


@pytest.mark.parametrize("service", ["clustering", "resize"])
def test_a_run_has_the_request_of_the_chosen_service(clustered_file: Path, load_dag, service: str) -> None:
    dag = load_dag("clustering").dag
    model = SERVICES[service]
    assert request_of_kind_arguments(dag.get_task("plan").request, rendered(dag, service=service)) == model()
    given = {"max_bytes": 5, "partitions": "city=x"}
    made = request_of_kind_arguments(dag.get_task("plan").request, rendered(dag, service=service, **given))
    assert made == model(max_bytes=5, partitions=("city=x",))


@pytest.mark.parametrize(
    ("service", "other", "values"),
    [("resize", "clustering", {"sort_by": "fare"}), ("clustering", "resize", {"split_bytes": 7_000_000})],
)
def test_a_field_of_the_other_service_fails_the_task_before_anything_starts(
    clustered_file: Path, load_dag, service: str, other: str, values: dict[str, Any]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    dag = load_dag("clustering").dag
    task = dag.get_task("plan")
    task.application_args = rendered(dag, service=service, **values)
    with pytest.raises(
        AirflowFailException, match=f"{next(iter(values))} is a field of {other}, and the service is {service}"
    ):
        task.execute({})


def test_a_schedule_of_a_resize_is_a_dag_of_its_own(clustered_file: Path, load_dag) -> None:
    module = load_dag("clustering")
    dag = vars(module)["resize__ringed"]
    assert set(dag.params) == {"table", "service"} | set(form_fields(ResizeRequest))
    assert (dag.schedule, dag.tags) == ("@hourly", {"hudi", "resize"})
    assert dag.params.get_param("service").schema["enum"] == ["resize"]
    assert not any("section" in param.schema for param in dag.params.values())
    made = request_of_kind_arguments(dag.get_task("plan").request, rendered(dag))
    assert made == ResizeRequest(split_bytes=500_000_000, max_partitions=3)
    assert "--service=resize" in rendered(dag)
    assert "order" not in vars(module)["resize__ringed"].params
    assert "split_bytes" not in vars(module)["clustering__riders"].params


def test_a_table_without_rings_has_no_schedule_of_a_resize(clustered_file: Path, load_dag) -> None:
    clustered_file.write_text("tables: {trips: {path: x, record_key: [id], type: mor, schedules: {resize: '@daily'}}}")
    with pytest.raises(InvalidRequest, match=r"schedules.resize: the table has no hash rings"):
        load_dag("clustering")


def test_a_schedule_has_the_values_of_its_entry(clustered_file: Path, load_dag) -> None:
    dag = vars(load_dag("clustering"))["clustering__riders"]
    assert (dag.schedule, dag.params.get_param("table").schema["enum"]) == ("@daily", ["riders"])
    wanted = {"--service=clustering", "--sort-by=fare,id", "--order=z-order", "--group-bytes=500000000", "--mode=plan"}
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
    given = {"table": "trips", "service": "clustering", "sort_by": "fare", "engine": "spark"}
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


@pytest.fixture
def ringed(clustered_file: Path) -> Path:
    """A table with two buckets in one partition, and rows for more."""
    path = clustered_file.parent / "ringed"
    table = Table.create(
        str(path),
        name="ringed",
        record_key=["id"],
        partition_by=["city"],
        table_type="mor",
        bucket_engine="consistent",
        buckets=2,
        buckets_max=8,
        schema=TRIPS.schema,
    )
    table.ingest(pa.table({"id": [f"k{n}" for n in range(40)], "city": ["x"] * 40, "fare": [1.0] * 40}))
    table.close()
    return path


def test_a_dag_run_splits_buckets_on_executors(ringed: Path, airflow_home: Path) -> None:
    before = len(asset_events(airflow_home))
    given = {"table": "ringed", "service": "resize", "split_bytes": 2000, "merge_bytes": 0, "engine": "spark"}
    run = airflow(airflow_home, "dags", "test", "clustering", "2026-01-02", "--conf", json.dumps(given))
    assert run.returncode == 0, run.stdout[-3000:]
    result = last_result(run.stdout)
    assert (result["app"], result["service"], result["splits"], result["files"]) == ("cluster", "resize", 2, 4)
    assert result["engine"] == "spark"
    assert "Resized 2 buckets into 4 buckets with 40 rows of ringed" in run.stdout
    table = Table.open(str(ringed))
    assert [len(ring.nodes) for ring in table.ring()] == [4]
    assert sorted(table.read(["id"])["id"].to_pylist()) == sorted(f"k{n}" for n in range(40))
    event = {"instant": result["instant"], "action": "resize", "rows": 40}
    assert asset_events(airflow_home)[before:] == [("hudi://ringed", event)]


@pytest.mark.soak("full has this of compactions")
def test_execute_run_alone_takes_the_oldest_resize(ringed: Path, airflow_home: Path) -> None:
    instant = Table.open(str(ringed)).resize.plan(split_bytes=2000, merge_bytes=0).instant
    given = json.dumps({"table": "ringed", "service": "resize", "engine": "local"})
    call = ("tasks", "test", "clustering", "execute", "2026-04-02", "--task-params", given)
    result = last_result((run := airflow(airflow_home, *call)).stdout + run.stderr)
    assert (result["instant"], result["service"], result["splits"]) == (instant, "resize", 2)
    assert Table.open(str(ringed)).plans() == []

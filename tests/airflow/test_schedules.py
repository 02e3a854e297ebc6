"""Schedules of tables.yaml: one DAG for each table and service, found by Airflow's default discovery.

Goal: a schedule in tables.yaml runs with the values that stand there, and a mistake names file, table and field.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hudi_ops.config.doors import add_arguments, request_of
from hudi_ops.config.requests import SERVICES
from hudi_ops.errors import InvalidRequest
from tests.airflow.dag_runs import DAG_IDS

ROOT = Path(__file__).resolve().parents[2]
TABLES = """
tables:
  trips:
    path: trips
    record_key: [id]
    type: mor
    source: landing
    schedules:
      ingestion: "*/10 * * * *"
      compaction: "@hourly"
      clean: {schedule: "@daily", policy: hours, retain: 48}
      verify: {schedule: "@daily", deep: true, index: false}
  riders:
    path: riders
    record_key: [id]
    schedules:
      ingestion: {schedule: "0 6 * * *", source: drop, operation: insert, max_files: 5, min_age_s: 60}
      indexing: {schedule: "@weekly", partitions: [record_index]}
"""
FORMS = set(DAG_IDS)


@pytest.fixture
def scheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tables.yaml"
    file.write_text(TABLES)
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


def test_default_discovery_finds_a_dag_for_each_entry_and_the_forms(scheduled: Path, airflow_home: Path) -> None:
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag

    assert conf.getboolean("core", "dag_discovery_safe_mode")
    bag = DagBag(str(ROOT / "dags"))
    assert bag.import_errors == {}
    timings = {name: dag.schedule for name, dag in bag.dags.items() if name not in FORMS}
    assert timings == {
        "ingestion__trips": "*/10 * * * *",
        "compaction__trips": "@hourly",
        "clean__trips": "@daily",
        "verify__trips": "@daily",
        "ingestion__riders": "0 6 * * *",
        "indexing__riders": "@weekly",
    }
    assert set(bag.dags) >= FORMS
    assert {bag.dags[name].schedule for name in FORMS - {"health"}} == {None}
    assert bag.dags["health"].schedule == "@hourly"
    assert all((dag.catchup, dag.max_active_runs) == (False, 1) for dag in bag.dags.values())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ingestion__trips", {}),
        ("verify__trips", {"deep": True, "index": False}),
        ("ingestion__riders", {"source": "drop", "operation": "insert", "max_files": 5, "min_age_s": 60.0}),
        ("indexing__riders", {"partitions": ("record_index",)}),
        ("compaction__trips", {}),
        ("clean__trips", {"policy": "hours", "retain": 48}),
    ],
)
def test_a_run_of_a_schedule_has_its_values_and_its_table(
    scheduled: Path, load_dag, name: str, says: dict[str, object]
) -> None:
    service, _, table = name.partition("__")
    dag = vars(load_dag(service))[name]
    task = next(iter(dag.tasks))
    arguments = task.render_template(task.application_args, {"params": dag.params.dump()})
    assert f"--table={table}" in arguments
    assert dag.params.get_param("table").schema["enum"] == [table]
    parser = argparse.ArgumentParser()
    add_arguments(parser, SERVICES[service])
    assert request_of(SERVICES[service], parser.parse_known_args(arguments)[0]) == SERVICES[service](**says)
    assert [asset.name for asset in task.inlets] == [f"hudi://{table}"]
    # Only what completes instants of the table is shown as a producer of its asset.
    producers = {task.task_id for task in dag.tasks if task.outlets}
    assert producers == {"ingestion": {"ingest"}, "compaction": {"execute"}, "clean": {"execute"}}.get(service, set())


def test_values_that_are_written_as_text_are_those_of_the_form(tables_file: Path, load_dag, airflow_home: Path) -> None:
    tables_file.write_text(
        "tables: {trips: {path: trips, record_key: [id], type: mor, schedules: {"
        "compaction: {schedule: '@hourly', max_bytes: '5000000'}, "
        "indexing: {schedule: '@daily', rebuild: 'yes', partitions: [files]}}}}"
    )
    assert vars(load_dag("compaction"))["compaction__trips"].params.dump()["max_bytes"] == 5_000_000
    assert vars(load_dag("indexing"))["indexing__trips"].params.dump()["rebuild"] is True


def test_a_scheduled_clean_takes_what_the_table_declares(tables_file: Path, load_dag, airflow_home: Path) -> None:
    tables_file.write_text(
        "tables: {trips: {path: trips, record_key: [id], clean: {policy: hours, retain: 48}, archive: {keep_min: 7, keep_max: 9}, "
        "schedules: {clean: {schedule: '@hourly', retain: 24}, archive: '@daily'}}}"
    )
    form = vars(load_dag("clean"))["clean__trips"].params.dump()
    assert (form["policy"], form["retain"]) == ("hours", 24)
    form = vars(load_dag("archive"))["archive__trips"].params.dump()
    assert (form["keep_min"], form["keep_max"]) == (7, 9)


@pytest.mark.parametrize("given", [True, False])
def test_a_field_whose_default_is_true_can_be_switched_off(scheduled: Path, load_dag, given: bool) -> None:
    task = load_dag("verify").dag.get_task("verify")
    values = {**load_dag("verify").dag.params.dump(), "index": given}
    arguments = task.render_template(task.application_args, {"params": values})
    parser = argparse.ArgumentParser()
    add_arguments(parser, SERVICES["verify"])
    assert request_of(SERVICES["verify"], parser.parse_known_args(arguments)[0]).index is given


@pytest.mark.parametrize(
    ("schedules", "says"),
    [
        ("{ingest: '@hourly'}", "trips.schedules: unknown service 'ingest'.*Did you mean 'ingestion'"),
        ("{ingestion: 5}", "trips.schedules: ingestion: must be a cron expression, or a mapping"),
        ("{ingestion: {schedule: '@hourly', source: '-x'}}", "trips.schedules: ingestion: source cannot be '-x'"),
        ("{ingestion: {source: x}}", "trips.schedules: ingestion: must be a cron expression, or a mapping"),
        (
            "{ingestion: {schedule: '@daily', sorce: x}}",  # codespell:ignore sorce
            "ingestion.sorce: unknown setting. Did you mean 'source'",  # codespell:ignore sorce
        ),
        (
            "{ingestion: {schedule: '@daily', operation: merge}}",
            "ingestion: unknown operation 'merge', expected upsert or",
        ),
        ("{ingestion: {schedule: '@daily', dry_run: true}}", "ingestion.dry_run: unknown setting"),
        ("{ingestion: {schedule: '@daily', source: 's3://KEY:SECRET@b/x'}}", "must hold no user and password"),
        ("{compaction: '@hourly'}", "schedules.compaction: the table is copy-on-write"),
        ("{ingestion: '@hourly'}", "schedules.ingestion: names no source, and the table has none"),
        ("[ingestion]", "trips.schedules: must be a mapping of services"),
    ],
)
def test_a_mistake_is_an_import_error_that_names_file_table_and_field(
    scheduled: Path, load_dag, schedules: str, says: str
) -> None:
    scheduled.write_text(f"tables:\n  trips: {{path: x, record_key: [id], schedules: {schedules}}}\n")
    with pytest.raises(InvalidRequest, match=says) as caught:
        load_dag("ingestion")
    assert str(scheduled) in str(caught.value)
    assert "tables.trips" in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("schedule", ["*/10 * *", "@hourli", "61 * * * *", ""])
def test_a_wrong_cron_expression_is_an_import_error_of_the_dag(
    scheduled: Path, airflow_home: Path, schedule: str
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    scheduled.write_text(
        f"tables:\n  trips: {{path: x, record_key: [id], source: y, schedules: {{ingestion: '{schedule}'}}}}\n"
    )
    (error,) = {text for file, text in DagBag(str(ROOT / "dags")).import_errors.items() if "ingestion" in file}
    assert f"{scheduled}" in error
    assert "tables.trips.schedules" in error


@pytest.mark.parametrize("schedule", ["@once", "@continuous", "@daily", "0 0 1 * *"])
def test_every_schedule_of_airflow_is_taken(scheduled: Path, load_dag, schedule: str) -> None:
    scheduled.write_text(
        f"tables:\n  trips: {{path: x, record_key: [id], source: y, schedules: {{ingestion: '{schedule}'}}}}\n"
    )
    assert vars(load_dag("ingestion"))["ingestion__trips"].schedule == schedule

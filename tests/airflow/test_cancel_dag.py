"""The DAG `cancel`: a form, and one task, which needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.config.requests import CancelRequest
from hudi_ops.errors import InvalidRequest
from tests.airflow.dag_runs import airflow, last_result

INSTANT = "20261124132846087"


def test_the_dag_keeps_the_house_rules(tables_file: Path, load_dag) -> None:
    from hudi_ops.plugins.hudi_ops_submit import HudiOpsProcessOperator

    dag = load_dag("cancel").dag
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, dag.schedule) == ("cancel", 1, False, None)
    assert dag.tags == {"hudi", "cancel"}
    assert dag.doc_md
    (task,) = dag.tasks
    assert type(task) is HudiOpsProcessOperator
    assert set(dag.params) == {"table", "instant", "reason", "wait_s", "force"}
    assert dag.params.get_param("table").schema["enum"] == ["trips", "riders"]


def test_a_cancel_is_tried_for_longer_than_a_lease_lasts(
    tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUDI_OPS_RETRIES")
    task = load_dag("cancel").dag.get_task("cancel")
    assert sum(task.retry_delay.total_seconds() * 2**tried for tried in range(task.retries)) > 120


@pytest.mark.parametrize(("name", "value"), [("table", "plain"), ("wait_s", -1), ("wait_s", 4_000), ("force", "maybe")])
def test_the_form_refuses_bad_values(tables_file: Path, load_dag, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load_dag("cancel").dag.params
    with pytest.raises(ParamValidationError, match=name):
        params[name] = value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"instant": "2026"}, "'2026' is not an instant"),
        ({"instant": "-rf"}, "instant cannot be '-rf'"),
        ({"instant": INSTANT, "reason": "  "}, "reason cannot be"),
        ({"instant": INSTANT, "reason": "two\nlines"}, "reason cannot be"),
        ({"instant": INSTANT, "reason": "a bell\x07"}, "reason cannot be"),
        ({"instant": INSTANT, "reason": "x" * 100_000}, "reason cannot be"),
        ({"reason": "not now"}, "reason is given without an instant"),
        ({"force": True}, "force is given without an instant"),
    ],
)
def test_a_wrong_instant_or_reason_fails_before_anything_is_started(
    tables_file: Path, load_dag, given: dict, says: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    dag = load_dag("cancel").dag
    task = dag.get_task("cancel")
    task.application_args = task.render_template(
        task.application_args, {"params": {**dag.params.dump(), "table": "trips", **given}}
    )
    with pytest.raises(AirflowFailException, match=says):
        task.execute({})


def test_a_schedule_cancels_what_is_overdue(tables_file: Path, load_dag, airflow_home: Path) -> None:
    tables_file.write_text("tables: {trips: {path: trips, record_key: [id], schedules: {cancel: '@hourly'}}}\n")
    dag = vars(load_dag("cancel"))["cancel__trips"]
    assert (dag.schedule, dag.params.dump()["instant"]) == ("@hourly", "")
    tables_file.write_text(tables_file.read_text().replace("'@hourly'", "{schedule: '@daily', instant: '1'}"))
    with pytest.raises(InvalidRequest, match="instant: unknown setting"):
        load_dag("cancel")


def test_a_killed_task_leaves_its_plan_or_cancels_it_as_the_environment_says(
    tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_dag("compaction").dag.get_task("execute").on_stop == "leave"
    monkeypatch.setenv("HUDI_OPS_ON_STOP", "cancel")
    assert load_dag("compaction").dag.get_task("execute").on_stop == "cancel"
    monkeypatch.setenv("HUDI_OPS_ON_STOP", "kill")
    with pytest.raises(InvalidRequest, match="HUDI_OPS_ON_STOP cannot be 'kill'"):
        load_dag("compaction")


def test_a_run_cancels_a_plan_without_spark(tables_file: Path, airflow_home: Path) -> None:
    from hudi_ops import Table

    path = str(tables_file.parent / "trips")
    table = Table.create(path, name="trips", record_key=["id"], schema="id string, v long", table_type="mor")
    for value in range(2):
        table.ingest(pa.table({"id": ["a"], "v": [value]}))
    instant = table.compaction.plan(cancel="cancellable").instant
    said = json.dumps({"table": "trips", "instant": instant, "reason": "the cluster is needed elsewhere"})
    # The connection to Spark leads nowhere: this DAG does not need it.
    nowhere = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "spark://nowhere"})}
    run = airflow(airflow_home, "dags", "test", "cancel", "2026-01-01", "--conf", said, **nowhere)
    assert run.returncode == 0, run.stdout[-3000:]
    result = last_result(run.stdout)
    assert (result["app"], result["state"], result["instant"], result["files"]) == ("cancel", "aborted", instant, 0)
    assert f"Cancelled compaction {instant} of trips: the cluster is needed elsewhere" in run.stdout
    (row,) = table.plans(instant)
    assert (row.state, row.reason) == ("aborted", "the cluster is needed elsewhere")
    assert "cancel/cancel" in row.cancelled_by, "the run that asked for it is named"


def test_the_request_is_checked_without_a_form() -> None:
    assert CancelRequest(instant=INSTANT).wait_s == 30.0
    with pytest.raises(InvalidRequest, match="is not an instant"):
        CancelRequest(instant="20261124")

"""The DAG `health`: judges all tables, 100 a task, and gives one alarm for each table whose trouble is tolerated no longer.

Method: real tables on disk, damaged and mended between runs; the function of HUDI_OPS_ON_FAILURE writes down its calls.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest
from tests.airflow.dag_runs import airflow

ALERTS = """
import json, os

def post(context):
    if "table" in context:
        called = [context["table"], context["params"]["table"], context["verdict"]["table"], str(context["exception"])]
    else:
        called = [context["task_instance"].task_id]
    with open(os.environ["ALERTS"], "a") as out:
        print(json.dumps(called), file=out)
    if os.environ.get("ALERTS_FAIL") in called:
        raise OSError("the webhook does not answer")
"""
READ_COST = "targets: {read_cost: {log_files: 0, tolerate: 0s}}"


def made(path: Path, **options: Any) -> Path:
    """A table with one row, or with rows in a log file."""
    table = Table.create(str(path), name="t", record_key=["id"], schema="id string, v long", **options)
    for value in range(2 if options else 1):
        table.ingest(pa.table({"id": ["a"], "v": [value]}))
    table.close()
    return path


@pytest.fixture
def alarms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """Returns what the function was called with since the last call of this one."""
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "health_alerts.py").write_text(ALERTS)
    file = tmp_path / "alerts"
    monkeypatch.setenv("ALERTS", str(file))
    monkeypatch.setenv("HUDI_OPS_ON_FAILURE", "health_alerts.post")
    monkeypatch.syspath_prepend(str(tmp_path / "hooks"))

    def taken() -> list[list[str]]:
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    return taken


def declare(file: Path, tables: dict[str, str]) -> None:
    file.write_text("tables:\n" + "".join(f"  {name}: {{{text}, record_key: [id]}}\n" for name, text in tables.items()))


def result_of(home: Path, run_id: str) -> dict[str, Any]:
    """What the last task of a run returned."""
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        asked = "select value from xcom where run_id = ? and task_id = 'report' and key = 'return_value'"
        ((value,),) = database.execute(asked, (run_id,)).fetchall()
    found: dict[str, Any] = json.loads(value)
    return found


@pytest.mark.parametrize(
    ("given", "schedule"),
    [(None, "@hourly"), ("*/5 * * * *", "*/5 * * * *"), ("", None), (" None ", None), ("@hourli", InvalidRequest)],
)
def test_the_dag_runs_each_hour_or_as_the_environment_says(
    tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch, given: str | None, schedule: Any
) -> None:
    if given is not None:
        monkeypatch.setenv("HUDI_OPS_HEALTH_SCHEDULE", given)
    if schedule is InvalidRequest:
        with pytest.raises(InvalidRequest, match="HUDI_OPS_HEALTH_SCHEDULE: '@hourli' is no cron expression"):
            load_dag("health")
        return
    declare(tables_file, {f"t{number}": f"path: t{number}" for number in range(250)})
    dag = load_dag("health").dag
    assert (dag.dag_id, dag.schedule, dag.max_active_runs, dag.catchup) == ("health", schedule, 1, False)
    assert dag.tags == {"hudi", "health"}
    judge, report = dag.get_task("judge"), dag.get_task("report")
    parts = judge.expand_input.value["names"]
    assert [len(part) for part in parts] == [100, 100, 50]
    assert {name for part in parts for name in part} == {f"t{number}" for number in range(250)}
    assert report.upstream_task_ids == {"judge"}
    assert judge.execution_timeout
    assert report.execution_timeout


def test_250_tables_are_judged_by_three_tasks_and_an_alarm_is_given_once(
    tables_file: Path, load_dag, airflow_home: Path, monkeypatch: pytest.MonkeyPatch, alarms
) -> None:
    folder = tables_file.parent
    whole = made(folder / "t000")
    for number in range(1, 247):
        shutil.copytree(whole, folder / f"t{number:03}", copy_function=os.link)
    shutil.copytree(whole, folder / "broken")
    (folder / "broken" / ".hoodie" / "hoodie.properties").write_bytes(b"\x00 no settings")
    made(folder / "trips", table_type="mor")
    tables = {f"t{number:03}": f"path: t{number:03}" for number in range(247)}
    tables |= {
        "far": "path: 's3://bucket/far'",
        "broken": "path: broken",
        "trips": f"path: trips, type: mor, {READ_COST}",
    }
    declare(tables_file, tables)
    for name, value in {"ENDPOINT_URL": "http://127.0.0.1:9", "REGION": "x", "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("PYTHONPATH", str(folder / "hooks"), prepend=":")

    first = airflow(airflow_home, "dags", "test", "health")
    assert first.returncode == 1, first.stdout[-3000:]
    assert sorted(one[0] for one in alarms()) == ["broken", "trips"]
    with closing(sqlite3.connect(airflow_home / "airflow.db")) as database:
        tasks = database.execute(
            "select task_id, map_index, state from task_instance where dag_id = 'health' order by 1, 2"
        )
        states = tasks.fetchall()
        rows = database.execute("select task_id, value from xcom where dag_id = 'health' and key = 'return_value'")
        results = [(task, json.loads(value)) for task, value in rows]
    assert states == [*(("judge", number, "success") for number in range(3)), ("report", -1, "failed")]
    verdicts = {name: one for task, result in results if task == "judge" for name, one in result.items()}
    (summary,) = [result for task, result in results if task == "report"]
    assert verdicts.keys() == summary.keys() == tables.keys()
    exit_codes = {name: one["exit_code"] for name, one in verdicts.items() if one["status"] != "healthy"}
    assert exit_codes == {"far": 13, "broken": 20, "trips": 4}
    assert summary["t000"] == {"status": "healthy", "exit_code": 0, "missed": [], "unknown": [], "since": {}}
    (since,) = [one["since"] for one in verdicts["trips"]["checks"] if one["check"] == "read_cost"]
    assert summary["trips"] == {
        "status": "missed",
        "exit_code": 4,
        "missed": ["read_cost"],
        "unknown": [],
        "since": {"read_cost": since},
    }
    assert "2 of 250 tables miss a target for longer than tolerated" in first.stdout
    assert "hudi-ops compact trips" in first.stdout

    # The next run: what `dags test` calls, without another start of Airflow.
    second = load_dag("health").dag.test()
    assert str(second.state) == "failed"
    assert alarms() == []
    assert result_of(airflow_home, second.run_id)["trips"]["since"] == {"read_cost": since}


def test_an_alarm_is_given_again_after_a_table_was_well_and_after_the_function_failed(
    tables_file: Path, load_dag, airflow_home: Path, monkeypatch: pytest.MonkeyPatch, alarms
) -> None:
    folder = tables_file.parent
    trips, riders = made(folder / "trips", table_type="mor"), made(folder / "riders")
    tables = {"trips": f"path: trips, type: mor, {READ_COST}", "riders": "path: riders"}
    declare(tables_file, tables)
    settings = riders / ".hoodie" / "hoodie.properties"
    whole = settings.read_bytes()

    def run(**conf: str) -> tuple[str, dict[str, Any], list[str]]:
        """State of a run, its result by table, and the tables whose alarm was given."""
        found = load_dag("health").dag.test(run_conf=conf)
        return str(found.state), result_of(airflow_home, found.run_id), [one[0] for one in alarms()]

    state, result, given = run()
    assert (state, given, set(result)) == ("failed", ["trips"], {"trips", "riders"})
    since = result["trips"]["since"]
    # What cannot be read is not well: the time of the missed target and its alarm stay.
    trips.rename(folder / "away")
    state, result, given = run()
    assert (state, given, result["trips"]["status"], result["trips"]["missed"]) == ("success", [], "unknown", [])
    (folder / "away").rename(trips)
    state, result, given = run()
    assert (state, given, result["trips"]["since"]) == ("failed", [], since)
    # The function fails for one table, and is called for it again.
    settings.write_bytes(b"\x00 no settings")
    monkeypatch.setenv("ALERTS_FAIL", "riders")
    state, result, given = run()
    assert (state, given, result["riders"]["exit_code"]) == ("failed", ["riders"], 20)
    monkeypatch.delenv("ALERTS_FAIL")
    assert run()[2] == ["riders"]
    assert run()[2] == []
    # The form chooses one table; well, it has an alarm again when it is missed again.
    Table.open(str(trips)).compaction.run(threshold=1)
    state, result, given = run(table="trips")
    assert (state, given) == ("success", [])
    assert result == {"trips": {"status": "healthy", "exit_code": 0, "missed": [], "unknown": [], "since": {}}}
    Table.open(str(trips)).ingest(pa.table({"id": ["a"], "v": [9]}))
    assert run()[2] == ["trips"]
    # A table that is declared no longer is gone.
    del tables["trips"]
    declare(tables_file, tables)
    settings.write_bytes(whole)
    state, result, given = run()
    assert (state, given, set(result)) == ("success", [], {"riders"})


def test_a_task_that_fails_for_itself_fails_the_run_and_calls_the_function_as_any_task_does(
    tables_file: Path, load_dag, airflow_home: Path, alarms
) -> None:
    found = load_dag("health").dag.test(run_conf={"tables": "trips"})
    assert str(found.state) == "failed"
    assert alarms() == [["judge"]]

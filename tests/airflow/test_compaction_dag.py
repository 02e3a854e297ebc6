"""The DAG `compaction`: plan and execute are two applications, and the second gets the first one's plan, or is skipped."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.airflow.dag_runs import airflow, asset_events, last_result

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})


@pytest.fixture
def mor_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with a merge-on-read table and one that is not."""
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n"
        "  plain: {path: plain, record_key: [id]}\n"
        "  trips: {path: trips, record_key: [id], partition_by: [city], ordering: ts, type: mor, source: landing}\n"
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


@pytest.mark.quick
def test_the_dag_keeps_the_house_rules(mor_file: Path, load_dag) -> None:
    dag = load_dag("compaction").dag
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, dag.schedule) == ("compaction", 1, False, None)
    assert dag.tags == {"hudi", "compaction"}
    assert dag.doc_md
    assert dag.get_task("plan").downstream_task_ids == {"execute"}


def test_an_executor_is_tried_for_longer_than_a_lease_lasts(
    mor_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUDI_OPS_RETRIES")
    execute = load_dag("compaction").dag.get_task("execute")
    delays = [execute.retry_delay.total_seconds() * 2**tried for tried in range(execute.retries)]
    assert sum(delays) > 120


@pytest.mark.parametrize(
    ("name", "conf", "says"),
    [
        ("compaction", {"table": "trips", "dry_run": True}, None),
        ("compaction", {"least": 2}, "unknown keyword 'least'"),
        ("compaction", None, None),
        ("compaction", {"dryrun": True}, "unknown keyword 'dryrun'; did you mean 'dry_run'"),
        ("cancel", {"force": True, "x": 1}, "unknown keyword 'x'"),
    ],
)
def test_a_name_that_the_form_does_not_have_fails_each_task_before_it_starts(
    mor_file: Path, load_dag, name: str, conf: dict | None, says: str | None
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    for task in load_dag(name).dag.tasks:
        context = {"dag_run": SimpleNamespace(conf=conf)}
        if says is None:
            task._pre_execute_hook(context)
        else:
            with pytest.raises(AirflowFailException, match=says):
                task._pre_execute_hook(context)


def test_a_schedule_is_a_setting(mor_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_OPS_COMPACTION_SCHEDULE", "0 * * * *")
    assert load_dag("compaction").dag.schedule == "0 * * * *"


def test_the_form_offers_merge_on_read_tables_and_every_strategy(mor_file: Path, load_dag) -> None:
    from hudi_ops.services.compaction.choose import STRATEGIES

    params = load_dag("compaction").dag.params
    assert params.get_param("table").schema["enum"] == ["trips"]
    assert params.get_param("strategy").schema["enum"] == list(STRATEGIES)


def test_where_no_table_is_declared_merge_on_read_the_dag_says_so_and_a_run_fails(
    tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("HUDI_OPS_COMPACTION_SCHEDULE", "@hourly")
    dag = load_dag("compaction").dag
    note = f"No table of {tables_file} is declared as merge-on-read (type: mor), so there is nothing to compact."
    field = dag.params.get_param("table")
    assert (field.schema["enum"], dag.schedule) == ([""], None)
    assert note in field.description
    assert dag.doc_md.startswith(f"**{note}**")
    dag.params.validate()
    with pytest.raises(AirflowFailException, match=r"type: mor.*Next: add a table"):
        dag.get_task("plan").execute({})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"strategy": "age", "threshold": 7200},
        {"threshold": 0},
        {"max_bytes": 50_000_000_000, "partitions": "origin=JFK,origin=L*"},
        {"partitions": None, "engine": "local"},
    ],
)
def test_the_form_takes_good_values(mor_file: Path, load_dag, given: dict) -> None:
    params = load_dag("compaction").dag.params
    params.update(given)
    params.validate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("table", "plain"),
        ("strategy", "newest"),
        ("threshold", -1),
        ("max_bytes", 0),
        ("engine", "flink"),
    ],
)
def test_the_form_refuses_bad_values(mor_file: Path, load_dag, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load_dag("compaction").dag.params
    with pytest.raises(ParamValidationError, match=name):
        params[name] = value


@pytest.fixture
def trips(mor_file: Path) -> Path:
    """A table with log files upon both of its file groups."""
    from hudi_ops import Table

    path = mor_file.parent / "trips"
    table = Table.create(
        str(path),
        name="trips",
        record_key=["id"],
        schema=TRIPS.schema,
        partition_by=["city"],
        ordering="ts",
        table_type="mor",
    )
    table.ingest(TRIPS)
    table.ingest(TRIPS.set_column(2, "ts", pa.array([2, 2, 2])).set_column(3, "fare", pa.array([9.0, 8.0, 7.0])))
    table.close()
    return path


def fares(path: Path) -> dict[str, float]:
    from hudi_ops import Table

    rows = Table.open(str(path)).read(["id", "fare"])
    return dict(zip(rows["id"].to_pylist(), rows["fare"].to_pylist(), strict=True))


def left(path: Path) -> str:
    from hudi_ops import Table

    return Table.open(str(path)).compaction.explain().note


def test_a_dag_run_plans_and_executes_and_the_next_skips(trips: Path, airflow_home: Path) -> None:
    before = len(asset_events(airflow_home))
    first = airflow(airflow_home, "dags", "test", "compaction", "2026-01-01", "--conf", '{"table": "trips"}')
    assert first.returncode == 0, first.stdout[-3000:]
    result = last_result(first.stdout)
    assert (result["app"], result["ok"], result["slices"], result["log_files"]) == ("compact", True, 2, 2)
    assert result["engine"] == "local"
    assert "one process is faster" in result["engine_reason"]
    assert fares(trips) == {"a": 9.0, "b": 8.0, "c": 7.0}
    assert left(trips) == "nothing to compact: no file group has log files"
    compacted = result["instant"]
    second = airflow(airflow_home, "dags", "test", "compaction", "2026-01-02", "--conf", '{"table": "trips"}')
    assert second.returncode == 0, second.stdout[-3000:]
    result = last_result(second.stdout)
    assert (result["instant"], result["note"]) == (None, "nothing to compact: no file group has log files")
    assert "nothing to do: the task before it said so" in second.stdout
    # Neither a published plan nor a run without work is an event.
    event = {"instant": compacted, "action": "compaction", "rows": 3}
    assert asset_events(airflow_home)[before:] == [("hudi://trips", event)]


def test_a_plan_that_was_left_is_executed_on_executors_and_once(trips: Path, airflow_home: Path) -> None:
    from hudi_ops import Table

    planned = Table.open(str(trips)).compaction.plan(partitions=["city=x"]).instant
    configuration = json.dumps({"table": "trips", "engine": "spark"})
    run = airflow(airflow_home, "dags", "test", "compaction", "2026-02-01", "--conf", configuration)
    assert run.returncode == 0, run.stdout[-3000:]
    result = last_result(run.stdout)
    assert (result["instant"], result["slices"], result["engine"]) == (planned, 1, "spark")
    assert fares(trips) == {"a": 9.0, "b": 8.0, "c": 7.0}
    # A retry of the same task finds it done.
    again = Table.open(str(trips)).compaction.execute(instant=planned)
    assert (again.instant, again.slices, again.note) == (planned, 0, "it was completed before")


@pytest.mark.soak("runs of the DAG in full have this task")
def test_the_plan_task_runs_alone(trips: Path, airflow_home: Path) -> None:
    run = airflow(
        airflow_home, "tasks", "test", "compaction", "plan", "2026-03-01", "--task-params", '{"table": "trips"}'
    )
    # Airflow exits with 0 here even when the task fails: only the result counts.
    result = last_result(run.stdout + run.stderr)
    assert (result["ok"], result["counts"]["planned"]) == (True, 2)
    assert f"taken by others (compaction {result['instant']})" in left(trips)


def test_execute_run_alone_takes_the_oldest_plan_or_says_that_there_is_none(trips: Path, airflow_home: Path) -> None:
    from hudi_ops import Table

    planned = [Table.open(str(trips)).compaction.plan(partitions=[f"city={city}"]).instant for city in "xy"]
    alone = ("tasks", "test", "compaction", "execute", "2026-04-01", "--task-params", '{"table": "trips"}')
    for instant, slices, note in ((planned[0], 1, ""), (planned[1], 1, ""), (None, 0, "no compaction is planned")):
        run = airflow(airflow_home, *alone)
        result = last_result(run.stdout + run.stderr)
        assert (result["ok"], result["instant"], result["slices"], result["note"]) == (True, instant, slices, note)
    assert fares(trips) == {"a": 9.0, "b": 8.0, "c": 7.0}

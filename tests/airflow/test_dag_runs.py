"""The DAG's runs for real: Airflow's command line, spark-submit, a table on disk."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.airflow.dag_runs import airflow, asset_events, last_result
from tests.services.cancel.rewriting import RewriteRequest, execute_rewrite, plan_rewrite

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})


@pytest.fixture
def trips(tables_file: Path) -> Path:
    from hudi_ops import Table

    path = tables_file.parent / "trips"
    Table.create(
        str(path), name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"], ordering="ts", buckets=1
    ).close()
    (tables_file.parent / "landing").mkdir()
    return path


def rows(path: Path) -> list[dict]:
    from hudi_ops import Table

    table = Table.open(str(path))
    try:
        return table.read(columns=["id", "city", "ts", "fare"]).sort_by("id").to_pylist()
    finally:
        table.close()


@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=pytest.mark.soak("a compaction runs on executors in full"))]
)
def test_a_dag_run_takes_each_file_once(trips: Path, airflow_home: Path, engine: str) -> None:
    from hudi_ops import Table

    landing = trips.parent / "landing"
    pyarrow.parquet.write_table(TRIPS, landing / "1.parquet")
    configuration = json.dumps({"table": "trips", "engine": engine})
    first = airflow(airflow_home, "dags", "test", "ingestion", "2026-01-01", "--conf", configuration)
    assert first.returncode == 0, first.stdout[-3000:]
    result = last_result(first.stdout)
    assert (result["ok"], result["inserted"], result["engine"], result["files"]) == (True, 3, engine, 1)
    assert rows(trips) == TRIPS.to_pylist()
    event = {"instant": result["instant"], "action": "upsert", "rows": 3}
    assert asset_events(airflow_home)[-1] == ("hudi://trips", event)
    assert (
        f"Ingested 3 rows (3 inserted) from 1 file into trips in {result['seconds']:.1f} s, instant {result['instant']}"
        in (first.stdout)
    )
    if engine == "spark":
        return
    # A second run finds one more file, in another format, and leaves the first alone. A plan in its way makes way.
    ended = plan_rewrite(Table.open(str(trips)))
    update = pa.table({"id": ["b"], "city": ["x"], "ts": [2], "fare": [9.5]})
    pyarrow.csv.write_csv(update, landing / "2.csv")
    second = airflow(airflow_home, "dags", "test", "ingestion", "2026-01-02", "--conf", configuration)
    assert second.returncode == 0, second.stdout[-3000:]
    result = last_result(second.stdout)
    assert (result["files"], result["updated"], result["inserted"]) == (1, 1, 0)
    assert [row["fare"] for row in rows(trips)] == [1.0, 9.5, 3.0]
    (plan,) = Table.open(str(trips)).plans(ended)
    assert (plan.state, plan.reason.split()[1]) == ("cancelled", result["instant"])
    # Whoever asks next finds both taken.
    third = Table.open(str(trips)).ingest_folder(str(landing))
    assert third.instant is None
    assert third.note.startswith("nothing new")
    # A plan that may not be cancelled completes, and the task waits for it.
    kept = plan_rewrite(Table.open(str(trips)), RewriteRequest(cancel="never"))
    pyarrow.csv.write_csv(pa.table({"id": ["c"], "city": ["y"], "ts": [3], "fare": [7.5]}), landing / "3.csv")
    alone = ("tasks", "test", "ingestion", "ingest", "2026-01-03", "--task-params", configuration)
    busy = airflow(airflow_home, *alone)
    result = last_result(busy.stdout + busy.stderr)
    assert (result["ok"], result["error"], kept in result["message"]) == (False, "Busy", True)
    execute_rewrite(Table.open(str(trips)), kept)
    taken = airflow(airflow_home, *alone)
    assert last_result(taken.stdout + taken.stderr)["updated"] == 1
    assert [row["fare"] for row in rows(trips)] == [1.0, 9.5, 7.5]


def test_a_failing_dag_run_says_why_and_fails(tables_file: Path, airflow_home: Path) -> None:
    (tables_file.parent / "landing").mkdir()
    run = airflow(airflow_home, "dags", "test", "ingestion", "2026-02-01", "--conf", '{"table": "trips"}')
    assert run.returncode == 1
    result = last_result(run.stdout)
    assert (result["ok"], result["exit_code"]) == (False, 2)
    assert re.search(r"error.*hudi_ops\.app: ", run.stdout)
    assert str(tables_file.parent / "trips") in result["message"]


def test_the_task_runs_alone(trips: Path, airflow_home: Path) -> None:
    pyarrow.parquet.write_table(TRIPS, trips.parent / "landing" / "1.parquet")
    run = airflow(
        airflow_home, "tasks", "test", "ingestion", "ingest", "2026-03-01", "--task-params", '{"table": "trips"}'
    )
    # Airflow exits with 0 here even when the task fails: only the result counts.
    result = last_result(run.stdout + run.stderr)
    assert (result["ok"], result["inserted"]) == (True, 3)
    assert rows(trips) == TRIPS.to_pylist()

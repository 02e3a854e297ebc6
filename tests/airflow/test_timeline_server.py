"""Reads use a timeline server; ingestion and compaction, as tasks of Airflow beside it, decide without it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from hudi_ops import Table
from hudi_ops.config.tables_file import locate_table
from hudi_ops.view.columns.kept import view_source
from tests.airflow.dag_runs import airflow, last_result
from tests.servers import ServerProcess

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})
TABLES = """tables:
  trips: {path: trips, record_key: [id], partition_by: [city], ordering: ts, type: mor, source: landing,
          view: {server: {url: 'URL'}}}
"""


def test_tasks_write_without_the_server_that_reads_ask(
    tmp_path: Path, airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(
        str(tmp_path / "trips"), name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"],
        ordering="ts", table_type="mor",
    )  # fmt: skip
    for number in (1, 2):
        table.ingest(TRIPS.set_column(2, "ts", pa.array([number] * 3)))
    (tmp_path / "landing").mkdir()
    (file := tmp_path / "tables.yaml").write_text(TABLES.replace("URL", "http://127.0.0.1:1"))
    server = ServerProcess.start(file, "--port", "0")
    file.write_text(TABLES.replace("URL", server.url))
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))

    def task(dag: str, name: str) -> dict:
        given = json.dumps({"table": "trips"})
        run = airflow(airflow_home, "tasks", "test", dag, name, "2026-01-01", "--task-params", given)
        result = last_result(run.stdout + run.stderr)
        assert result["ok"], result
        return result

    def land(number: int) -> None:
        values = TRIPS.set_column(2, "ts", pa.array([number] * 3))
        pyarrow.parquet.write_table(values, tmp_path / "landing" / f"{number}.parquet")

    try:
        planned = task("compaction", "plan")
        assert (planned["view"], planned["counts"]["planned"]) == ("built", 2)
        reader = Table.at(locate_table("trips", file))
        assert reader.read(["ts"]).num_rows == 3
        assert view_source(reader.context.storage) == "server"
        land(3)
        task("ingestion", "ingest")
    finally:
        server.kill()
    task("compaction", "execute")
    land(4)
    task("ingestion", "ingest")
    again = task("compaction", "plan")
    assert (again["view"], again["counts"]["planned"]) == ("built", 2)
    assert Table.at(locate_table("trips", file)).read(["ts"])["ts"].to_pylist() == [4] * 3

"""A user's walk through the UI in Chromium: forms used well and badly, the asset's events, the run that an event started.

In the soak only: the page's own tests show in full that Airflow's forms and this one's DAGs work. HUDI_OPS_IMAGES names a folder
that keeps the pictures.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from hudi_ops import Table

ROOT = Path(__file__).resolve().parents[2]
ROWS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})
REPORT = """
from datetime import UTC, datetime

from airflow.sdk import DAG, Asset, task

with DAG("report", schedule=[Asset("hudi://departures")], start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):

    @task
    def report(triggering_asset_events=None):
        for events in triggering_asset_events.values():
            print([event.extra for event in events])

    report()
"""


def later(ts: int) -> pa.Table:
    return ROWS.set_column(2, "ts", pa.array([ts] * 3))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A merge-on-read table with log files, without bloom filters, and with a file to take."""
    path = tmp_path / "departures"
    made = Table.create(
        str(path),
        name="departures",
        record_key=["id"],
        schema=ROWS.schema,
        partition_by=["city"],
        ordering="ts",
        table_type="mor",
    )
    for ts in (1, 2):
        made.ingest(later(ts))
    made.close()
    (tmp_path / "landing").mkdir()
    pyarrow.parquet.write_table(later(3), tmp_path / "landing" / "3.parquet")
    (tmp_path / "tables.yaml").write_text(
        "tables:\n  departures:\n"
        "    {path: departures, record_key: [id], partition_by: [city], ordering: ts, type: mor, source: landing}\n"
    )
    return path


@pytest.fixture
def address(table: Path, tmp_path: Path) -> Iterator[str]:
    """The UI, on ports of its own."""
    dags = tmp_path / "dags"
    shutil.copytree(ROOT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    (dags / "report.py").write_text(REPORT)
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "HUDI_OPS_UI_PORT": str(port),
        "HUDI_OPS_TABLES": str(tmp_path / "tables.yaml"),
        "HUDI_OPS_VENV": str(Path(sys.executable).parents[1]),
        "HUDI_OPS_SPARK_MASTER": "local[2]",
    }
    with (tmp_path / "ui.log").open("w") as log:
        process = subprocess.Popen(
            [ROOT / "bin" / "ui"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready == "Airflow is ready.\n", (tmp_path / "ui.log").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=90)


@pytest.mark.soak("walks through forms for minutes, which full starts by the REST API and by the page")
def test_forms_assets_and_runs_in_a_real_browser(address: str, table: Path, tmp_path: Path) -> None:
    images = Path(os.environ.get("HUDI_OPS_IMAGES") or tmp_path / "images")
    images.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("walk.py"), address, tmp_path / "airflow" / "passwords.json", images],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    for used in ("ingestion", "compaction"):
        badly = seen[f"{used} badly"]
        assert badly["state"] == "failed"
        assert "cannot be" in badly["log"]
        assert "does not begin with a dash" in badly["log"]
        assert "(?!" not in badly["log"]
    assert "This field is required" in seen["indexing badly"]
    assert {used: seen[used]["state"] for used in ("ingestion", "compaction", "indexing")} == {
        "ingestion": "success",
        "compaction": "success",
        "indexing": "success",
    }
    assert "Ingested 3 rows" in seen["ingestion"]["log"]
    assert "Built bloom_filters" in seen["indexing"]["log"]
    assert seen["report"] == "success"
    assert [(event["action"], event["rows"]) for event in seen["events"]] == [("upsert", 3), ("compaction", 3)]
    assert Table.open(str(table)).compaction.explain().note == "nothing to compact: no file group has log files"
    assert "bloom_filters" in Table.open(str(table)).config.metadata_partitions
    assert len(list(images.glob("*.png"))) == 9

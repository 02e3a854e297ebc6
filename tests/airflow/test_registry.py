"""Applications and the DAG `health` write to the registry, and do their work without it.

Method: the applications as processes and the DAG by `airflow dags test`, with a real SQLite registry; the same with registries that
cannot be used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.rows import Run
from hudi_ops.registry.store import runs_of, table_named
from tests.airflow.dag_runs import airflow

APPLICATIONS = Path(__file__).resolve().parents[2] / "spark_apps"
TABLES = "tables: {trips: {path: trips, record_key: [id], type: mor, source: landing}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with a merge-on-read table and three rows to be taken."""
    (tmp_path / "tables.yaml").write_text(TABLES)
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))
    land(tmp_path, 1)
    Table.create(str(tmp_path / "trips"), name="trips", record_key=["id"], table_type="mor", schema="id string, v long")
    return tmp_path


def land(folder: Path, number: int) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    rows = pa.table({"id": ["a", "b", "c"], "v": [number] * 3})
    pq.write_table(rows, folder / "landing" / f"{number}.parquet")


def application(app: str, *arguments: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Run an application as a task does; return its exit code, its last line and its log."""
    done = subprocess.run(
        [sys.executable, str(APPLICATIONS / f"{app}.py"), "--table=trips", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


def kept(url: str) -> list[Run]:
    """The runs of the table, the newest first."""
    engine = opened(url)
    details = table_named(engine, "trips")
    assert details is not None
    return list(runs_of(engine, details.row.id))


def test_each_run_of_an_application_is_kept_with_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{folder}/registry.db"
    monkeypatch.setenv("HUDI_OPS_REGISTRY", url)
    migrate(url)
    run = {f"AIRFLOW_CTX_{name}": name.lower() for name in ("DAG_ID", "TASK_ID", "DAG_RUN_ID")}
    _, first, _ = application("ingest", HUDI_OPS_REQUESTER="ada", **run)
    land(folder, 2)
    _, second, _ = application("ingest")
    _, nothing, _ = application("ingest")
    _, previewed, _ = application("compact", "--dry-run=true")
    _, planned, _ = application("compact", "--threshold=0", "--mode=plan")
    _, compacted, _ = application("compact", "--mode=execute")
    code, refused, _ = application("compact", "--mode=execute", "--instant=20200101000000000")
    assert [one["ok"] for one in (first, second, nothing, previewed, planned, compacted)] == [True] * 6
    assert (code, nothing["instant"], planned["instant"]) == (2, None, compacted["instant"])
    runs = kept(url)
    assert [(one.service, one.state, one.instant) for one in reversed(runs)] == [
        ("ingestion", "succeeded", first["instant"]),
        ("ingestion", "succeeded", second["instant"]),
        ("ingestion", "skipped", ""),
        ("compaction", "planned", compacted["instant"]),
        ("compaction", "succeeded", compacted["instant"]),
        ("compaction", "failed", "20200101000000000"),
    ]
    assert (runs[-1].requester, runs[-1].dag_run, runs[-1].rows) == ("ada", "dag_id/task_id/dag_run_id", 3)
    assert (runs[0].error or {})["message"] == refused["message"]
    assert all(one.cpu_s and one.ended_ms and one.ended_ms >= one.begun_ms for one in runs)


def test_a_registry_that_cannot_be_used_costs_one_warning(folder: Path) -> None:
    url = "postgresql+psycopg2://registry:of-this-test@127.0.0.1:9/registry"
    code, line, log = application("ingest", HUDI_OPS_REGISTRY=url)
    assert (code, line["ok"], line["rows_in"]) == (0, True, 3)
    assert log.count("without the registry") == 1, log
    assert "of-this-test" not in log
    assert Table.open(str(folder / "trips")).read().num_rows == 3


def test_the_dag_health_keeps_verdicts_and_pictures(
    folder: Path, airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{folder}/registry.db"
    monkeypatch.setenv("HUDI_OPS_REGISTRY", url)
    migrate(url)
    application("ingest")
    done = airflow(airflow_home, "dags", "test", "health", "2026-01-01T00:00:00")
    assert done.returncode == 0, done.stdout + done.stderr
    details = table_named(opened(url), "trips")
    assert details is not None
    assert details.verdict is not None
    assert details.picture is not None
    assert (details.row.status, details.verdict["table"], len(details.picture["timeline"])) == ("healthy", "trips", 2)

"""docs/airflow.md: every snippet runs as printed, in its order, in a checkout of its own.

Method: a fence whose first line names a file is written there; other Python is run, and so is bash. Then Airflow loads the folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.airflow.dag_runs import last_result

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "airflow.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


def fences() -> list[tuple[str, str]]:
    return FENCE.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_home: Path) -> Path:
    """A folder with this repository's programs, its own tables and its own DAGs."""
    for name in ("bin", "dags", "plugins", "spark_apps"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "dags"))
    monkeypatch.setenv("AIRFLOW__CORE__PLUGINS_FOLDER", str(tmp_path / "plugins"))
    monkeypatch.setenv("HUDI_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("HUDI_OPS_VENV", str(Path(sys.executable).parents[1]))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


LIST = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("dags")
print(json.dumps({"errors": bag.import_errors, "dags": sorted(bag.dags)}))
"""


def test_every_snippet_of_the_page_runs_as_printed(checkout: Path, airflow_home: Path) -> None:
    written, results = [], []
    for language, text in fences():
        assert language in {"bash", "python", "yaml"}
        if named := FILE.match(text):
            (checkout / named[1]).write_text(text, encoding="utf-8")
            written.append(named[1])
        elif language == "python":
            run(checkout, sys.executable, "-c", text)
        else:
            results.append(last_result(run(checkout, "bash", "-euc", text)))
    assert written == ["tables.yaml", "tables.yaml", "dags/report.py", "plugins/alerts.py", "dags/nightly.py"]
    assert [(one["app"], one["rows_in"], one["ok"]) for one in results] == [("ingest", 2, True)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "plugins")}
    done = subprocess.run(
        [sys.executable, "-c", LIST], cwd=checkout, env=environment, capture_output=True, text=True, timeout=120
    )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["errors"] == {}
    of_trips = {f"{service}__trips" for service in ("ingestion", "compaction", "indexing", "verify")}
    assert set(found["dags"]) == {
        *("ingestion", "compaction", "clustering", "resizing", "clean"),
        *("cancel", "archive", "health", "indexing", "verify", "recover"),
        *of_trips,
    } | {
        "report",
        "nightly",
    }


class Webhook(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    posted: list[dict]

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch):
    """What is posted to the webhook that ALERTS_URL names."""
    found: list[dict] = []
    server = HTTPServer(("127.0.0.1", 0), type("Server", (Webhook,), {"posted": found}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ALERTS_URL", f"http://127.0.0.1:{server.server_port}/hook")
    yield found
    server.shutdown()


def test_the_function_of_the_page_is_called_when_a_task_has_failed_for_good(
    checkout: Path, airflow_home: Path, posted: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: a source that is not allowed, so that nothing is submitted and the run fails in seconds."""
    (text,) = [text for _, text in fences() if text.startswith("# plugins/alerts.py\n")]
    (checkout / "plugins" / "alerts.py").write_text(text)
    (checkout / "tables.yaml").write_text("tables: {trips: {path: trips, record_key: [id], source: landing}}\n")
    monkeypatch.setenv("HUDI_OPS_ON_FAILURE", "alerts.post_failure")
    done = subprocess.run(
        ["bin/airflow", "dags", "test", "ingestion", "2026-06-01", "--conf", '{"source": "-x"}'],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    (alert,) = posted
    assert alert["text"].startswith("ingestion.ingest failed, table trips: source cannot be '-x'")


@pytest.mark.parametrize("named", ["gone.post", "alerts", "json.no_such"])
def test_a_function_that_is_not_there_is_an_import_error(
    tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    from hudi_ops.errors import InvalidRequest

    monkeypatch.setenv("HUDI_OPS_ON_FAILURE", named)
    with pytest.raises(InvalidRequest, match="HUDI_OPS_ON_FAILURE names no function") as refused:
        load_dag("verify")
    assert named in str(refused.value)

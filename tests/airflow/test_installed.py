"""The DAGs of an installed package: an Airflow that runs already takes them from the package, as docs/install.md prints it.

Method: the snippets of that page, run by bash and by Airflow's own DAG bag, in a folder that is no checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.dag_runs import DAG_IDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
TABLES = "tables: {trips: {path: trips, record_key: [id], type: mor, source: landing}}\n"


def snippet(language: str) -> str:
    (found,) = re.findall(rf"```{language} airflow\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_folder_of_the_package_is_a_folder_of_dags(airflow_home: Path, tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_text(TABLES)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", snippet("bash") + "airflow dags list-import-errors"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in DAG_IDS:
        assert re.search(rf"^{name} ", done.stdout, re.MULTILINE), done.stdout
    assert "No data found" in done.stdout


def test_a_file_of_the_user_takes_the_dags_by_import(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "tables.yaml").write_text(TABLES)
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "hudi.py").write_text(snippet("python"))
    bag = DagBag(str(tmp_path / "dags"), safe_mode=True)
    assert bag.import_errors == {}
    assert set(bag.dags) == {"compaction", "ingestion"}

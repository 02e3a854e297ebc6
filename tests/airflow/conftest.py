"""A throw-away Airflow for these tests: home and settings are in place before anything of Airflow is imported."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_HOME = Path(tempfile.mkdtemp(prefix="hudi-ops-airflow-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

# What chooses tests and their bounds is read by files that are collected after this one.
KEPT = {"HUDI_OPS_SOAK", "HUDI_OPS_TIER", "HUDI_OPS_SEED", "HUDI_OPS_INTEROP"}
for name in [name for name in os.environ if name.startswith(("AIRFLOW", "HUDI_OPS_")) and name not in KEPT]:
    del os.environ[name]
os.environ.update({
    "AIRFLOW_HOME": str(_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__API_AUTH__JWT_SECRET": "not-a-secret-" * 6,
    "AIRFLOW__API__SECRET_KEY": "not-a-secret-" * 4,
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    "HUDI_OPS_RETRIES": "0",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
})
assert "airflow" not in sys.modules, "Airflow was imported before its settings were made"
sys.path.insert(0, str(ROOT / "plugins"))


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """The throw-away Airflow's home, with its database made."""
    from airflow.utils.db import initdb

    initdb()
    return _HOME


@pytest.fixture
def tables_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with two tables, in force for DAG and applications."""
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n"
        "  trips: {path: trips, record_key: [id], partition_by: [city], ordering: ts, source: landing}\n"
        "  riders: {path: riders, record_key: [id]}\n"
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


@pytest.fixture
def load_dag(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Imports a file of dags/ afresh, as the DAG processor does; its `dag` is the one with the form."""
    import importlib.util

    def load(name: str = "ingestion") -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"{name}_under_test", ROOT / "dags" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.dag = vars(module)[name]
        return module

    return load

"""Airflow's command line over its throw-away home, and what the last task returned."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DAG_IDS = [
    "archive",
    "cancel",
    "clean",
    "clustering",
    "compaction",
    "health",
    "indexing",
    "ingestion",
    "recover",
    "resizing",
    "verify",
]
"""DAGs with a form."""


def airflow_command(home: Path, *arguments: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    """The command line of a call of Airflow, and its environment."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "HUDI_OPS_VENV": str(Path(sys.executable).parent.parent),
        "HUDI_OPS_SPARK_MASTER": "local[2]",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **variables,
    }
    return [str(ROOT / "bin" / "airflow"), *arguments], environment


def airflow(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = airflow_command(home, *arguments, **variables)
    return subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)


def last_result(output: str, app: str = "") -> dict:
    """The result that an application, or the one of this name, printed last."""
    start = output.rindex(f'{{"app": "{app}"' if app else '{"app":')
    return json.JSONDecoder().raw_decode(output, start)[0]


def xcom_of(home: Path, dag: str, task: str) -> dict:
    """The result of a task's newest run, as Airflow's database has it for the tasks after it."""
    with sqlite3.connect(home / "airflow.db") as database:
        (value,) = database.execute(
            "select value from xcom where dag_id = ? and task_id = ? and key = 'return_value' order by timestamp desc limit 1",
            (dag, task),
        ).fetchone()
    found = json.loads(value)
    return json.loads(found) if isinstance(found, str) else found


def asset_events(home: Path) -> list[tuple[str, dict]]:
    """Events of assets in Airflow's database, oldest first: name of the asset, and what the event says."""
    with sqlite3.connect(home / "airflow.db") as database:
        rows = database.execute(
            "select asset.name, asset_event.extra from asset_event join asset on asset.id = asset_id order by asset_event.id"
        ).fetchall()
    return [(name, json.loads(extra)) for name, extra in rows]

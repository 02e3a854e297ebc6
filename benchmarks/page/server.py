"""Airflow as `bin/airflow` starts it, with one API worker: its API server, and a scheduler whose task sends heartbeats."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from benchmarks.harness.places import ROOT

START_S = 180
_PASSWORD = "of-this-run"
_WAITING = """
import time
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task

with DAG("waiting", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):

    @task
    def wait():
        for _ in range(6000):
            if Path({stop!r}).exists():
                return
            time.sleep(0.1)

    wait()
"""
_TOKEN = """
import json, sys
from airflow.executors.base_executor import BaseExecutor
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select

with create_session() as session:
    task = session.scalars(select(TaskInstance).where(TaskInstance.dag_id == "waiting")).one()
    token = BaseExecutor().jwt_generator.generate(extras={"sub": str(task.id), "scope": "execution"})
    print(json.dumps({"id": str(task.id), "hostname": task.hostname, "pid": task.pid, "token": token}))
"""
"""Prints what the supervisor of the running task knows, and a token such as the API server gave it."""


class Airflow:
    """Airflow over a folder; calls of its routes."""

    def __init__(self, folder: Path) -> None:
        self.home, self.port = folder / "airflow", _free_port()
        self.bearer = ""
        self._folder, self._started = folder, list[subprocess.Popen[bytes]]()
        for name in ("airflow", "dags"):
            (folder / name).mkdir()
        (self.home / "passwords.json").write_text(json.dumps({"admin": _PASSWORD}))
        (folder / "dags" / "waiting.py").write_text(_WAITING.format(stop=str(folder / "stop")))
        for name in ("health", "cancel", "clean", "clustering", "compaction"):
            (folder / "dags" / f"{name}.py").symlink_to(ROOT / "dags" / f"{name}.py")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of its processes."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "HUDI_OPS"))}
        address = f"http://127.0.0.1:{self.port}"
        return {
            **inherited,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__API__BASE_URL": address,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._folder / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(_free_port()),
            "HUDI_OPS_HEALTH_SCHEDULE": "none",
            "HUDI_OPS_REGISTRY": f"sqlite:///{self._folder / 'registry.db'}",
            "HUDI_OPS_TABLES": str(self._folder / "tables.yaml"),
            "HUDI_OPS_VENV": str(Path(sys.executable).parents[1]),
        }

    def start(self, part: str) -> None:
        """Start a part, such as `api-server`."""
        with (self.home / f"{part}.log").open("wb") as log:
            started = subprocess.Popen(
                [ROOT / "bin" / "airflow", part],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                start_new_session=True,
            )
        self._started.append(started)

    def stop(self) -> None:
        """Stop all parts and what they started."""
        (self._folder / "stop").touch()
        roots = [psutil.Process(one.pid) for one in self._started if one.poll() is None]
        processes = [*roots, *(child for root in roots for child in root.children(recursive=True))]
        for root in roots:
            root.send_signal(signal.SIGINT)
        psutil.wait_procs(roots, timeout=15)
        for process in processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for one in self._started:
            one.wait(timeout=15)

    def call(self, method: str, path: str, body: object = None, bearer: str | None = None) -> tuple[int, bytes]:
        """Call a route; return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self.bearer if bearer is None else bearer}"}
            data = None if body is None else json.dumps(body)
            connection.request(method, quote(path, safe="/?=&%"), data, headers | {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def must(self, method: str, path: str, body: object = None) -> Any:
        """Call a route that answers JSON; fail if it refuses."""
        status, content = self.call(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {content[:2_000]!r}")
        return json.loads(content)

    def log_in(self) -> None:
        """Take the token of a user, once the API server answers."""

        def has_token() -> bool:
            try:
                answer = self.must("POST", "/auth/token", {"username": "admin", "password": _PASSWORD})
            except (OSError, http.client.HTTPException):
                return False
            self.bearer = answer["access_token"]
            return True

        _wait_until(has_token, "the API server does not answer")

    def running_task(self) -> dict[str, Any]:
        """Start a task that waits; return its id, host, process, and a token of it."""
        for part in ("scheduler", "dag-processor"):
            self.start(part)
        _wait_until(lambda: self.call("GET", "/api/v2/dags/waiting")[0] == 200, "the DAG was not read")
        run = self.must("POST", "/api/v2/dags/waiting/dagRuns", {"logical_date": None})["dag_run_id"]
        path = f"/api/v2/dags/waiting/dagRuns/{run}/taskInstances/wait"
        _wait_until(lambda: self.must("GET", path)["state"] == "running", "the task does not run")
        # Secrets are in files of this home, from which bin/airflow takes them.
        names = {"AIRFLOW__API_AUTH__JWT_SECRET": "jwt_secret", "AIRFLOW__API__SECRET_KEY": "secret_key"}
        secrets = {name: (self.home / file).read_text() for name, file in names.items()}
        database = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}?timeout=60"}
        done = subprocess.run(
            [sys.executable, "-c", _TOKEN],
            env={**self.environment, **secrets, **database},
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@contextmanager
def serving(folder: Path) -> Iterator[Airflow]:
    """Start an API server over the folder of tables and registry; stop all at the end."""
    airflow = Airflow(folder)
    try:
        airflow.start("api-server")
        airflow.log_in()
        yield airflow
    finally:
        airflow.stop()


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + START_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""A running Airflow: scheduler, DAG processor, API server and workers, as `bin/ui` starts them, and calls of its REST API."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import psutil

from tests.airflow.dag_runs import airflow_command

START_S, TASK_S = 180, 180
PASSWORD = "of-this-test"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class RunningAirflow:
    """Calls of the REST API of an Airflow that runs."""

    address: str
    home: Path
    token: str = ""

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the API; return the JSON of its answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"{self.address}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from error

    def log_in(self) -> None:
        """Take a token, as a user does who logs in."""
        self.token = self.call("POST", "/auth/token", {"username": "admin", "password": PASSWORD})["access_token"]

    def is_healthy(self) -> bool:
        """Say whether every part of Airflow answers."""
        try:
            parts = self.call("GET", "/api/v2/monitor/health")
        except (URLError, OSError, AssertionError):
            return False
        return all(parts[name]["status"] == "healthy" for name in ("metadatabase", "scheduler", "dag_processor"))

    def knows(self, dag: str) -> bool:
        """Say whether the DAG processor has read a DAG."""
        return any(one["dag_id"] == dag for one in self.call("GET", "/api/v2/dags?limit=1000")["dags"])

    def trigger(self, dag: str, conf: dict[str, Any]) -> str:
        """Start a run of a DAG with the values of its form; return its id."""
        body = {"conf": conf, "logical_date": None}
        return str(self.call("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"])

    def task(self, dag: str, run: str, task: str) -> dict[str, Any]:
        """Return the newest try of a task."""
        found: dict[str, Any] = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}")
        return found

    def result(self, dag: str, run: str, task: str) -> dict[str, Any]:
        """Return what a task returned."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        value = self.call("GET", path)["value"]
        found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
        return found

    def log(self, dag: str, run: str, task: str, try_number: int) -> str:
        """Return the log of a try."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{try_number}?full_content=true"
        return json.dumps(self.call("GET", path)["content"])

    def wait(self, dag: str, run: str, task: str, *states: str) -> dict[str, Any]:
        """Wait until a task is in one of these states; return its newest try."""
        end = time.monotonic() + TASK_S
        while (found := self.task(dag, run, task))["state"] not in states:
            assert time.monotonic() < end, f"{dag}.{task} is {found['state']}, not one of {states}"
            time.sleep(0.3)
        return found

    def clear(self, dag: str, run: str, task: str) -> None:
        """Clear one task of a run, as the button does."""
        body = {"dry_run": False, "dag_run_id": run, "task_ids": [task], "only_failed": False, "reset_dag_runs": True}
        self.call("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)

    def mark_failed(self, dag: str, run: str, task: str) -> None:
        """Mark a task as failed, as the button does."""
        self.call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}", {"new_state": "failed"})


@contextmanager
def running_airflow(home: Path, dags: Path, **variables: str) -> Iterator[RunningAirflow]:
    """Start Airflow with a home and a folder of DAGs; stop it, and what it started, at the end."""
    port = _free_port()
    (home / "passwords.json").write_text(json.dumps({"admin": PASSWORD}))
    command, environment = airflow_command(
        home,
        "standalone",
        AIRFLOW__CORE__DAGS_FOLDER=str(dags),
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__API__BASE_URL=f"http://127.0.0.1:{port}",
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"http://127.0.0.1:{port}/execution/",
        # The triggerer is not needed, but its port for logs may be taken by a test beside this one.
        AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT=str(_free_port()),
        AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=str(_free_port()),
        AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT=str(_free_port()),
        # A task learns at its heartbeat that it was cleared, by default after five seconds.
        AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL="1",
        **variables,
    )
    log = home / "standalone.log"
    with log.open("wb") as out:
        started = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        found = RunningAirflow(f"http://127.0.0.1:{port}", home)
        end = time.monotonic() + START_S
        while not found.is_healthy():
            assert started.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(0.5)
        found.log_in()
        yield found
    finally:
        children = psutil.Process(started.pid).children(recursive=True) if started.poll() is None else []
        if started.poll() is None:
            os.kill(started.pid, signal.SIGINT)
            try:
                started.wait(timeout=30)
            except subprocess.TimeoutExpired:
                started.kill()
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(children, timeout=10)

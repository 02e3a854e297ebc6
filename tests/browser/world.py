"""A running Airflow with the page, tables in trouble, and a registry; a second API server for what one server cannot show."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from hudi_ops import Table
from hudi_ops.config.tables_file import load_tables
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.refresh import refresh
from tests.airflow.dag_runs import ROOT, airflow_command
from tests.airflow.running import RunningAirflow

START_S = 180
ROLES = {"admin": "admin", "op": "op", "viewer": "viewer", "nobody": ""}
"""User -> role; empty: none."""

DAGS = ("cancel", "clean", "clustering", "compaction", "health", "ingestion")

HELD = """
import os, sys, time

arguments = dict(one.partition("=")[::2] for one in sys.argv)
hold = os.path.join(os.environ.get("HOLDS", ""), arguments.get("--table", "none"))
if arguments.get("--mode") == "execute" and os.path.isfile(hold):
    from hudi_ops.storage.local import LocalStorage

    def held(call):
        def called(self, path, *others):
            if ".marker" in path and os.path.exists(hold):
                open(hold + ".reached", "w").write(str(os.getpid()))
                asked = sys.argv[sys.argv.index("--stop-file") + 1]
                while os.path.exists(hold) and not os.path.exists(asked):
                    time.sleep(0.02)
            return call(self, path, *others)
        return called

    for name in ("put", "put_if_absent"):
        setattr(LocalStorage, name, held(getattr(LocalStorage, name)))
"""
"""Holds the execution of a table where it announces its first file, until it is let go."""

TABLES = """
tables:
  clicks: {path: clicks, record_key: [id], type: mor, ordering: v, targets: {read_cost: {log_files: 2}}}
  orders: {path: orders, record_key: [id], type: mor, ordering: v, targets: {read_cost: {log_files: 2}}}
  returns: {path: returns, record_key: [id]}
  riders: {path: riders, record_key: [id]}
  rides: {path: rides, record_key: [id], source: landing/rides}
  trips: {path: trips, record_key: [id], source: landing/trips}
"""
"""`clicks` and `orders` have log files to compact, `rides` and `trips` small files to merge; `returns` was never created."""


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rows(count: int, v: int) -> pa.Table:
    """Return rows of all tables of the world."""
    return pa.table({"id": [f"k{number:05d}" for number in range(count)], "v": pa.array([v] * count, pa.int64())})


def password(user: str) -> str:
    """Return the password of a user, which only the passwords file of this Airflow knows."""
    return f"of-{user}-here"


def wait_until(holds: Callable[[], object], what: str, limit_s: float = START_S) -> None:
    """Wait for a condition, with a deadline."""
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@dataclass
class Held:
    """A run of the DAG `clustering` whose execution waits at its first file."""

    airflow: RunningAirflow
    run: str
    file: Path

    def instant(self) -> str:
        """Wait until the execution waits; return the instant of its plan."""
        wait_until(Path(f"{self.file}.reached").exists, "no execution came to its first file")
        return str(self.airflow.result("clustering", self.run, "plan")["instant"])

    def let_go(self) -> None:
        """Let the execution go on."""
        self.file.unlink(missing_ok=True)

    def end(self) -> str:
        """Wait until the execution ended; return the state of its task."""
        return str(self.airflow.wait("clustering", self.run, "execute", "success", "failed", "skipped")["state"])


class World:
    """The folder with tables, registry and Airflow, and the processes that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "airflow"
        self.logs, self.held = folder / "logs", dict[str, Held]()
        self.port, self.second_port, self.proxy_port = free_port(), free_port(), free_port()
        self.proxied_address = f"http://127.0.0.1:{self.proxy_port}/airflow"
        self.airflow = RunningAirflow(f"http://127.0.0.1:{self.port}", self.home)
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []
        for name in ("airflow", "logs", "dags", "hooks", "holds", "landing/rides", "landing/trips"):
            (folder / name).mkdir(parents=True)
        (folder / "hooks" / "sitecustomize.py").write_text(HELD)
        (folder / "tables.yaml").write_text(TABLES)
        (self.home / "passwords.json").write_text(json.dumps({user: password(user) for user in ROLES}))
        for name in DAGS:
            shutil.copy(ROOT / "dags" / f"{name}.py", folder / "dags")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of all processes, beside those of `bin/airflow`."""
        path = os.pathsep.join(filter(None, (str(self.folder / "hooks"), os.environ.get("PYTHONPATH", str(ROOT)))))
        return {
            # Parts that start at once would each make secrets of their own.
            "AIRFLOW__API_AUTH__JWT_SECRET": "not-a-secret-" * 6,
            "AIRFLOW__API__SECRET_KEY": "not-a-secret-" * 4,
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in ROLES.items()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(free_port()),
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "HOLDS": str(self.folder / "holds"),
            "HUDI_OPS_HEALTH_SCHEDULE": "none",
            "HUDI_OPS_REGISTRY": f"sqlite:///{self.folder / 'registry.db'}",
            "HUDI_OPS_RETRIES": "0",
            "HUDI_OPS_TABLES": str(self.folder / "tables.yaml"),
            "PYTHONPATH": path,
        }

    def start(self, name: str, *words: str, **variables: str) -> None:
        """Start a part of Airflow in a session of its own."""
        given = {
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{self.port}",
            **self.environment,
            **variables,
        }
        command, environment = airflow_command(self.home, *words, **given)
        with (self.logs / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        self._started.append((name, started))

    def stop(self) -> None:
        """Kill every part, and the processes that they started: nothing that they would save is wanted."""
        roots = [psutil.Process(started.pid) for _, started in self._started if started.poll() is None]
        processes = [*roots, *(child for root in roots for child in root.children(recursive=True))]
        for process in processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(processes, timeout=10)
        for _, started in self._started:
            started.wait(timeout=10)

    def log(self, name: str) -> str:
        """Return the end of the log of a part."""
        return (self.logs / f"{name}.log").read_text(errors="replace")[-3_000:]

    def refuse_ended(self) -> None:
        """Fail if a part of Airflow ended."""
        for name, started in self._started:
            assert started.poll() is None, f"{name} ended: {self.log(name)}"

    def wait_until_healthy(self) -> None:
        """Wait until all parts answer, and the DAGs are known."""

        def is_healthy() -> bool:
            self.refuse_ended()
            return self.airflow.is_healthy()

        wait_until(is_healthy, "Airflow does not become healthy")
        # The token of the administrator is for what users do not do on the page.
        answer = self.airflow.call("POST", "/auth/token", {"username": "admin", "password": password("admin")})
        self.airflow.token = answer["access_token"]
        wait_until(lambda: all(self.airflow.knows(dag) for dag in DAGS), "the DAGs were not read")

    def cli(self, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
        """Run `hudi-ops` with `--json` as an operator does; return what it prints."""
        program = Path(sys.executable).with_name("hudi-ops")
        done = subprocess.run(
            [program, *words, "--json"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in codes, f"hudi-ops {' '.join(words)}: {done.returncode} {done.stderr[-2_000:]}"
        return json.loads(done.stdout)

    def make_tables(self) -> None:
        """Create the tables."""
        for name in ("clicks", "orders"):
            with closing(self._create(name, table_type="mor", ordering="v")) as table:
                for v in range(4):
                    table.ingest(rows(20, v))
        for name in ("rides", "trips"):
            with closing(self._create(name, index="bloom")) as table:
                for v in range(3):
                    table.ingest(rows(20, v), operation="bulk_insert")
        with closing(self._create("riders")) as table:
            table.ingest(rows(20, 1))

    def fill_registry(self) -> None:
        """Make the registry, and look at all tables."""
        url = self.environment["HUDI_OPS_REGISTRY"]
        migrate(url)
        file = self.folder / "tables.yaml"
        refresh(list(load_tables(file).tables), str(file), engine=opened(url))

    def _create(self, name: str, **options: Any) -> Table:
        path = str(self.folder / name)
        return Table.create(path, name=name, record_key=["id"], schema=rows(1, 1).schema, metadata=False, **options)

    def begin_held(self, table: str) -> Held:
        """Start a clustering of a table whose execution is held; one that was held before goes on."""
        for other in self.held.values():
            other.let_go()
        file = self.folder / "holds" / table
        file.touch()
        run = self.airflow.trigger("clustering", {"table": table, "engine": "local"})
        self.held[table] = Held(self.airflow, run, file)
        return self.held[table]

    def start_second(self) -> None:
        """Start a second API server for the same Airflow, with two workers, for a proxy at `/airflow`."""
        second = {
            "AIRFLOW__API__PORT": str(self.second_port),
            "AIRFLOW__API__BASE_URL": self.proxied_address,
            "AIRFLOW__API__WORKERS": "2",
        }
        self.start("second api-server", "api-server", **second)


@contextmanager
def running_world(folder: Path) -> Iterator[World]:
    """Start a world; stop it at the end."""
    world = World(folder)
    with ExitStack() as stack:
        stack.callback(world.stop)
        # The first command makes Airflow's database; the others wait for it.
        world.start("api-server", "api-server")
        world.start("scheduler", "scheduler")
        world.start("dag-processor", "dag-processor")
        world.make_tables()
        world.fill_registry()
        world.wait_until_healthy()
        # Both are needed later, and take seconds in which the first test mostly waits.
        world.begin_held("rides")
        world.start_second()
        yield world

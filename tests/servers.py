"""Timeline servers of tests: uvicorn in a thread over storages of the test, and the command in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
import uvicorn

from hudi_ops.config.tables_file import TableLocation
from hudi_ops.config.write_settings import ViewServer, ViewSettings
from hudi_ops.server.app import Server
from hudi_ops.server.limits import Limits
from hudi_ops.server.run import Listener
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.completed import state_digest
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.view.columns.kept import keep_views
from hudi_ops.view.remote import client
from hudi_ops.view.remote.wire import question, state_path

ROOT = Path(__file__).resolve().parents[1]
TABLE = "served"
WAIT_S = 60.0


@dataclass
class Served:
    """A server in threads of this process, and what tests ask of it.

    Attributes:
        server: its tables, by name.
        url: where it listens.
    """

    server: Server
    url: str
    pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(maxsize=32, retries=False))

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Send a request; return status and body."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        found = self.pool.request(method, self.url + path, body=body, headers=names, timeout=WAIT_S, redirect=False)
        return found.status, found.data

    def ask(
        self, storage: Storage, *partitions: str, timeline: Timeline | None = None, newest: bool = False, **headers: str
    ) -> tuple[int, bytes]:
        """Ask for files of the state of a table at a reading of its timeline, by default now."""
        path = path_of(storage, "files", timeline)
        return self.request("POST", path, question(partitions, is_newest=newest), **headers)


def path_of(storage: Storage, what: str, timeline: Timeline | None = None, table: str = TABLE) -> str:
    """Return the path of the state of a table."""
    now = timeline or load_timeline(storage, load_config(storage))
    first = read_slot(storage, 0)
    assert first is not None
    return state_path(table, first.table_id, now.start, state_digest(first.table_id, now), what)


@contextmanager
def serving(
    storages: Mapping[str, Storage], limits: Limits | None = None, token: str = "", **declared: Any
) -> Iterator[Served]:
    """Serve tables of some storages with uvicorn, in a thread."""
    places = {name: TableLocation(name=name, path="memory", lock=None, declaration=None) for name in storages}
    server = Server.of(places, limits or Limits(deadline_s=WAIT_S, deadline_max_s=WAIT_S), token)
    for name, storage in storages.items():
        keep_views(storage, ViewSettings())
        server.tables[name].reader._storage = storage
    with running(server) as url:
        yield Served(server, url)


@contextmanager
def running(server: Server) -> Iterator[str]:
    """Run a server in a thread; yield its URL."""
    bound = Listener(port=0).bind()
    config = uvicorn.Config(
        server.app(), http="httptools", loop="uvloop", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    served = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(served.serve(sockets=[bound])), daemon=True)
    thread.start()
    try:
        wait_for(lambda: served.started)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        served.should_exit = True
        thread.join(WAIT_S)
        bound.close()


def wait_for(is_so: Any, seconds: float = WAIT_S) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.005)


def ask_server(storage: Storage, url: str, **settings: Any) -> None:
    """Let the processes that use a storage ask a server for the table's views."""
    server = ViewServer.model_validate({"url": url, "table": TABLE} | settings)
    keep_views(storage, ViewSettings(server=server))


def asking(storage: Storage, url: str, **settings: Any) -> FaultyStorage:
    """Return the storage of a new process, which asks a server."""
    found = FaultyStorage(storage)
    ask_server(found, url, **settings)
    return found


def forget_servers() -> None:
    """Let this process ask servers again that failed."""
    client._clients.clear()


@dataclass
class ServerProcess:
    """`hudi-ops timeline-server` in a process."""

    process: subprocess.Popen[str]
    url: str
    pool: urllib3.PoolManager

    @classmethod
    def start(cls, tables: Path, *options: str, log: Path | None = None, ca_file: str | None = None) -> ServerProcess:
        """Start the command, and wait until it has looked at all tables."""
        errors = open(log, "a", encoding="utf-8") if log is not None else None  # noqa: SIM115
        command = [sys.executable, "-m", "hudi_ops.cli.main", "timeline-server", *options]
        env = {**os.environ, "HUDI_OPS_TABLES": str(tables), "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)
        if errors is not None:
            errors.close()
        assert process.stdout is not None
        said = process.stdout.readline()
        assert " at http" in said, f"the server did not start: {said}"
        found = cls(process, said.rpartition(" at ")[2].strip(), urllib3.PoolManager(retries=False, ca_certs=ca_file))
        wait_for(lambda: found.get("/ready")[0] == 200)
        return found

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Send a GET request."""
        try:
            found = self.pool.request("GET", self.url + path, headers=headers, timeout=WAIT_S)
        except urllib3.exceptions.HTTPError:
            return 0, b""
        return found.status, found.data

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self.process.kill()
        self.process.wait(WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

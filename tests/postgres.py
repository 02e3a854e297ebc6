"""A real PostgreSQL for tests: its server runs on a free port of the loopback, with its files in a folder of its own.

The programs are those of this machine (`bin/bootstrap --postgres`). Nothing is synced to disk: tests kill processes, and never cut
the power.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg2

STARTS_S = 30
"""Seconds that the server has to start, or to end."""

_FAST = ("fsync=off", "full_page_writes=off", "max_connections=60", "shared_buffers=16MB")
_USER = "postgres"


class Postgres:
    """A server, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self._programs = programs()
        self._numbers = count()
        self._process: subprocess.Popen[bytes] | None = None
        # It refuses to run as root.
        is_root = os.geteuid() == 0
        self._prefix = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if is_root else []
        if is_root:
            shutil.chown(folder, _USER, _USER)
        made = [self._programs / "initdb", "-D", folder / "data", "-U", _USER, "--auth", "trust", "--no-sync"]
        subprocess.run([*self._prefix, *map(str, made)], check=True, capture_output=True, cwd=folder)

    def url(self, database: str = _USER) -> str:
        """The URL of a database."""
        return f"postgresql+psycopg2://{_USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        deadline = time.monotonic() + STARTS_S
        while True:
            if self._process is None or self._process.poll() is not None:
                self._process = self._begun()  # again, if a process of the server before still ends
            try:
                self.run("SELECT 1")
            except psycopg2.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text(encoding="utf-8")[-2000:]
                time.sleep(0.02)
            else:
                return

    def _begun(self) -> subprocess.Popen[bytes]:
        server = [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-h", "127.0.0.1"]
        settings = [word for one in _FAST for word in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._prefix, *map(str, server), "-p", str(self.port), *settings],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self, sign: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to all processes of the server; after SIGKILL, wait until the first of them ended."""
        assert self._process is not None
        first = self._process.pid
        others = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()
        for pid in (first, *map(int, others)):
            with suppress(ProcessLookupError):
                os.kill(pid, sign)
        if sign is signal.SIGKILL:
            self._process.wait(STARTS_S)
            (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def run(self, statement: str, database: str = _USER) -> None:
        """Run one statement, outside of a transaction."""
        host = {"host": "127.0.0.1", "port": self.port, "user": _USER, "dbname": database, "connect_timeout": 5}
        connection = psycopg2.connect(**host)  # type: ignore[call-overload]
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
        finally:
            connection.close()

    def new_database(self) -> str:
        """Make an empty database, and return its name."""
        name = f"registry_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE template0")
        return name


@contextmanager
def running() -> Iterator[Postgres]:
    """Run a server until the context ends."""
    with tempfile.TemporaryDirectory(prefix="hudi-ops-postgres-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill(signal.SIGKILL)


def programs() -> Path:
    """The folder of PostgreSQL's programs."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb", path=os.pathsep.join([*map(str, places), os.environ["PATH"]]))
    assert found is not None, "PostgreSQL is not installed: bin/bootstrap --postgres"
    return Path(found).parent


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port: int = candidate.getsockname()[1]
        return port

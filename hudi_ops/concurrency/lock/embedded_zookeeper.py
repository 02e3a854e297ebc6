"""Embedded ZooKeeper server, from pyspark's jars: for demo, tests and single machines.

It listens on loopback only and outlives the process that started it. Its data folder records its process, so that any process can
find or stop it; only a process with that folder in its command line gets signals.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lock.zookeeper_session import probe
from hudi_ops.errors import Busy, InvalidRequest, Unavailable, Unsupported, not_installed

_LOOPBACK = "127.0.0.1"
# Without one of the first five the server exits, or worse: without snappy it listens, answers `imok` and never serves.
# The last three write its log.
_JARS = (
    "zookeeper-[0-9]*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "metrics-core-*",
    "snappy-java-*",
    "log4j-slf4j2-impl-*",
    "log4j-api-*",
    "log4j-core-*",
)
_SETTINGS = """\
tickTime=500
dataDir=./data
clientPort={port}
clientPortAddress={address}
admin.enableServer=false
minSessionTimeout=1000
maxSessionTimeout=60000
autopurge.purgeInterval=1
4lw.commands.whitelist=srvr,mntr,ruok
"""
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Status of an embedded server.

    `is_running`: the process exists; `is_serving`: an operation succeeded just now. `hosts` is ZooKeeper's connect string,
    `started_ms` wall time in ms since 1970 UTC; without a process both, and the port, are those of the last start. Zero and empty
    mean never, and `pid` 0 no process.
    """

    data_folder: str
    is_running: bool
    is_serving: bool
    hosts: str
    port: int
    pid: int
    started_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Return the status as plain values, for `--json`."""
        return asdict(self)


class EmbeddedZooKeeper:
    """ZooKeeper server on this machine, identified by its data folder; a context manager.

    `port` is its port on loopback; 0: the port of the last start, or a free one.
    """

    def __init__(self, data_folder: Path, port: int = 0) -> None:
        self.folder = data_folder.absolute()
        self._port = port
        self._state_file = self.folder / "server.json"
        self._log_file = self.folder / "server.log"
        self._log_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """Connect string; empty before the first start."""
        port = int(self._state().get("port", 0))
        return f"{_LOOPBACK}:{port}" if port else ""

    def start(self, timeout_s: float = 30.0) -> bool:
        """Start the server until it has served an operation; return False when it was running.

        Raises:
            InvalidRequest: the port is taken, or the server runs on another one.
            Unsupported: Java or pyspark's jars are missing.
            Unavailable: the server did not serve within `timeout_s`; names its log.
            Busy: another process starts or stops it and does not end.
        """
        deadline_s = time.monotonic() + timeout_s
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone(deadline_s):
            state = self._state()
            pid = self._running_pid()
            if pid:
                if self._port and self._port != state["port"]:
                    raise InvalidRequest(
                        f"the ZooKeeper of {self.folder} runs already, on another port",
                        expected=f"port {self._port}",
                        found=f"port {state['port']} (pid {pid})",
                        next_step=f"use port {state['port']}, or stop it first.",
                    )
                self._await_service(pid, int(state["port"]), deadline_s)
                return False
            port = self._choose_port(int(state.get("port", 0)))
            pid = self._launch(port)
            self._await_service(pid, port, deadline_s)
            return True

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Stop the server, but not its data; return False when it was not running.

        After `timeout_s` it gets SIGKILL.

        Raises:
            Busy: another process starts or stops it and does not end.
            Unavailable: the process outlived SIGKILL.
        """
        if not self.folder.is_dir():
            return False
        with self._alone(time.monotonic() + timeout_s):
            pid = self._running_pid()
            if not pid:
                return False
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)  # a paused process would not handle SIGTERM
            if not self._ended(pid, timeout_s):
                os.kill(pid, signal.SIGKILL)
                if not self._ended(pid, timeout_s):
                    raise Unavailable(f"ZooKeeper process {pid} of {self.folder} does not end", pid=pid)
            return True

    def status(self, timeout_s: float = 3.0) -> ServerStatus:
        """Return whether the server runs and serves; waits at most `timeout_s` for an answer."""
        state, pid = self._state(), self._running_pid()
        hosts, is_serving = self.hosts, False
        if pid:
            try:
                probe(hosts, timeout_s)
                is_serving = True
            except Unavailable:
                pass  # an expected answer
        started_ms, port = int(state.get("started_ms", 0)), int(state.get("port", 0))
        return ServerStatus(str(self.folder), bool(pid), is_serving, hosts, port, pid, started_ms)

    def _launch(self, port: int) -> int:
        command = [
            _java(),
            *("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.preAllocSize=4096"),
            self._mark(),
            *("-cp", os.pathsep.join(map(str, _jars()))),
            *("org.apache.zookeeper.server.quorum.QuorumPeerMain", "./zoo.cfg"),
        ]
        # Paths in the settings are relative to the working folder: Java reads this file as Latin-1.
        (self.folder / "zoo.cfg").write_text(_SETTINGS.format(port=port, address=_LOOPBACK), encoding="ascii")
        with self._log_file.open("ab") as log:
            self._log_bytes = log.tell()
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal must not end it
            )
        state = {"pid": self._process.pid, "port": port, "started_ms": SystemClock().now_ms()}
        partial = self._state_file.with_suffix(".partial")
        partial.write_text(json.dumps(state), encoding="utf-8")
        partial.replace(self._state_file)
        return self._process.pid

    def _await_service(self, pid: int, port: int, deadline_s: float) -> None:
        patience_s = 0.25
        while self._is_ours(pid):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise self._failed(f"it does not serve on port {port}")
            # A connection to a starting server may never get an answer: ask again, with growing patience.
            if _listens(port):
                try:
                    return probe(f"{_LOOPBACK}:{port}", min(patience_s, left_s))
                except Unavailable:
                    patience_s = min(2 * patience_s, 5.0)
            time.sleep(_POLL_S)
        raise self._failed(f"its process ended: {self._last_words()}")

    def _failed(self, why: str) -> Unavailable:
        return Unavailable(
            f"the ZooKeeper of {self.folder} did not start: {why}",
            next_step=f"read {self._log_file}, then start it again.",
        )

    def _last_words(self) -> str:
        # The log is kept over starts: only the part since the last one explains its failure.
        said = self._log_file.read_bytes()[self._log_bytes :].decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in said if line.strip() and not line.startswith("\tat ")]
        heads = (line.removeprefix("Caused by: ").split(": ")[0] for line in said)
        causes = [line for line, head in zip(said, heads, strict=True) if head.endswith(("Exception", "Error"))]
        return (causes or said or ["it said nothing"])[-1]

    def _choose_port(self, last_port: int) -> int:
        if self._port:
            if not _is_free(self._port):
                raise InvalidRequest(
                    f"port {self._port} on {_LOOPBACK} is taken",
                    next_step="choose another port, or end the process that listens there.",
                )
            return self._port
        return last_port if last_port and _is_free(last_port) else _free_port()

    def _mark(self) -> str:
        return f"-Dhudi_ops.zookeeper={self.folder}"

    def _is_ours(self, pid: int) -> bool:
        if self._process is not None and self._process.pid == pid:
            # A starting child has an empty command line for a moment, and an ended one must be waited for.
            return self._process.poll() is None
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return os.fsencode(self._mark()) in arguments

    def _running_pid(self) -> int:
        pid = int(self._state().get("pid", 0))
        return pid if pid and self._is_ours(pid) else 0

    def _ended(self, pid: int, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while self._is_ours(pid):
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(_POLL_S)
        # Its last threads may keep the port slightly longer than the process exists.
        port = int(self._state().get("port", 0))
        while not _is_free(port) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        return True

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads(self._state_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InvalidRequest(
                f"{self._state_file} was not written by a start of ZooKeeper: {error}",
                next_step="end that ZooKeeper by hand if it runs, then remove the file.",
            ) from error
        return dict(state)

    @contextmanager
    def _alone(self, deadline_s: float) -> Iterator[None]:
        # Two concurrent starts would each find no running server.
        with (self.folder / "server.lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline_s:
                        raise Busy(f"another process is starting or stopping the ZooKeeper of {self.folder}") from None
                    time.sleep(_POLL_S)
            yield


def _java() -> str:
    home = os.environ.get("JAVA_HOME", "")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise Unsupported(
            "ZooKeeper needs Java, and none was found in JAVA_HOME or PATH",
            expected="Java 17 or later",
            next_step="install it, on Debian or Ubuntu: apt-get install openjdk-17-jre-headless",
        )
    return found


def _jars() -> list[Path]:
    # pyspark is located, not imported: an import takes a second, and only engine.spark may do it.
    spec = importlib.util.find_spec("pyspark")
    feature = "the embedded ZooKeeper, whose jars come with pyspark,"
    if spec is None or spec.origin is None:
        raise not_installed(feature, "spark", found="no package pyspark")
    folder = Path(spec.origin).parent / "jars"
    if not folder.is_dir():
        raise not_installed(feature, "spark", found=f"no folder {folder}")
    jars = []
    for pattern in _JARS:
        found = sorted(folder.glob(f"{pattern}.jar"))
        if not found:
            raise Unsupported(
                f"ZooKeeper cannot run without a jar that pyspark should bring, in {folder}",
                expected=f"{pattern}.jar",
                next_step="install the package again: pip install --force-reinstall --no-deps pyspark",
            )
        jars.append(found[-1])
    return jars


def _listens(port: int) -> bool:
    with socket.socket() as probe_socket:
        probe_socket.settimeout(1.0)
        return probe_socket.connect_ex((_LOOPBACK, port)) == 0


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        # Bind as the server does: lingering connections of its predecessor do not matter.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((_LOOPBACK, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind((_LOOPBACK, 0))
        return int(candidate.getsockname()[1])

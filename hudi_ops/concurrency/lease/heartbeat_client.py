"""Renew leases by a heartbeat process, even while a step holds Python's global lock.

Each writing process has one heartbeat process (`concurrency/lease/heartbeat_process.py`), which its first lease starts and which
runs until the writing process ends. If it fails, threads renew the leases.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease import heartbeat_process
from hudi_ops.concurrency.lease.heartbeat_threads import FAREWELL_S, ThreadBeats
from hudi_ops.concurrency.lease.lease import Renewal
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.open import open_storage
from hudi_ops.storage.protocol import Storage

logger = logging.getLogger(__name__)

# Closing the connection this long before a heartbeat is due prevents the heartbeat.
_HEARD_S = 1.0
# Longest wait until the heartbeat process reads from a socket, on a machine that is too busy.
_ROOM_S = 2.0
_CLOCK = SystemClock()


class ProcessBeats:
    """Heartbeats by another process; thread-safe, replaced in forked processes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._process: _Process | None = None
        self._threads = ThreadBeats()
        self._why_not = ""

    @contextmanager
    def every(self, interval_s: float, beat: Callable[[], None]) -> Iterator[None]:
        """Renew a lease each `interval_s` seconds, first after one, until the context ends.

        `beat` is a `Renewal`. If another process cannot perform it, threads of this process call it.
        """
        kept = self._keep(interval_s, beat)
        if kept is None:
            with self._threads.every(interval_s, beat):
                yield
            return
        try:
            yield
        finally:
            kept.end()

    @property
    def process_id(self) -> int | None:
        """The heartbeat process; None without one."""
        return self._process.process_id if self._process is not None and not self._process.is_gone else None

    def close(self, *, is_waited_for: bool = True) -> None:
        """End the heartbeat process, which the next lease starts again; wait if `is_waited_for`."""
        with self._guard:
            process, self._process = self._process, None
        if process is not None:
            process.close(is_waited_for)

    def abandon(self) -> None:
        """Close the inherited socket in a forked child; the process stays its parent's."""
        if self._process is not None:
            self._process.abandon()

    def _keep(self, interval_s: float, beat: Callable[[], None]) -> _Kept | None:
        if not isinstance(beat, Renewal) or not is_shareable(beat):
            logger.info("leases are renewed by a thread of this process: no other process can open the storage")
            return None
        with self._guard:
            try:
                if self._process is None or self._process.is_gone:
                    self._process = None
                    self._process = _Process()
                return self._process.keep(interval_s, beat, self._threads)
            except (OSError, RuntimeError) as error:  # no descriptor, process or thread is available
                if str(error) != self._why_not:
                    self._why_not = str(error)
                    logger.warning("no process can renew leases, threads do it: %s", error)
                return None


class _Process:
    """The heartbeat process, and the socket through which it gets connections."""

    def __init__(self) -> None:
        program = Path(sys.executable or "")
        if not program.name.startswith("python") or not Path("/proc/self/stat").exists():
            raise OSError(f"{program} is no Python, or this system has no /proc")
        self.is_closed = False
        path = json.dumps([str(Path(place).absolute()) for place in sys.path])
        self._outbox, inbox = socket.socketpair()
        self._outbox.settimeout(_ROOM_S)
        with inbox:
            # Isolated and without site: it starts in a few ms, and imports hudi_ops by the path that it gets.
            self._process = subprocess.Popen(
                [str(program), "-I", "-S", heartbeat_process.__file__, str(os.getpid()), path],
                stdin=inbox.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    @property
    def process_id(self) -> int:
        return int(self._process.pid)

    @property
    def is_gone(self) -> bool:
        return self.is_closed or self._process.poll() is not None

    def keep(self, interval_s: float, renewal: Renewal, threads: ThreadBeats) -> _Kept:
        due_s = _CLOCK.monotonic_s() + interval_s
        lease = {"uri": renewal.storage.uri, "instant": renewal.instant, "facts": renewal.facts}
        # Keys for a store may have been set since the process was started.
        told = {**lease, "due_s": due_s, "interval_s": interval_s, "environment": dict(os.environ)}
        ours, theirs = socket.socketpair()
        ours.settimeout(_ROOM_S)
        try:
            with theirs:
                socket.send_fds(self._outbox, [b"."], [theirs.fileno()])
            ours.sendall(json.dumps(told).encode() + b"\n")
        except OSError:
            self._process.kill()  # it may not read the end of the lease, and would go on renewing it
        # With a time limit `recv` would wait for a report, even with MSG_DONTWAIT.
        ours.setblocking(False)
        try:
            return _Kept(self, ours, due_s, interval_s, renewal, threads)
        except RuntimeError:
            ours.close()  # ends the lease in the process, too
            raise

    def abandon(self) -> None:
        self.is_closed = True
        self._outbox.close()
        self._process.returncode = 0  # not a child of this process

    def close(self, is_waited_for: bool) -> None:
        self.is_closed = True
        with suppress(OSError):
            self._outbox.shutdown(socket.SHUT_RDWR)  # a fork of this process may hold the socket, too
        self._outbox.close()
        if not is_waited_for:
            self._process.returncode = 0  # avoids the warning about a child that outlives this process for a moment
            return
        try:
            self._process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


@dataclass(eq=False)
class _Kept:
    """A lease that the process renews, and this side of its connection."""

    process: _Process
    connection: socket.socket
    due_s: float
    interval_s: float
    renewal: Renewal
    threads: ThreadBeats
    _pid: int = field(default_factory=os.getpid)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _hearing: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)
    _stack: ExitStack = field(default_factory=ExitStack)
    _unread: bytes = b""
    _is_over: bool = False
    _is_here: bool = False
    _hangs: bool = False

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, name="hudi-ops-beats", daemon=True).start()
        self.renewal.look = self._hear

    def end(self) -> None:
        """End the renewal; on return no heartbeat runs, or a hung one will undo itself."""
        if self._pid != os.getpid():
            return
        with self._guard:
            self._is_over = True
        self._stack.close()
        with self._hearing, suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        if _CLOCK.monotonic_s() > self.due_s - _HEARD_S and not self._closed.wait(FAREWELL_S):
            self._hangs = True
            logger.warning("a heartbeat of %s still hangs after its work has ended", self.renewal.instant)

    def _listen(self) -> None:
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        while not self._closed.is_set():
            poller.poll(1000 * heartbeat_process.LOOK_S)
            self._hear()
        with self._hearing:
            self.connection.close()
        if self._hangs:
            try:
                self.renewal.undo_if_settled()
            except HudiOpsError as error:
                logger.warning("lease of %s was not removed: %s", self.renewal.instant, error)

    def _hear(self) -> None:
        """Read the reports of the process."""
        if self._pid != os.getpid():
            return
        with self._hearing:
            if self._closed.is_set():
                return
            try:
                said = self.connection.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not self.process.is_gone:
                    return
                said = b""
            except OSError:
                said = b""
            *lines, self._unread = (self._unread + said).split(b"\n")
            for line in lines:
                self._take_in(json.loads(line))
            if not said:
                self._closed.set()
                if not self._is_over and not self.process.is_closed:
                    logger.warning("the process that renews leases ended, threads go on: %s", self.renewal.instant)
                    self._beat_here_too()

    def _take_in(self, said: dict[str, Any]) -> None:
        if "beaten" in said:
            self.renewal.beaten(*said["beaten"])
        elif "lost" in said:
            self.renewal.lost()
        else:
            if not self._is_here:
                logger.warning(
                    "lease of %s was not renewed, threads try, too: %s", self.renewal.instant, said["failed"]
                )
            self._beat_here_too()

    def _beat_here_too(self) -> None:
        """Renew the lease from threads, too: the process may lack a storage key set in code."""
        with self._guard:
            if not self._is_over and not self._is_here:
                self._is_here = True
                self._stack.enter_context(self.threads.every(self.interval_s, self.renewal, first_s=0.0))


def is_shareable(renewal: Renewal) -> bool:
    """Return whether another process has the lease's storage, by its URI, and its clock."""
    storage: Storage = renewal.storage
    try:
        return isinstance(renewal.clock, SystemClock) and type(open_storage(storage.uri)) is type(storage)
    except HudiOpsError:
        return False


def process_beats() -> ProcessBeats:
    """Return the heartbeats of this process."""
    return _beats


def _after_fork() -> None:
    global _beats
    inherited, _beats = _beats, ProcessBeats()
    inherited.abandon()


_beats = ProcessBeats()
os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: process_beats().close(is_waited_for=False))

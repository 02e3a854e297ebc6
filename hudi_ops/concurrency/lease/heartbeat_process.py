"""Heartbeat process: renews its parent's leases even while the parent holds its global lock.

It gets one connection per lease through its standard input. The parent sends one line of JSON, `{uri, instant, facts, due_s,
interval_s, environment}`; the answers are `{"beaten": [started_s, ended_s]}`, `{"lost": true}` and `{"failed": text}`.
Times are of the monotonic clock, which processes share. The parent ends a lease by closing its end of the connection; this process
closes the other end when no heartbeat of the lease is running. It exits when its input closes or its parent is gone. It does not
renew leases of a stopped parent, whose work has stopped, too (docs/protocol §16). It is started without `site`, and imports
`hudi_ops` only when the first heartbeat is due: most writes have ended by then.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

LOOK_S = 5.0
"""Interval of checks whether the parent lives: if a fork of the parent inherited the input, it does not close."""
PAUSED_S = 1.0
HANGING_MAX = 4
"""Most heartbeats of one lease that may hang at a time. Each is a thread; after four the lease is dead in any case."""
_STOPPED = frozenset("TtZX")
_importing = threading.Lock()


class KeptLease:
    """A lease and the connection to its owner; each heartbeat is a thread of its own."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self._connection = connection
        self._parent = parent
        self._told: dict[str, Any] = {}
        self._is_lost = False

    def keep(self) -> None:
        """Renew the lease until the parent closes the connection."""
        with self._connection, self._connection.makefile("rb") as lines, suppress(OSError, ValueError):
            self._told = json.loads(lines.readline())
            with _importing:
                os.environ.update(self._told["environment"])  # for all leases: the newest lease has the newest keys
            poller = select.poll()
            poller.register(self._connection, select.POLLIN)
            beats: list[threading.Thread] = []
            due_s = self._told["due_s"]
            while not poller.poll(1000 * max(0.0, due_s - time.monotonic())) and not self._is_lost:
                if self._has_idle_parent():
                    due_s = time.monotonic() + PAUSED_S
                    continue
                due_s = time.monotonic() + self._told["interval_s"]
                beats = [beat for beat in beats if beat.is_alive()]
                if len(beats) < HANGING_MAX:
                    beats.append(threading.Thread(target=self._beat, daemon=True))
                    beats[-1].start()
            poller.poll()
            for beat in beats:
                beat.join()

    def _beat(self) -> None:
        try:
            storage = open_storage(self._told["uri"])
            from hudi_ops.concurrency.lease.lease import renew

            if self._has_idle_parent():
                return  # the parent stopped or ended during the imports
            started_s = time.monotonic()
            if renew(storage, self._told["instant"], self._told["facts"], time.time_ns() // 1_000_000):
                self._say("beaten", [started_s, time.monotonic()])
            else:
                self._is_lost = True
                self._say("lost", True)
        except Exception as error:  # noqa: BLE001 - the edge of a process: the parent logs it
            self._say("failed", f"{type(error).__name__}: {error}")

    def _has_idle_parent(self) -> bool:
        return os.getppid() != self._parent or is_stopped(self._parent)

    def _say(self, word: str, value: object) -> None:
        with suppress(OSError):  # the parent is gone
            self._connection.sendall(json.dumps({word: value}).encode() + b"\n")


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (by a signal or debugger) or has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in _STOPPED
    except OSError:
        return True


def open_storage(uri: str) -> Any:
    """Open a storage, importing by the parent's module path."""
    with _importing:
        if "hudi_ops" not in sys.modules:
            import site

            site.main()
            path = json.loads(sys.argv[2])
            sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
        from hudi_ops.storage import open as storages

        return storages.open_storage(uri)


def main() -> None:
    """Run until the parent is gone; its process id and its module path are the arguments."""
    # Ctrl-C and similar signals go to the whole process group: ignore them, and end only with the parent.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    parent = int(sys.argv[1])
    inbox = socket.socket(fileno=0)
    poller = select.poll()
    poller.register(inbox, select.POLLIN)
    while os.getppid() == parent:
        if poller.poll(1000 * LOOK_S):
            _, received, _, _ = socket.recv_fds(inbox, 1, 1)
            if not received:
                break
            kept = KeptLease(socket.socket(fileno=received[0]), parent)
            threading.Thread(target=kept.keep, daemon=True).start()
    os._exit(0)  # without waiting for hung heartbeats


if __name__ == "__main__":
    main()

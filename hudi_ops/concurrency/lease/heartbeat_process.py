"""A program of its own, started beside each process that writes: it renews the leases of its parent, whatever the parent is doing.

A step that holds Python's global lock for minutes starves every thread of its process, but no other process. It is started
without `site` and imports nothing of ours until the first beat is due: most writes are over by then. It ends when the pipe to its
parent closes, and does not beat for a parent that is stopped, since that one's work stands still (docs/protocol.md §16).

Lines from the parent: `path LIST`, `environment OBJECT`, `keep ID DUE INTERVAL OBJECT`, `stop ID`, `settle ID`; to it: `beaten ID
STARTED ENDED`, `lost ID`, `failed ID TEXT`, `stopped ID`, `useless TEXT`. Times are of the monotonic clock, which processes share.
What is told does not wake it: it listens every few seconds, before each beat, and when the bell rings, a second pipe. So a write
that is over by then costs it nothing, and costs the writer no switch of processes.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

LOOK_S = 5.0
"""How often it listens, and looks whether its parent is still there: a pipe that a fork of the parent inherited does not close."""
PAUSED_S = 1.0
HANGING_MAX = 4
"""Beats of one lease that may hang at a time: each is a thread, and after four the lease is dead in any case."""
_STOPPED = frozenset("TtZX")
_PIPE, _BELL = 0, 1


class Kept:
    """A lease that is renewed."""

    def __init__(self, due_s: float, interval_s: float, told: bytes) -> None:
        self.due_s = due_s
        self.interval_s = interval_s
        self.told = told
        self.under_way = 0
        self.is_stopped = False
        self.is_settled = False
        self.is_lost = False
        self.undo: Callable[[], None] | None = None


class Beater:
    """The program's state; one loop reads and decides, and each beat is a thread of its own."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._kept: dict[bytes, Kept] = {}
        self._unread = b""
        self._path: bytes | None = None
        self._environment: bytes | None = None
        self._loading = threading.Lock()
        self._speaking = threading.Lock()
        self._wake_out, self._wake_in = os.pipe()

    def run(self) -> None:
        """Go on until the parent is gone."""
        poller = select.poll()
        os.set_blocking(_PIPE, False)
        os.set_blocking(_BELL, False)
        poller.register(_PIPE, 0)  # its end alone
        poller.register(_BELL, select.POLLIN)
        poller.register(self._wake_out, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll(1000 * self._pause_s())}
            if _BELL in ready:
                os.read(_BELL, 65536)
            # What was told comes first: a beat that ended, or is due, may have been stopped or settled before.
            if not self._listen() or os.getppid() != self._parent:
                return
            if self._wake_out in ready:
                for name in os.read(self._wake_out, 65536).split():
                    self._landed(name)
            self._beat_those_due()

    def _pause_s(self) -> float:
        live = [kept.due_s for kept in self._kept.values() if not kept.is_stopped]
        return max(0.0, min([LOOK_S, *(due_s - time.monotonic() for due_s in live)])) + 0.001

    def _listen(self) -> bool:
        while True:
            try:
                told = os.read(_PIPE, 65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not told:
                return False
            *lines, self._unread = (self._unread + told).split(b"\n")
            for line in lines:
                self._obey(line)

    def _obey(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"path":
            self._path = rest
        elif word == b"environment":
            self._environment = rest
        elif word == b"keep":
            name, due, interval, told = rest.split(b" ", 3)
            self._kept[name] = Kept(float(due), float(interval), told)
        elif (kept := self._kept.get(rest)) is not None:
            kept.is_stopped = True
            kept.is_settled = kept.is_settled or word == b"settle"
            self._part(rest, kept)

    def _part(self, name: bytes, kept: Kept) -> None:
        if not kept.under_way:
            del self._kept[name]
            self._say(b"stopped %s" % name)

    def _landed(self, name: bytes) -> None:
        kept = self._kept[name]
        kept.under_way -= 1
        if kept.is_settled and kept.undo is not None:
            threading.Thread(target=kept.undo, daemon=True).start()
        if kept.is_stopped:
            self._part(name, kept)

    def _beat_those_due(self) -> None:
        now_s = time.monotonic()
        for name, kept in self._kept.items():
            if kept.is_stopped or kept.is_lost or kept.due_s > now_s:
                if kept.is_lost:
                    kept.due_s = now_s + kept.interval_s
                continue
            if is_stopped(self._parent):
                kept.due_s = now_s + PAUSED_S
                continue
            kept.due_s = now_s + kept.interval_s
            if kept.under_way < HANGING_MAX:
                kept.under_way += 1
                threading.Thread(target=self._beat, args=(name, kept), daemon=True).start()

    def _beat(self, name: bytes, kept: Kept) -> None:
        try:
            renew = self._load(name, kept)
            # Loading takes a while, in which the parent may have been stopped.
            if renew is None or is_stopped(self._parent):
                return
            started_s = time.monotonic()
            if renew():
                self._say(b"beaten %s %.6f %.6f" % (name, started_s, time.monotonic()))
            else:
                kept.is_lost = True
                self._say(b"lost %s" % name)
        except Exception as error:  # noqa: BLE001 - the edge of a process: the parent logs it
            self._say(b"failed %s %s" % (name, one_line(error)))
        finally:
            os.write(self._wake_in, name + b"\n")

    def _load(self, name: bytes, kept: Kept) -> Callable[[], bool] | None:
        try:
            with self._loading:
                if self._path is not None:
                    find_modules(self._path)
                    self._path = None
                import json

                if self._environment is not None:
                    os.environ.update(json.loads(self._environment))
                    self._environment = None
                from hudi_ops.concurrency.lease.lease import discard, renew
                from hudi_ops.storage.open import open_storage
        except Exception as error:  # noqa: BLE001 - the edge of a process: the parent beats by itself then
            self._say(b"useless %s" % one_line(error))
            return None
        told: dict[str, Any] = json.loads(kept.told)
        storage = open_storage(told["uri"])
        instant, facts = told["instant"], told["facts"]
        kept.undo = lambda: discard(storage, instant, facts)
        return lambda: renew(storage, instant, facts, time.time_ns() // 1_000_000)

    def _say(self, line: bytes) -> None:
        with self._speaking:
            try:
                os.write(_PIPE, line + b"\n")
            except OSError:
                return  # it listens no more, or not now; what it did not hear counts as a beat that failed


def is_stopped(pid: int) -> bool:
    """Whether a process stands still (a signal, a debugger), or has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in _STOPPED
    except OSError:
        return True


def find_modules(path: bytes) -> None:
    """Find what the parent finds: its path, after what an installation of ours may have registered."""
    import json
    import site

    site.main()
    sys.path[:] = [*json.loads(path), *(place for place in sys.path if place not in json.loads(path))]


def one_line(error: Exception) -> bytes:
    """An error as text for the parent's log."""
    return " ".join(f"{type(error).__name__}: {error}".split()).encode()


def main() -> None:
    """Run until the parent, whose process id is the one argument, is gone."""
    # Ctrl-C and its like go to the whole group: the parent decides what becomes of it, and its end is ours.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    Beater(int(sys.argv[1])).run()
    os._exit(0)  # a beat that hangs must not keep it


if __name__ == "__main__":
    main()

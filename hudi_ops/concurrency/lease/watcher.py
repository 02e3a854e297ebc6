"""Watch the commit log for CANCELs and TAKEOVERs while plans are executed.

One thread for each table of a process probes the next free slot once a second, for all instants that the process executes. It ends
with the last of them. With simulated time, or a context with heartbeats of its own, there is no thread: the executor reads the log
between tasks.

Source: docs/protocol §26.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease.heartbeat_client import is_shareable
from hudi_ops.concurrency.lease.lease import Renewal
from hudi_ops.concurrency.lease.monitor import WATCH_INTERVAL_S, LeaseMonitor
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import read_slot

logger = logging.getLogger(__name__)

WATCHED_ROLES = frozenset({"execute", "build"})
"""Work that a cancel may end while it runs."""
_FAREWELL_S = 2.0
"""Longest time for which a hung probe delays the end of the work, in seconds."""
_CLOCK = SystemClock()


@contextmanager
def watching(ctx: TableContext, monitor: LeaseMonitor) -> Iterator[None]:
    """Watch the log for an attempt until the context ends, if a thread is allowed."""
    if ctx.beats is not None or not isinstance(ctx.clock, SystemClock) or monitor.head is None:
        yield
        return
    watcher = _watchers.of(monitor.renewal)
    watcher.add(monitor)
    try:
        yield
    finally:
        watcher.remove(monitor)


class LogWatcher:
    """Watcher of one table's log, for all attempts of this process; thread-safe.

    Args:
        storage: storage of the table.
        interval_s: time between two probes while no slot is taken, in seconds.
    """

    def __init__(self, storage: Storage, interval_s: float = WATCH_INTERVAL_S) -> None:
        self._storage = storage
        self._interval_s = interval_s
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._monitors: list[LeaseMonitor] = []
        self._thread: threading.Thread | None = None
        self._trouble = ""

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs; in a forked child it does not."""
        return self._thread is not None and self._thread.is_alive()

    def add(self, monitor: LeaseMonitor) -> None:
        """Watch for another attempt; if no thread can be started, the attempt reads the log itself."""
        monitor.watched(lambda: self.is_alive)
        with self._changed:
            self._monitors.append(monitor)
            if not self.is_alive:
                self._start()

    def remove(self, monitor: LeaseMonitor) -> None:
        """Stop watching for an attempt; the thread ends with the last attempt."""
        if self._pid != os.getpid():
            return  # the thread of the parent may have held the lock when it forked
        with self._changed:
            self._monitors.remove(monitor)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._monitors or self._thread is None, _FAREWELL_S)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="hudi-ops-watcher", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            logger.warning("no thread can watch the commit log, executors look between tasks: %s", error)
            return
        self._thread = thread

    def _run(self) -> None:
        due_s = _CLOCK.monotonic_s() + self._interval_s
        while True:
            with self._changed:
                while self._monitors and (left_s := due_s - _CLOCK.monotonic_s()) > 0:
                    self._changed.wait(left_s)
                if not self._monitors:
                    self._thread = None
                    self._changed.notify_all()
                    return
                monitors = list(self._monitors)
            due_s = _CLOCK.monotonic_s() + self._interval_s
            self._look(monitors)

    def _look(self, monitors: list[LeaseMonitor]) -> None:
        """Read the slots that were taken since, and tell every attempt that does not know them."""
        slot = min(monitor.head for monitor in monitors if monitor.head is not None) + 1
        try:
            while (entry := read_slot(self._storage, slot)) is not None:
                for monitor in monitors:
                    monitor.learn(slot, entry)
                slot += 1
            self._trouble = ""
        except HudiOpsError as error:
            # The work continues: a slot decides at its end, after a full check.
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning("the commit log cannot be watched, and is tried again: %s", error)


class _Watchers:
    """Watchers of this process, by table; thread-safe, replaced in forked processes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._by_table: WeakValueDictionary[str, LogWatcher] = WeakValueDictionary()

    def of(self, renewal: Renewal) -> LogWatcher:
        """Return the watcher of a lease's table, one for all objects of one URI."""
        storage = renewal.storage
        key = storage.uri if is_shareable(renewal) else f"{storage.uri} {id(storage)}"
        with self._guard:
            return self._by_table.setdefault(key, LogWatcher(storage))


def _after_fork() -> None:
    global _watchers
    _watchers = _Watchers()


_watchers = _Watchers()
os.register_at_fork(after_in_child=_after_fork)

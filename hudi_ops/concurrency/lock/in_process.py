"""Lock between threads of one process, for tables with one writing process and for tests.

Waiters are served in order of arrival. Other processes do not see this lock.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lock.lock_nodes import busy
from hudi_ops.concurrency.lock.locks import Held, LockHolder
from hudi_ops.errors import Internal, InvalidRequest

_registry: weakref.WeakValueDictionary[str, InProcessLock] = weakref.WeakValueDictionary()
_registry_guard = threading.Lock()


def in_process_lock(name: str) -> InProcessLock:
    """Return this process's lock of a name, the same object as long as it is referenced.

    `name` is compared as text, normally the table's URI, so pass one spelling of it.
    """
    with _registry_guard:
        lock = _registry.get(name)
        if lock is None:
            lock = _registry[name] = InProcessLock(name)
        return lock


class InProcessLock:
    """Fair `LockProvider` for the threads of one process, normally made by `in_process_lock`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._start_afresh()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidRequest(
            f"the lock of {self.name} cannot be sent to another process",
            next_step="keep the lock, and the table object that has it, out of functions that run on Spark executors.",
        )

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[Held]:
        """Wait for the lock in order of arrival; hold it inside the `with` block.

        `purpose` is shown to other waiters.

        Raises:
            Busy: not acquired within `timeout_s`; names the holder.
            Internal: this thread holds the lock already, and would wait for itself.
        """
        if self._pid != os.getpid():
            # Threads do not survive a fork: holder and waiters are not in this process.
            self._start_afresh()
        held = self._wait(timeout_s, purpose)
        try:
            yield held
        finally:
            held.release()

    @property
    def address(self) -> str:
        """Text `in-process` with host and process: it excludes no lock of another process."""
        return f"in-process:{socket.gethostname()}:{os.getpid()}"

    def holder(self) -> LockHolder | None:
        """Return the current holder, or None."""
        held = self._held
        return None if held is None or self._pid != os.getpid() else held.holder

    def _start_afresh(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._held: _HeldInProcess | None = None
        self._acquisitions = 0

    def _wait(self, timeout_s: float, purpose: str) -> _HeldInProcess:
        ticket = object()
        with self._changed:
            if self._held is not None and self._held.thread_id == threading.get_ident():
                raise Internal(
                    f"this thread already holds the lock of {self.name}",
                    expected="one acquisition a thread",
                    found=f"a second one, for {purpose}, inside {self._held.holder.purpose}",
                )
            self._waiting.append(ticket)
            try:
                if not self._changed.wait_for(lambda: self._held is None and self._waiting[0] is ticket, timeout_s):
                    raise busy(self.name, self.holder(), timeout_s)
                self._acquisitions += 1
                self._held = _HeldInProcess(self, self._acquisitions, _this_thread(purpose))
                return self._held
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _release(self, held: _HeldInProcess) -> None:
        with self._changed:
            if self._held is held:
                self._held = None
                self._changed.notify_all()


class _HeldInProcess:
    """One acquisition, held until its release in the process that made it."""

    def __init__(self, lock: InProcessLock, token: int, holder: LockHolder) -> None:
        self.holder = holder
        self.thread_id = threading.get_ident()
        self._lock = lock
        self.token = token
        self._pid = os.getpid()
        self._released = False

    def still_mine(self) -> bool:
        return not self._released and self._pid == os.getpid()

    def release(self) -> None:
        self._released = True
        if self._pid == os.getpid():  # a forked child leaves its parent's `with` blocks too
            self._lock._release(self)


def _this_thread(purpose: str) -> LockHolder:
    owner = f"thread {threading.current_thread().name} of process {os.getpid()}"
    return LockHolder(owner=owner, host=socket.gethostname(), purpose=purpose, since_ms=SystemClock().now_ms())

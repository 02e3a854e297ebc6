"""The lock between threads of one process: for tables that only one process writes, and for tests.

Waiters are served in the order in which they came. Nothing outside the process knows of this lock.
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
    """The lock of that name in this process, the same object for everyone who asks while somebody keeps it.

    Args:
        name: what is locked, as a rule the table's uri; compared as text, so pass one spelling of it.
    """
    with _registry_guard:
        lock = _registry.get(name)
        if lock is None:
            lock = _registry[name] = InProcessLock(name)
        return lock


class InProcessLock:
    """A fair `LockProvider` for the threads of one process; as a rule made by `in_process_lock`.

    Args:
        name: what is locked; named in errors.
    """

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
        """Wait for the lock behind those who came first, hold it inside the `with` block.

        Args:
            timeout_s: longest wait.
            purpose: shown to others who wait.

        Raises:
            Busy: not acquired in time; names the holder.
            Internal: this thread holds the lock already, so it would wait for itself.
        """
        if self._pid != os.getpid():
            # Threads do not survive a fork: whoever held the lock, or waited for it, is not in this process.
            self._start_afresh()
        held = self._wait(timeout_s, purpose)
        try:
            yield held
        finally:
            held.release()

    @property
    def address(self) -> str:
        """`in-process`, and the process: nobody else's lock excludes it."""
        return f"in-process:{socket.gethostname()}:{os.getpid()}"

    def holder(self) -> LockHolder | None:
        """Who holds the lock now, or None."""
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
    """One acquisition; mine until it is released, in the process where it was made."""

    def __init__(self, lock: InProcessLock, token: int, holder: LockHolder) -> None:
        self.holder = holder
        self.thread_id = threading.get_ident()
        self._lock = lock
        self._token = token
        self._pid = os.getpid()
        self._released = False

    @property
    def token(self) -> int:
        return self._token

    def still_mine(self) -> bool:
        return not self._released and self._pid == os.getpid()

    def release(self) -> None:
        self._released = True
        if self._pid == os.getpid():  # a forked child runs through its parent's `with` blocks too
            self._lock._release(self)


def _this_thread(purpose: str) -> LockHolder:
    owner = f"thread {threading.current_thread().name} of process {os.getpid()}"
    return LockHolder(owner=owner, host=socket.gethostname(), purpose=purpose, since_ms=SystemClock().now_ms())

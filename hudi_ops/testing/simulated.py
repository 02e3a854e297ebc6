"""Context for services under a test's control: seeded ids, no threads, no waiting."""

from __future__ import annotations

import random
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hudi_ops.clock import Clock
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.context import Owner, TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.storage.protocol import Storage

SIMULATED_LOCK = "in-process:simulated"
"""Address of the lock that all simulated processes share, whichever process of the tests made their leases."""

_locks: weakref.WeakValueDictionary[str, SimulatedLock] = weakref.WeakValueDictionary()


class SimulatedLock(InProcessLock):
    """Lock of one simulated process."""

    address = SIMULATED_LOCK


class SeededIds:
    """UUIDs that follow from a seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def new_id(self) -> str:
        """Return the next UUID as text."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


class NoBeats:
    """Heartbeats that renew nothing: a simulation has an actor for them, or time stands still."""

    @contextmanager
    def every(self, interval_s: float, beat: Callable[[], None]) -> Iterator[None]:
        """Do nothing until the context ends."""
        yield


def simulated_context(storage: Storage, clock: Clock, actor: str) -> TableContext:
    """Make a context whose effects go through `storage` and `clock`, in the calling thread.

    Args:
        storage: usually a `FaultyStorage` around a `MemoryStorage`.
        clock: usually a `ManualClock`.
        actor: name of the simulated process; its leases are dead only once they expire.
    """
    return TableContext(
        storage=storage,
        locks=_lock_of(f"{storage.uri}#{actor}"),
        clock=clock,
        engine=LocalEngine(threads=1),
        ids=SeededIds(actor),
        owner=Owner(host=f"simulated-{actor}", pid=1, started=""),
        beats=NoBeats(),
    )


def _lock_of(name: str) -> SimulatedLock:
    lock = _locks.get(name)
    if lock is None:
        lock = _locks[name] = SimulatedLock(name)
    return lock

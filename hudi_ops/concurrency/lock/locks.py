"""Interfaces of the table lock, which spares retries and never decides.

A lock can be lost unnoticed (a paused process, an expired session), so safety must not depend on it: the next slot of the commit
log decides (`timeline.log.commit_log`). Holding the lock only makes a lost race rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    # It imports Arrow, which `hudi-ops --help` does not need.
    from hudi_ops.context import TableContext


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Holder of a lock, as shown to waiters.

    `since_ms` is wall time in ms since 1970 UTC; `run` names the Airflow run or application, empty without one.
    """

    owner: str
    host: str
    purpose: str
    since_ms: int
    run: str = ""


class Held(Protocol):
    """One acquisition of a lock; each acquisition gives a new object."""

    @property
    def token(self) -> int:
        """Number that grows with every acquisition by any process; for logs only."""

    def still_mine(self) -> bool:
        """Return False for good once the lock was or may have been lost; True proves nothing."""


class LockProvider(Protocol):
    """Mutual exclusion between the writers of a table."""

    @property
    def address(self) -> str:
        """Name of the lock on leases; locks of different names may not exclude each other."""

    def acquire(self, timeout_s: float, purpose: str) -> AbstractContextManager[Held]:
        """Wait for the lock, hold it inside the `with` block, release it at its end.

        `purpose` is shown to other waiters, for example `ingest 20261121101500123`.

        Raises:
            Busy: not acquired within `timeout_s`; names the holder.
            Unavailable: the lock service does not answer.
        """

    def holder(self) -> LockHolder | None:
        """Return the current holder, or None."""


@runtime_checkable
class Guarded(Protocol):
    """Lock provider with an access list, which must not exclude foreign writers."""

    has_foreign_writers: bool | None

    @property
    def shares_credentials(self) -> bool:
        """Whether foreign writers, if any, are declared to use the same credentials."""

    def protect(self) -> None:
        """Restrict the lock to the configured credentials, even if it is open to all now."""


def lock_of_table(ctx: TableContext) -> LockProvider:
    """Return the table's lock, which the context, a layer below, holds as an `object`."""
    return cast(LockProvider, ctx.locks)


_held: ContextVar[int] = ContextVar("held", default=0)
"""Number of table locks that the running code holds."""


@contextmanager
def hold_lock(ctx: TableContext, purpose: str) -> Iterator[Held]:
    """Hold the table's lock inside the `with` block; `purpose` is shown to other waiters.

    Raises:
        Busy: the lock was not free within the context's `lock_timeout_s`.
    """
    with lock_of_table(ctx).acquire(ctx.lock_timeout_s, purpose) as held:
        before = _held.set(_held.get() + 1)
        try:
            yield held
        finally:
            _held.reset(before)


def is_lock_held() -> bool:
    """Return whether the running code holds the lock of a table."""
    return _held.get() > 0

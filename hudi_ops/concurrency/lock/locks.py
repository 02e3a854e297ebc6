"""The table lock as a component: it spares retries, it never decides.

A lock can be lost in silence (a paused process, an expired session), so nothing may rely on it for safety: what decides is the
next slot of the commit log (`timeline.log.commit_log`). Holding the lock only makes losing that race rare.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    # It brings Arrow with it, which `hudi-ops --help` does without.
    from hudi_ops.context import TableContext


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a lock, as it is shown to people who wait for it.

    `since_ms` is wall time in ms since 1970 UTC; `run` names the Airflow run or application, empty when there is none.
    """

    owner: str
    host: str
    purpose: str
    since_ms: int
    run: str = ""


class Held(Protocol):
    """A lock that was acquired once. Never re-acquired: each acquisition gives a new object."""

    @property
    def token(self) -> int:
        """Grows with every acquisition of this lock by anyone; for logs only."""
        ...

    def still_mine(self) -> bool:
        """False for good once the lock was lost, or may have been. True proves nothing."""
        ...


class LockProvider(Protocol):
    """Mutual exclusion between the writers of one table."""

    @property
    def address(self) -> str:
        """What names the lock for people, and on leases: two that are called differently may not exclude each other."""
        ...

    def acquire(self, timeout_s: float, purpose: str) -> AbstractContextManager[Held]:
        """Wait for the lock, hold it inside the `with` block, release it at its end.

        Args:
            timeout_s: longest wait.
            purpose: shown to others who wait, for example `ingest 20261121101500123`.

        Raises:
            Busy: not acquired in time; names the holder.
            Unavailable: the lock service does not answer.
        """
        ...

    def holder(self) -> LockHolder | None:
        """Who holds the lock now, or None."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A lock provider that keeps others from its lock where it may: writers of Apache Hudi could not take it then."""

    has_foreign_writers: bool | None

    @property
    def shares_credentials(self) -> bool:
        """Whether writers of Apache Hudi, where there are any, are declared to use our credentials."""
        ...

    def protect(self) -> None:
        """Keep those without our credentials from the lock, also where it is open to all now."""
        ...


def lock_of_table(ctx: TableContext) -> LockProvider:
    """The table's lock; a context, a layer below, has it as an object."""
    return cast(LockProvider, ctx.locks)


def hold_lock(ctx: TableContext, purpose: str) -> AbstractContextManager[Held]:
    """Wait for the table's lock for as long as the context says, and hold it inside the `with` block.

    Args:
        ctx: components of the table.
        purpose: shown to others who wait.

    Raises:
        Busy: the lock was not to be had in time.
    """
    return lock_of_table(ctx).acquire(ctx.lock_timeout_s, purpose)

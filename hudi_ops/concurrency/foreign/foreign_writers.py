"""Whether writers of Apache Hudi share a table, as far as its timeline and its log tell; and how an instant is taken beside them.

They know no leases: their instant is the present, taken under the table lock, and a name of ours that is equal would be theirs
too, with its files, its markers and its heartbeat. So where they write, ours are taken under the same lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.lock.locks import Guarded, hold_lock, lock_of_table
from hudi_ops.context import TableContext
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Pointer
from hudi_ops.timeline.state import CommitReader, TableState

LOOKED_BACK_MAX = 32
"""How many of the newest completed writes are looked at: a first write must not read a whole timeline."""


def has_foreign_writers(storage: Storage, commits: CommitReader, state: TableState) -> bool:
    """True for a table that was adopted, and for one with an instant that stands in no slot and that no lease of ours claims.

    Strangers who left no trace in the last `LOOKED_BACK_MAX` writes, and have none pending, count as gone.
    """
    if has_foreign_writes(commits, state):
        return True
    named = {getattr(entry, "instant", "") for _, entry in state.log.since(state.log.base - 1)}
    for instant in state.timeline.pending:
        if instant.time in named:
            continue
        lease = read_lease(storage, instant.time)
        if lease is None and not _is_pending_still(storage, state, instant):
            continue  # one of ours that ended while it was looked at, and whose lease went with it
        if lease is None or lease.owner is None:
            return True
    return False


def _is_pending_still(storage: Storage, state: TableState, instant: Instant) -> bool:
    found = load_timeline(storage, state.config).find(instant.time, instant.action)
    return found is not None and not found.is_completed


def has_foreign_writes(commits: CommitReader, state: TableState) -> bool:
    """Whether a table was adopted, or one of its newest writes stands in no slot: told without a look at what is pending."""
    return commits.was_adopted(state.log) or newest_foreign_completion(commits, state) != ""


def newest_foreign_completion(commits: CommitReader, state: TableState) -> str:
    """Completion time of the newest write that stands in no slot, of the last `LOOKED_BACK_MAX`; "" when there is none.

    Commits are read, those that were not read yet, from the newest down to the first of ours that says what its decider knew.
    """
    ours = {getattr(entry, "instant", "") for _, entry in state.log.since(state.log.base - 1)}
    newest = sorted(state.timeline.completed_writes, key=lambda one: one.completion_time)[-LOOKED_BACK_MAX:]
    for instant in reversed(newest):
        metadata = commits.metadata(state.timeline, instant) if instant.time not in ours else None
        if metadata is None:
            continue
        pointer = Pointer.decode(metadata.extra, state.timeline.path(instant.file_name))
        if pointer is None:
            return instant.completion_time
        if pointer.stranger is not None:
            return pointer.stranger if pointer.stranger >= newest[0].completion_time else ""
    return ""


@contextmanager
def alone_with_the_clock(ctx: TableContext) -> Iterator[None]:
    """Hold the table lock while an instant is taken, as Apache Hudi's writers do, who take theirs by the clock alone.

    Raises:
        Busy: the lock was not to be had in time.
    """
    with hold_lock(ctx, "take an instant"):
        yield


def tell_lock_of_foreign_writers(ctx: TableContext, *, has_any: bool) -> None:
    """Tell the table's lock whether writers of Apache Hudi are there: they may not be kept from it."""
    lock = lock_of_table(ctx)
    if isinstance(lock, Guarded):
        lock.has_foreign_writers = has_any

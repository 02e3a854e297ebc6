"""Detection of foreign writers on a table, and the reservation of instants beside them.

Foreign writers take no leases: they name an instant by the clock under the table lock. If a hudi_ops write took the same instant,
both would share timeline files, markers and heartbeat. So beside foreign writers, hudi_ops takes instants under the same lock.
"""

from __future__ import annotations

from hudi_ops.concurrency.foreign.foreign_instants import may_be_foreign
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.lock.locks import Guarded, lock_of_table
from hudi_ops.context import TableContext
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer, payload_folder
from hudi_ops.timeline.state import CommitReader, TableState

LOOKED_BACK_MAX = 32
"""Number of newest completed writes to check: a first write must not read a whole timeline."""


def has_foreign_writers(storage: Storage, commits: CommitReader, state: TableState, *, pending: bool = True) -> bool:
    """Return whether a table was adopted, or has an instant with neither slot nor lease of ours.

    Foreign writers without a trace in the last `LOOKED_BACK_MAX` writes, and without a pending write, count as gone. Without
    `pending` only completed writes count: no lease is read.
    """
    if commits.was_adopted(state.log) or newest_foreign_completion(commits, state):
        return True
    for instant in state.timeline.pending if pending else ():
        if instant.time in state.log.instants:
            continue
        lease = read_lease(storage, instant.time)
        if lease is None and not _is_pending_still(storage, state, instant):
            continue  # a hudi_ops write that ended during the check, with its lease
        if may_be_foreign(lease) and not _has_payload(storage, instant.time):
            return True
    return False


def _has_payload(storage: Storage, instant: str) -> bool:
    """Return whether an instant has a payload, as each pending plan of ours has.

    The payload identifies a plan of ours if its slot is below the loaded part of the log, and no executor holds a lease.
    """
    return bool(storage.list_folder(payload_folder(instant)).files)


def _is_pending_still(storage: Storage, state: TableState, instant: Instant) -> bool:
    found = load_timeline(storage, state.config).find(instant.time, instant.action)
    return found is not None and not found.is_completed


def has_foreign_write(commits: CommitReader, state: TableState) -> bool:
    """Return whether any completed write on the timeline has no slot of the commit log.

    Unlike `has_foreign_writers` it forgets an adoption once its writes are archived, and looks back over the whole timeline: an
    automatic service asks it, which must not delete what writers of Apache Hudi keep by settings of their own.
    """
    completed = (commits.metadata(state.timeline, instant) for instant in state.timeline.newest_first)
    return any(metadata is not None and POINTER_KEY not in metadata.extra for metadata in completed)


def newest_foreign_completion(commits: CommitReader, state: TableState) -> str:
    """Return the completion time of the newest recent write without a slot; "" without one.

    Commits are read from the newest down to the first hudi_ops commit, which records this time itself, at most `LOOKED_BACK_MAX`.
    """
    ours = state.log.instants
    newest = state.timeline.newest_first[:LOOKED_BACK_MAX]
    for instant in newest:
        metadata = commits.metadata(state.timeline, instant) if instant.time not in ours else None
        if metadata is None:
            continue
        pointer = Pointer.decode(metadata.extra, state.timeline.path(instant.file_name))
        if pointer is None:
            return instant.completion_time
        return pointer.stranger if pointer.stranger >= newest[-1].completion_time else ""
    return ""


def tell_lock_of_foreign_writers(ctx: TableContext, *, has_any: bool) -> None:
    """Tell the table's lock about foreign writers: its access list must not exclude them."""
    if isinstance(lock := lock_of_table(ctx), Guarded):
        lock.has_foreign_writers = has_any

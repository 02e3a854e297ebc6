"""Apply SAVEPOINT entries: put or delete the files of a savepoint (docs/protocol §21)."""

from __future__ import annotations

from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.errors import NotFound
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, refresh_log
from hudi_ops.timeline.log.entries import Savepoint
from hudi_ops.timeline.names import completed_name, inflight_name
from hudi_ops.timeline.state import TableState

ACTION = "savepoint"


def apply_savepoint(storage: Storage, state: TableState, slot: int, entry: Savepoint) -> bool:
    """Make or delete a savepoint's files; idempotent.

    A process may sleep before it puts the files. So the log is read after the put, and the files are deleted if a later entry
    deleted the savepoint, or an ARCHIVE passed it.

    Returns:
        False if the savepoint was made and another program deleted it since. A missing payload shows this: the maker deletes the
        payload only after success.
    """
    if not entry.is_made or _is_gone(state.log, slot, entry):
        _delete(storage, state, entry)
        return True
    completed = state.timeline.path(completed_name(entry.instant, ACTION, entry.completion_time))
    try:
        body = storage.get(entry.payload)
    except NotFound:
        return storage.head(completed) is not None or _is_gone(refresh_log(storage, state.log), slot, entry)
    ensure(storage, state.timeline.path(inflight_name(entry.instant, ACTION)), b"")
    ensure(storage, completed, body)
    if _is_gone(refresh_log(storage, state.log), slot, entry):
        _delete(storage, state, entry)
    return True


def _delete(storage: Storage, state: TableState, entry: Savepoint) -> None:
    found = state.timeline.find(entry.instant, ACTION)
    if found is None or found.completion_time in {"", entry.completion_time}:
        inflight = state.timeline.path(inflight_name(entry.instant, ACTION))
        remove_paths(storage, Reason.UNPROTECTED, [inflight])
    # Delete the completed file last: while it exists, the deletion counts as unfinished.
    completed = state.timeline.path(completed_name(entry.instant, ACTION, entry.completion_time))
    remove_paths(storage, Reason.UNPROTECTED, [completed])


def _is_gone(log: Log, slot: int, entry: Savepoint) -> bool:
    return entry.instant <= log.boundary or any(
        isinstance(later, Savepoint) and later.instant == entry.instant and not later.is_made
        for _, later in log.since(slot)
    )

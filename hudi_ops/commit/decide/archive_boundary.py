"""Decide the ARCHIVE boundary: instants at or below it leave the active timeline for ever.

The history file exists before the slot that names it, so a reader finds each instant in one of the two. The archiver and every
later writer remove the files outside the lock, oldest first, including files that a late applier put back.

Source: docs/protocol §14.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Archive, Entry
from hudi_ops.timeline.names import State, inflight_name, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HistoryFile:
    """A written history file: its path and the request times of its instants."""

    path: str
    instants: frozenset[str]


def archive_boundary(
    session: Session,
    boundary: str,
    history: HistoryFile,
    *,
    check: Callable[[TableState], None] = lambda state: None,
    publish: Callable[[], None] = lambda: None,
    decided: Callable[[], None] = lambda: None,
) -> bool:
    """Decide that instants up to a boundary leave the active timeline, and remove their files.

    Args:
        session: session of the archiver.
        boundary: request time of the newest instant that leaves.
        history: written history file with all instants that leave.
        check: called under the lock; raises if the facts that the archiver found before have changed.
        publish: called under the lock, perhaps again after a lost slot; adds the file to the history's manifest.
        decided: called once the lock is released, before files are removed.

    Returns:
        False when an earlier ARCHIVE had passed the boundary.

    Raises:
        InvalidRequest: no completed write would remain.
        Conflict: the history file is missing, an instant that it does not keep completed below the boundary, or a savepoint
            was made there.
        Busy: an instant at or below the boundary is pending, or the lock was not free in time.
        OutcomeUnknown: storage did not say whether it was decided; the same call settles that.
    """

    def prepare(state: TableState, slot: int) -> Entry | None:
        if boundary <= state.log.boundary:
            return None
        check(state)
        refuse_missing_history(session, state, history)
        refuse_pending_below(state, boundary)
        refuse_not_kept(state, boundary, history)
        refuse_empty_timeline(state, boundary)
        refuse_savepoint_below(state, boundary)
        publish()
        entry = session.entry(state, f"archive {boundary} {session.ctx.ids.new_id()}")
        return Archive(**entry, boundary=boundary, history=history.path)

    outcome = session.decide(prepare, f"archive up to {boundary}")
    decided()
    clear_archived(session, session.loader.load())
    return outcome is not None


def clear_archived(session: Session, state: TableState) -> list[str]:
    """Remove the files of instants at or below the boundary, oldest first; return their paths.

    Nothing is removed if a pending instant would then precede the timeline's start, and no instant from the first savepoint on. The
    pending files of all instants are removed first and the completed files last: otherwise an instant would look pending again.
    `state` is read after the ARCHIVE, log before timeline.
    """
    savepoint = next((one.time for one in state.timeline if one.kind == "savepoint"), None)
    archived = [one for one in below(state.timeline, state.log.boundary) if savepoint is None or one.time < savepoint]
    if not archived or pending_before_start(state.timeline, state.log.boundary):
        return []
    removed = clear_instants(session.ctx.storage, state.timeline, archived)
    logger.info("%s instants up to %s left the active timeline", len(archived), archived[-1].time)
    return removed


def clear_instants(storage: Storage, timeline: Timeline, archived: Sequence[Instant]) -> list[str]:
    """Remove the files of instants of a timeline, given oldest first; return their paths.

    A reader takes the first completed file for the timeline's start, so completed files are removed one after another.
    """
    pending = [
        timeline.path(name_of(instant.time, word))
        for instant in archived
        for state, name_of in ((State.INFLIGHT, inflight_name), (State.REQUESTED, requested_name))
        if state in instant.states
        for word in sorted({instant.action, instant.kind})
    ]
    completed = [timeline.path(instant.file_name) for instant in archived if instant.is_completed]
    storage.delete_all(pending)
    storage.delete_all(completed, ordered=True)
    return [*pending, *completed]


def below(timeline: Timeline, boundary: str) -> list[Instant]:
    """Return the instants at or below a boundary, oldest first."""
    return [instant for instant in timeline if instant.time <= boundary]


def pending_before_start(timeline: Timeline, boundary: str) -> list[Instant]:
    """Return pending instants that archiving would leave before the timeline's start.

    Listing readers take files older than the start for rows (docs/format §9.1), so a completed write must precede each pending
    instant. It is not enough to look at the boundary: the oldest write above it may be younger than a pending instant.
    """
    start = min((write.time for write in timeline.completed_writes if write.time > boundary), default="")
    return [
        instant
        for instant in timeline.pending
        if instant.time <= boundary or (instant.is_write and instant.time < start)
    ]


def refuse_missing_history(session: Session, state: TableState, history: HistoryFile) -> None:
    """Refuse an ARCHIVE whose history file does not exist.

    Raises:
        Conflict: the history file does not exist.
    """
    if session.ctx.storage.head(history.path) is None:
        raise Conflict(
            "the history file does not exist: its archiver slept for so long that another one took it for a leftover",
            table=state.config.name,
            instant=max(history.instants, default=""),
            expected=history.path,
            found="no such file",
            next_step="run the same call again: the history is written anew",
        )


def refuse_pending_below(state: TableState, boundary: str) -> None:
    """Refuse to archive past a pending instant: it would complete below the timeline's start.

    Raises:
        Busy: names the oldest one.
    """
    for instant in pending_before_start(state.timeline, boundary):
        raise Busy(
            f"{instant.action} {instant.time} is pending below the boundary, or below the timeline's start after archiving",
            table=state.config.name,
            instant=instant.time,
            expected=f"nothing pending at or below {boundary}, and a completed write between it and the oldest pending one",
            found=str(instant),
            next_step="finish it, or cancel it and roll it back; or choose an older boundary",
            other=instant.time,
        )


def refuse_not_kept(state: TableState, boundary: str, history: HistoryFile) -> None:
    """Refuse to archive an instant that the history lacks.

    Raises:
        Conflict: names the first such instant.
    """
    for instant in below(state.timeline, boundary):
        if instant.time not in history.instants:
            raise Conflict(
                f"{instant.action} {instant.time} completed below the boundary, and the history does not keep it",
                table=state.config.name,
                instant=instant.time,
                next_step="write the history again, from the table as it is now",
            )


def refuse_empty_timeline(state: TableState, boundary: str) -> None:
    """Refuse to archive every completed write.

    Listing readers take files older than the timeline's start for rows (docs/format §9.1).

    Raises:
        InvalidRequest: no completed write is above the boundary.
    """
    if not any(write.time > boundary for write in state.timeline.completed_writes):
        raise InvalidRequest(
            "no completed write would remain on the active timeline",
            table=state.config.name,
            expected=f"a completed write above {boundary}",
            found=state.timeline.completed_writes[-1].time if state.timeline.completed_writes else "none",
            next_step="choose an older boundary",
        )


def refuse_savepoint_below(state: TableState, boundary: str) -> None:
    """Refuse to archive a savepoint's commit: the savepoint would lose it.

    Raises:
        Conflict: names the savepoint.
    """
    for instant in state.timeline:
        if instant.kind == "savepoint" and instant.time <= boundary:
            raise Conflict(
                f"the savepoint of {instant.time} lies at or below the boundary",
                table=state.config.name,
                instant=instant.time,
                expected=f"no savepoint at or below {boundary}",
                found=str(instant),
                next_step="run the same call again: it stops before the savepoint; or delete the savepoint first",
            )

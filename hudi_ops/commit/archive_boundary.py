"""The ARCHIVE boundary: what lies at or below it leaves the active timeline, and never comes back to it.

The history file is there before the slot that names it, so a reader finds each instant in the one or the other. Files are removed
outside the lock, oldest first, by the archiver and by every writer that finds some: also those that an applier put which had slept.

Source: docs/protocol.md §14.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Archive, Entry
from hudi_ops.timeline.names import inflight_name, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HistoryFile:
    """A history file that was written: its path, and the request times of the instants that it keeps."""

    path: str
    instants: frozenset[str]


def archive_boundary(session: Session, boundary: str, history: HistoryFile) -> bool:
    """Decide that instants up to a boundary leave the active timeline, and remove their files.

    Args:
        session: the table's.
        boundary: the newest request time that leaves.
        history: where they are kept from now on.

    Returns:
        False when an ARCHIVE had passed the boundary already.

    Raises:
        InvalidRequest: the history file is not there, or no completed write would be left.
        Conflict: an instant that the history does not keep completed below the boundary.
        Busy: something at or below the boundary is pending, or the lock was not to be had.
        OutcomeUnknown: decided or not; the same call settles it.
    """

    def prepare(state: TableState, slot: int) -> Entry | None:
        if boundary <= state.log.boundary:
            return None
        refuse_missing_history(session, state, history)
        refuse_pending_below(state, boundary)
        refuse_not_kept(state, boundary, history)
        refuse_nothing_left(state, boundary)
        entry = session.entry(state, f"archive {boundary} {session.ctx.ids.new_id()}")
        return Archive(**entry, boundary=boundary, history=history.path)

    decided = session.decide(prepare, f"archive up to {boundary}")
    clear_archived(session, session.loader.load())
    return decided is not None


def clear_archived(session: Session, state: TableState) -> list[str]:
    """Remove the files of instants at or below the boundary, oldest first; nothing that would leave a pending one before the start.

    An instant's inflight goes first and its completed file last: the other way round it would look pending again.

    Args:
        session: the table's.
        state: read after the ARCHIVE, log before timeline.

    Returns:
        Paths of what was removed.
    """
    risen = below(state.timeline, state.log.boundary)
    if not risen or pending_before_start(state.timeline, state.log.boundary):
        return []
    removed = []
    for instant in risen:
        words = {instant.action, instant.kind}
        names = [name(instant.time, word) for name in (inflight_name, requested_name) for word in sorted(words)]
        for path in map(state.timeline.path, [*names, instant.file_name]):
            session.ctx.storage.delete(path)
            removed.append(path)
    logger.info("%s instants up to %s left the active timeline", len(risen), state.log.boundary)
    return removed


def below(timeline: Timeline, boundary: str) -> list[Instant]:
    """Instants at or below a boundary, oldest first."""
    return [one for one in timeline if one.time <= boundary]


def pending_before_start(timeline: Timeline, boundary: str) -> list[Instant]:
    """What is pending and would lie before the timeline's start, once all up to a boundary has left it.

    Readers that list take files older than the start for rows (docs/format.md §9.1), so one completed write stays before each
    pending one: the boundary alone does not tell, as the oldest write above it may be younger than what is pending.
    """
    start = min((one.time for one in timeline.completed_writes if one.time > boundary), default="")
    return [one for one in timeline.pending if one.time <= boundary or (one.is_write and one.time < start)]


def refuse_missing_history(session: Session, state: TableState, history: HistoryFile) -> None:
    """Refuse an ARCHIVE whose history file is not there: the slot must not name what may never be.

    Raises:
        InvalidRequest: no such file.
    """
    if session.ctx.storage.head(history.path) is None:
        raise InvalidRequest(
            "the history file is not there",
            table=state.config.name,
            expected=history.path,
            found="no such file",
            next_step="write the history first",
        )


def refuse_pending_below(state: TableState, boundary: str) -> None:
    """Refuse to archive past something pending: its completion would fall below the timeline's start.

    Raises:
        Busy: names the oldest one.
    """
    for one in pending_before_start(state.timeline, boundary):
        raise Busy(
            f"{one.action} {one.time} is pending below the boundary, or below what would be the timeline's start",
            table=state.config.name,
            instant=one.time,
            expected=f"nothing pending at or below {boundary}, and a completed write between it and the oldest pending one",
            found=str(one),
            next_step="finish it, or cancel it and roll it back; or choose an older boundary",
            other=one.time,
        )


def refuse_not_kept(state: TableState, boundary: str, history: HistoryFile) -> None:
    """Refuse to archive what completed after the history was written.

    Raises:
        Conflict: names the first such instant.
    """
    for one in below(state.timeline, boundary):
        if one.time not in history.instants:
            raise Conflict(
                f"{one.action} {one.time} completed below the boundary, and the history does not keep it",
                table=state.config.name,
                instant=one.time,
                next_step="write the history again, from the table as it is now",
            )


def refuse_nothing_left(state: TableState, boundary: str) -> None:
    """Refuse to empty the timeline: readers that list take files older than its start for rows (docs/format.md §9.1).

    Raises:
        InvalidRequest: no completed write lies above the boundary.
    """
    if not any(one.time > boundary for one in state.timeline.completed_writes):
        raise InvalidRequest(
            "no completed write would be left on the active timeline",
            table=state.config.name,
            expected=f"a completed write above {boundary}",
            found=state.timeline.completed_writes[-1].time if state.timeline.completed_writes else "none",
            next_step="choose an older boundary",
        )

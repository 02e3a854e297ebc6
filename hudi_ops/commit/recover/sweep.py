"""Clearing away what dead writers left off the timeline, and the second look for files that their last tasks wrote too late.

A task may outlive its attempt: it announced a file, slept, and writes it after the rollback deleted what was there. So the markers
of a rolled back write stay, beside a note that says until when; then its files are deleted once more, then markers and note
(docs/protocol.md §8). The note is a folder, `.hoodie/.temp/<instant>.<ms>/sweep`: one listing tells which are due.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from hudi_ops.commit.recover.dead_writers import is_silent
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.commit.undo.cancel import cancel_write
from hudi_ops.commit.undo.rollback_files import delete_files, delete_own_notes, delete_pending
from hudi_ops.commit.undo.unclaimed_files import files_of
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.concurrency.markers import FOLDER, delete_markers, list_markers, marker_path
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.commit_log import POINTER_KEY, payload_folder
from hudi_ops.timeline.log.entries import Cancel, Complete
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

TEMP_AGE_MS = 24 * 3600 * 1000
"""Age from which the half of a put is nobody's: no put takes a day."""

SWEPT_FILES_MAX = 256
"""How many announced files one write looks at for the second time, about: the first due instant is always finished."""

_NOTE = re.compile(r"(?P<instant>\d{17})\.(?P<until_ms>\d+)")


def release_rolled_back(session: Session, instant: str) -> None:
    """Drop the lease of a write that was rolled back; its markers stay for the second look."""
    with best_effort(instant):
        folders = session.ctx.storage.list_folder(f"{FOLDER}/{instant}")
        if folders.files or folders.folders:
            until_ms = session.ctx.clock.now_ms() + EXPIRY_MS
            session.ctx.storage.put(note_path(instant, until_ms), b"")
        session.drop_name(instant)


def remove_zombie_files(session: Session, state: TableState, instant: str) -> list[str]:
    """Remove what a sleeper put after its write had been cancelled and rolled back; no new rollback is needed to say so.

    Returns:
        Paths of the data files that may have been there.
    """
    paths = files_of(session, state, instant)
    delete_files(session.ctx.storage, paths)
    delete_own_notes(session, instant)
    _undo_late_delta(session, state, instant)
    found = state.timeline.find(instant)
    if found is not None and not found.is_completed:
        delete_pending(session, state.timeline.folder, found)
    release_rolled_back(session, instant)
    return paths


def remove_late_files(session: Session, state: TableState, completed: Instant) -> None:
    """Remove what an executor announced after another, of a higher epoch, had completed its instant; only what ours completed."""
    metadata = session.commits.metadata(state.timeline, completed)
    if metadata is None or POINTER_KEY not in metadata.extra:
        return
    named = {stat.path for stat in metadata.stats}
    storage = session.ctx.storage
    late = [
        path
        for path in files_of(session, state, completed.time)
        if path not in named and storage.head(path) is not None
    ]
    delete_files(storage, late)
    _drop_other_payloads(session, state, completed)
    delete_markers(storage, completed.time)
    if late:
        logger.warning("%s was completed by another process; deleted what a late one announced: %s", completed, late)


def release_completed(session: Session, instant: str, named: Collection[str]) -> None:
    """Clear the lease and the markers of a completed instant; those of earlier epochs stay for the second look.

    Args:
        session: the table's.
        instant: one that completed.
        named: paths of the data files that its commit names.
    """
    own: list[str] | None = None
    with best_effort(instant):
        markers = list_markers(session.ctx.storage, instant)
        own = [
            marker_path(instant, one.data_path, replaces=one.kind == "MERGE")
            for one in markers
            if one.data_path in named
        ]
        late = [one.data_path for one in markers if one.data_path not in named]
        for path in late:
            session.ctx.storage.delete(path)
        if late:
            session.ctx.storage.put(note_path(instant, session.ctx.clock.now_ms() + EXPIRY_MS), b"")
    if own is not None:
        session.release(instant, own)


def _release_late_workers(session: Session, state: TableState, completed: Instant) -> None:
    metadata = session.commits.metadata(state.timeline, completed)
    if metadata is None or POINTER_KEY not in metadata.extra:
        session.release(completed.time)
    else:
        _drop_other_payloads(session, state, completed)
        release_completed(session, completed.time, [stat.path for stat in metadata.stats])


def _drop_other_payloads(session: Session, state: TableState, completed: Instant) -> None:
    """Remove what executors put that did not get their slot; each had a payload of its own."""
    held = session.ctx.storage.list(payload_folder(completed.time)) if completed.action in REWRITING_ACTIONS else []
    if len(held) < 2:
        return
    fate = fate_of(session.ctx.storage, state, completed.time)
    if fate is not None and isinstance(fate[1], Complete):
        delete_files(session.ctx.storage, [info.path for info in held if info.path not in fate[1].notes])


def sweep(session: Session, state: TableState, dead: Mapping[str, bool]) -> None:
    """Clear away what is settled, or never reached the timeline: leases, markers and their files; look again where that is due.

    Args:
        session: the table's.
        state: read after `dead` was, unless that is empty.
        dead: instants whose lease was dead, and whether it was Apache Hudi's.
    """
    # By their time alone: a savepoint has that of the write that it protects.
    found = ((time, state.timeline.find(time)) for time in state.timeline.by_time)
    known = {time: instant for time, instant in found if instant is not None}
    folders = session.ctx.storage.list_folder(FOLDER).folders
    notes = notes_of(folders)
    for time, is_foreign in dead.items():
        clear_dead = _clear_dead_of_hudi if is_foreign else _clear_dead_of_ours
        clear_dead(session, state, time, known.get(time), is_noted=time in notes)
    session.ctx.storage.sweep_temp(TEMP_AGE_MS, session.ctx.clock.now_ms())
    _clear_marked(session, state, {name for name in folders if name.isdecimal()} - dead.keys(), known, notes)
    _look_again_where_due(session, state, {time: notes[time] for time in notes.keys() - known.keys()})


def _clear_dead_of_ours(
    session: Session, state: TableState, time: str, instant: Instant | None, *, is_noted: bool
) -> None:
    if instant is not None and instant.is_completed:
        if instant.action in REWRITING_ACTIONS:
            _release_late_workers(session, state, instant)
        else:
            session.release(time)
    elif instant is None and is_noted:
        session.drop_name(time)
    elif instant is None:
        _release_vanished(session, state, time)


def _clear_dead_of_hudi(
    session: Session, state: TableState, time: str, instant: Instant | None, *, is_noted: bool
) -> None:
    # Its program clears up after itself, unless it died right after it completed, or was ours to roll back.
    if instant is not None and instant.is_completed and is_silent(session, time):
        session.release(time)
    elif instant is None and is_noted:
        session.drop_name(time)
    elif instant is None and session.was_cancelled(state, time):
        remove_zombie_files(session, state, time)
    elif instant is None and is_silent(session, time):
        # It died between its heartbeat and its requested file, or after all. To its own judges no heartbeat is a dead one.
        session.drop_name(time)


def _clear_marked(
    session: Session,
    state: TableState,
    marked: AbstractSet[str],
    known: Mapping[str, Instant],
    notes: Mapping[str, Sequence[int]],
) -> None:
    for time in sorted(marked):
        instant = known.get(time)
        if instant is None and time not in notes and read_lease(session.ctx.storage, time) is None:
            # A task that outlived its rolled back attempt announced, and perhaps wrote, another file.
            if session.was_cancelled(state, time):
                remove_zombie_files(session, state, time)
        elif instant is not None and instant.is_completed and read_lease(session.ctx.storage, time) is None:
            until_ms = notes.get(time, ())
            if not until_ms or until_ms[-1] <= session.ctx.clock.now_ms():
                remove_late_files(session, state, instant)
                for one in until_ms:
                    session.ctx.storage.delete(note_path(time, one))


def _look_again_where_due(session: Session, state: TableState, notes: Mapping[str, Sequence[int]]) -> None:
    now_ms = session.ctx.clock.now_ms()
    looked = 0
    for time in sorted(time for time, until_ms in notes.items() if until_ms[-1] <= now_ms):
        if looked < SWEPT_FILES_MAX:
            looked += look_again(session, state, time, notes[time])


def look_again(session: Session, state: TableState, instant: str, until_ms: Sequence[int]) -> int:
    """The second look: delete what tasks wrote since the rollback, then what remembers them.

    Args:
        session: the table's.
        state: its present state.
        instant: a write that was rolled back.
        until_ms: its notes.

    Returns:
        How many files were announced.
    """
    paths: list[str] = []
    if session.was_cancelled(state, instant):
        paths = files_of(session, state, instant)
        late = [path for path in paths if session.ctx.storage.head(path) is not None]
        if late:
            logger.warning("tasks of %s wrote after its rollback; deleted: %s", instant, ", ".join(late))
        delete_files(session.ctx.storage, late)
        _undo_late_delta(session, state, instant)
        delete_markers(session.ctx.storage, instant)
    for one in until_ms:
        session.ctx.storage.delete(note_path(instant, one))
    return len(paths)


def _undo_late_delta(session: Session, state: TableState, instant: str) -> None:
    """An applier that slept may have put the delta of a voided write after it had been taken away."""
    if state.config.all_metadata_partitions and undo_delta(session.ctx.storage, [instant]):
        logger.warning("the metadata table's delta of %s was put after its rollback: removed", instant)


def note_path(instant: str, until_ms: int) -> str:
    """Path of the note that keeps a rolled back write's markers."""
    return f"{FOLDER}/{instant}.{until_ms}/sweep"


def notes_of(folders: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Instant -> the times of its notes, rising, out of the names of marker folders."""
    found: dict[str, tuple[int, ...]] = {}
    for name in folders:
        if match := _NOTE.fullmatch(name):
            times = (*found.get(match["instant"], ()), int(match["until_ms"]))
            found[match["instant"]] = tuple(sorted(times))
    return found


def _release_vanished(session: Session, state: TableState, instant: str) -> None:
    """A dead lease of ours, and nothing on the timeline: rolled back, archived, or it sleeps right before its first file there.

    Its name is not given up before a slot has its fate: a sleeper's file would be pending without a lease, which looks like
    another program's, and stays for good.
    """
    lease = read_lease(session.ctx.storage, instant)
    if instant <= state.log.boundary:
        session.release(instant)
        return
    if lease is not None and lease.role == "build":
        # It never gets onto the timeline, and may have ended well. What it left unfinished is for the next build to cancel.
        session.drop_name(instant)
        return
    fate = fate_of(session.ctx.storage, state, instant)
    if fate is not None and isinstance(fate[1], Cancel):
        remove_zombie_files(session, state, instant)
    elif fate is not None:
        session.release(instant)
    else:
        # A writer without slots rolled it back, or it died before its first file or its slot, or sleeps there: a slot must not name
        # bytes that are gone. What it left is as dead as any; but nothing goes before a CANCEL.
        reason = "its writer is gone, and it is not on the timeline"
        if cancel_write(session, instant, reason, still=lambda: _has_dead_lease(session, instant)):
            remove_zombie_files(session, session.loader.load(), instant)


def _has_dead_lease(session: Session, instant: str) -> bool:
    # Ours: no storage clock is asked, as for Apache Hudi's (`dead_writers.is_dead`); a slot stops who is alive after all.
    lease = read_lease(session.ctx.storage, instant)
    return lease is not None and lease.is_dead(session.ctx.clock)

"""Sweep leftovers of dead writers, and again later for files written after the rollback.

A task may outlive its attempt: it announces a file, pauses, and writes it after the rollback. So the markers of a rolled back write
are kept, with a note that holds a time. At that time its files are deleted again, then the markers and the note (docs/protocol
§8). The time is in the name of the note's folder, `.hoodie/.temp/<instant>.<ms>/sweep`, so one listing shows which notes are due.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence, Set as AbstractSet

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.owned.find import files_of
from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import remove, remove_paths
from hudi_ops.commit.recover.staging import sweep_staging
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.concurrency.foreign.foreign_instants import is_dead
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.concurrency.lease.own_clock import refuse_ahead
from hudi_ops.concurrency.markers import FOLDER, delete_markers, list_markers, marker_path
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER as METADATA
from hudi_ops.timeline.cancel.aborted import mark_swept
from hudi_ops.timeline.content.archived import archived_writes
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.log.entries import cancel_of
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

TEMP_AGE_MS = 24 * 3600 * 1000
"""Age in ms from which a temporary file of a put counts as abandoned: no put takes a day."""

SWEPT_FILES_MAX = 256
"""Number of announced files after which one write sweeps no further instant again; an instant counts as one file or more.

Each instant is finished, so that a write may look at more files, and the oldest due instant is always swept.
"""

_NOTE = re.compile(r"(?P<instant>\d{17})\.(?P<until_ms>\d+)")


def release_rolled_back(session: Session, instant: str, *, is_late: bool = False) -> bool:
    """Drop the lease of a rolled back write; its markers stay for the second sweep.

    `is_late`: a task may still put its first marker. Returns whether a second sweep will follow: not if the write has no markers
    and will get none.
    """
    is_noted = True
    with best_effort(instant):
        folders = session.ctx.storage.list_folder(f"{FOLDER}/{instant}")
        is_noted = is_late or bool(folders.files or folders.folders)
        if is_noted:
            until_ms = session.ctx.clock.now_ms() + EXPIRY_MS
            session.ctx.storage.put(note_path(instant, until_ms), b"")
        session.drop_name(instant)
    return is_noted


def remove_zombie_files(session: Session, state: TableState, instant: str) -> list[str]:
    """Remove files that a resumed process put after its rollback; return their paths.

    This needs no new rollback; some of the paths may not exist.
    """
    paths = files_of(session, state, instant)
    _remove_late(session, state, instant, paths)
    release_rolled_back(session, instant)
    return paths


def remove_late_files(session: Session, state: TableState, completed: Instant) -> None:
    """Remove announced files that a completed instant does not name, then its markers."""
    metadata = session.commits.metadata(state.timeline, completed)
    if metadata is None or not _is_known_whole(session, state, completed.time, metadata):
        return
    late = _late_files(session, state, completed.time, completed.kind, metadata)
    _delete_late(session, state, completed, late, {Part.CONTENT, Part.TRACES})


def _is_known_whole(session: Session, state: TableState, instant: str, metadata: CommitMetadata) -> bool:
    """Return whether the commit of a completed instant names all its files.

    A commit of hudi_ops does. Apache Hudi may complete a plan that was cancelled. It names the files that it made, and none of
    the executor of hudi_ops.
    """
    return POINTER_KEY in metadata.extra or session.was_cancelled(state, instant)


def _late_files(
    session: Session, state: TableState, instant: str, kind: str, metadata: CommitMetadata
) -> dict[str, bool]:
    """Return the announced files that a commit does not name, and whether each exists."""
    named = {stat.path.lstrip("/") for stat in metadata.stats}
    return {
        path: session.ctx.storage.head(path) is not None
        for path in files_of(session, state, instant)
        # Log files with the instant of a resize hold rows of other writers.
        if path not in named and not (kind == "replacecommit" and ".log." in path)
    }


def _delete_late(
    session: Session, state: TableState, completed: Instant, late: Mapping[str, bool], parts: Collection[Part]
) -> None:
    found = [path for path, exists in late.items() if exists]
    remove(Removal(session, state, completed, Reason.COMPLETED, found), parts)
    if found:
        logger.warning("%s completed without these files of a late task; deleted: %s", completed.time, ", ".join(found))


def sweep_archived(session: Session, state: TableState, instant: str, until_ms: Sequence[int] = ()) -> int | None:
    """Delete the late files of an archived instant, then its lease, markers and notes.

    Late are announced files that its commit does not name. A file below the start of the timeline counts as committed. Without
    notes (`until_ms`) this is the first look: a task may still write what it announced, so the markers of such files stay
    behind a note. Returns the number of late files that were looked for; None if the instant is not archived. A history that cannot
    be read leaves everything as it is.
    """
    storage, config = session.ctx.storage, state.config
    if state.timeline.find(instant) is not None or instant >= state.timeline.start:
        return None
    looked = 0
    with best_effort(instant):
        if not session.commits.archived.completion_times(config.history_folder, [instant])[instant]:
            return None
        for archived, metadata in archived_writes(storage, config, frozenset({instant})):
            is_whole = _is_known_whole(session, state, instant, metadata)
            late = _late_files(session, state, instant, archived.action, metadata) if is_whole else {}
            action = state.config.completed_write_action
            _delete_late(session, state, Instant(instant, action, State.COMPLETED), late, {Part.CONTENT})
            looked += len(late)
            if late and not until_ms:
                storage.put(note_path(instant, session.ctx.clock.now_ms() + EXPIRY_MS), b"")
                session.drop_name(instant)
            else:
                session.release(instant)
        _drop_notes(session, Reason.COMPLETED, instant, until_ms)
    return looked


def release_completed(session: Session, state: TableState, completed: Instant, named: Collection[str]) -> None:
    """Delete the lease and markers of a completed instant, except markers of earlier epochs.

    `named` are the data files in its commit. Other announced files are deleted; their markers stay for the second sweep.
    """
    own, instant = None, completed.time
    with best_effort(instant):
        markers = list_markers(session.ctx.storage, instant)
        own = [
            marker_path(instant, marker.data_path, replaces=marker.kind == "MERGE")
            for marker in markers
            if marker.data_path in named
        ]
        late = [marker.data_path for marker in markers if marker.data_path not in named]
        if late:
            remove(Removal(session, state, completed, Reason.COMPLETED, late), {Part.CONTENT})
            session.ctx.storage.put(note_path(instant, session.ctx.clock.now_ms() + EXPIRY_MS), b"")
    if own is not None:
        session.release(instant, own)


def _release_late_workers(session: Session, state: TableState, completed: Instant) -> None:
    metadata = session.commits.metadata(state.timeline, completed)
    if metadata is None or POINTER_KEY not in metadata.extra:
        session.release(completed.time)
    else:
        remove(Removal(session, state, completed, Reason.COMPLETED, ()), {Part.CONTENT})
        release_completed(session, state, completed, [stat.path for stat in metadata.stats])


def sweep(session: Session, state: TableState, dead: Mapping[str, bool]) -> None:
    """Remove leases, markers and files of ended or vanished instants, and sweep again where due.

    `dead`: instants with a dead lease, and whether it is foreign; read before `state` unless empty.

    Raises:
        Unavailable: something is to be removed, and this machine's clock is ahead of all others.
    """
    # One instant per time: a savepoint has the same time as the write that it protects.
    found = ((time, state.timeline.find(time)) for time in state.timeline.by_time)
    known = {time: instant for time, instant in found if instant is not None}
    folders = session.ctx.storage.list_folder(FOLDER).folders
    notes = notes_of(folders)
    if dead or notes:
        refuse_ahead(session.ctx)  # by a clock that is ahead leases expire, and second looks are due, too early
    for time, is_foreign in dead.items():
        clear_dead = _clear_dead_of_hudi if is_foreign else _clear_dead_of_ours
        clear_dead(session, state, time, known.get(time), is_noted=time in notes)
    session.ctx.storage.sweep_temp(TEMP_AGE_MS, session.ctx.clock.now_ms())
    sweep_staging(session.ctx, folders)
    marked = {name for name in folders if name.isdecimal()}
    _sweep_marked(session, state, marked - dead.keys(), known, notes)
    # An executor may note a second sweep of its completed instant while another process deletes the last markers.
    bare = {time for time in notes if time in known and known[time].is_completed and time not in marked}
    _sweep_due(session, state, {time: notes[time] for time in (notes.keys() - known.keys()) | bare})
    _mark_unmarked(session, state, {name.partition(".")[0] for name in folders})


def _clear_dead_of_ours(
    session: Session, state: TableState, time: str, instant: Instant | None, *, is_noted: bool
) -> None:
    if instant is not None and instant.is_completed:
        if instant.is_write:
            _release_late_workers(session, state, instant)
        else:
            with best_effort(time):
                remove(Removal(session, state, instant, Reason.COMPLETED, ()), {Part.CONTENT})
                session.release(time)
    elif instant is None and is_noted:
        session.drop_name(time)
    elif instant is None:
        _release_vanished(session, state, time)


def _clear_dead_of_hudi(
    session: Session, state: TableState, time: str, instant: Instant | None, *, is_noted: bool
) -> None:
    # Apache Hudi deletes its own leases, unless it died right after completion, or hudi_ops rolled the write back.
    if instant is not None and instant.is_completed and is_dead(session.ctx, time):
        session.release(time)
    elif instant is None and is_noted:
        session.drop_name(time)
    elif instant is None and sweep_archived(session, state, time) is not None:
        return
    elif instant is None and session.was_cancelled(state, time):
        remove_zombie_files(session, state, time)
    elif instant is None and is_dead(session.ctx, time):
        # The writer died between heartbeat and requested file, or later. Apache Hudi treats a missing heartbeat as a dead one.
        session.drop_name(time)


def _sweep_marked(
    session: Session,
    state: TableState,
    marked: AbstractSet[str],
    known: Mapping[str, Instant],
    notes: Mapping[str, Sequence[int]],
) -> None:
    for time in sorted(marked):
        instant = known.get(time)
        if instant is None and time not in notes and read_lease(session.ctx.storage, time) is None:
            # A task that outlived its instant announced, and perhaps wrote, another file.
            if sweep_archived(session, state, time) is None and session.was_cancelled(state, time):
                remove_zombie_files(session, state, time)
        elif instant is not None and instant.is_completed and read_lease(session.ctx.storage, time) is None:
            until_ms = notes.get(time, ())
            if not until_ms or until_ms[-1] <= session.ctx.clock.now_ms():
                remove_late_files(session, state, instant)
                _drop_notes(session, Reason.COMPLETED, time, until_ms)


def _sweep_due(session: Session, state: TableState, notes: Mapping[str, Sequence[int]]) -> None:
    now_ms = session.ctx.clock.now_ms()
    swept = 0
    for time in sorted(time for time, until_ms in notes.items() if until_ms[-1] <= now_ms):
        if swept < SWEPT_FILES_MAX:
            swept += max(1, sweep_again(session, state, time, notes[time]))


def sweep_again(session: Session, state: TableState, instant: str, until_ms: Sequence[int]) -> int:
    """Delete files that tasks wrote after the rollback, then markers and notes (`until_ms`).

    Of an archived instant the files that its commit names stay. For a completed instant without markers only the notes are deleted.
    Apache Hudi may have completed a plan that was cancelled (docs/protocol §26, step 10); then the files that it names and
    the metadata delta belong to the table.

    Returns the number of announced files that were looked for.
    """
    looked = sweep_archived(session, state, instant, until_ms)
    if looked is not None:
        return looked
    paths: list[str] = []
    found = state.timeline.find(instant)
    if (found is None or not found.is_completed) and session.was_cancelled(state, instant):
        paths = files_of(session, state, instant)
        late = [path for path in paths if session.ctx.storage.head(path) is not None]
        if late:
            logger.warning("tasks of %s wrote after its rollback; deleted: %s", instant, ", ".join(late))
        _remove_late(session, state, instant, late)
        _mark_swept(session, state, instant)
        delete_markers(session.ctx.storage, instant)
    _drop_notes(session, Reason.VANISHED, instant, until_ms)
    return len(paths)


def _mark_swept(session: Session, state: TableState, instant: str) -> None:
    """Record that a cancelled plan has left no file, if the instant is one."""
    for plan in state.timeline.aborted:
        if plan.time == instant:
            with best_effort(instant):
                mark_swept(session.ctx.storage, state.timeline, plan)


def _mark_unmarked(session: Session, state: TableState, begun: Collection[str]) -> None:
    """Mark aborted plans without markers as swept: their aborter died before it did so."""
    for plan in state.timeline.aborted:
        if State.SWEPT not in plan.states and plan.time not in begun:
            _mark_swept(session, state, plan.time)


def _remove_late(session: Session, state: TableState, instant: str, paths: Sequence[str]) -> None:
    """Remove what a resumed process or a late applier put after the removal of an instant."""
    found = state.timeline.find(instant)
    is_pending = found is not None and not found.is_completed
    target = found if found is not None and is_pending else Instant(instant, "", State.INFLIGHT)
    parts = {Part.CONTENT, Part.TIMELINE} if is_pending else {Part.CONTENT}
    removed = remove(Removal(session, state, target, Reason.VANISHED, paths), parts)
    if delta := [path for path in removed if path.startswith(f"{METADATA}/")]:
        logger.warning("the metadata table's delta of %s was put after its rollback: removed %s", instant, delta)


def note_path(instant: str, until_ms: int) -> str:
    """Return the path of the note that keeps a rolled back write's markers."""
    return f"{FOLDER}/{instant}.{until_ms}/sweep"


def _drop_notes(session: Session, reason: Reason, instant: str, until_ms: Sequence[int]) -> None:
    remove_paths(session.ctx.storage, reason, [note_path(instant, note_ms) for note_ms in until_ms])


def notes_of(folders: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse the names of marker folders into instant -> ascending times of its notes."""
    found: dict[str, tuple[int, ...]] = {}
    for name in folders:
        if match := _NOTE.fullmatch(name):
            times = (*found.get(match["instant"], ()), int(match["until_ms"]))
            found[match["instant"]] = tuple(sorted(times))
    return found


def _release_vanished(session: Session, state: TableState, instant: str) -> None:
    """Release a dead hudi_ops lease without an instant on the timeline.

    The attempt was rolled back or archived, or pauses before its first file. Its lease is kept until a slot decides its fate:
    otherwise a file of the paused process would be pending without a lease, look foreign, and stay for ever.
    """
    lease = read_lease(session.ctx.storage, instant)
    if sweep_archived(session, state, instant) is not None:
        return
    if instant <= state.log.boundary:
        session.release(instant)
        return
    if lease is not None and lease.role == "build":
        # A build is never on the timeline and may have ended well. The next build cancels its leftovers.
        session.drop_name(instant)
        return
    fate = fate_of(session.ctx.storage, state, instant)
    if cancel_of(fate) is not None:
        remove_zombie_files(session, state, instant)
    elif fate is not None:
        session.release(instant)
    elif _is_of_build(session, state, instant):
        # Its writer gave up because the put of its lease failed; the put landed after a build had used the instant and ended.
        session.drop_name(instant)
    else:
        # A foreign writer rolled the attempt back, or it died or pauses before its first file or its slot. Cancel it before its
        # files are deleted: a slot must not name deleted bytes.
        reason = "its writer is gone, and it is not on the timeline"
        if cancel_write(session, instant, reason, still=lambda: _has_dead_lease(session, instant)):
            remove_zombie_files(session, session.loader.load(), instant)


def _is_of_build(session: Session, state: TableState, instant: str) -> bool:
    """Return whether an instant without a slot is on the metadata table's timeline.

    An index build put it there: a writer puts its delta after its slot.
    """
    return bool(state.config.all_metadata_partitions) and instant in load_metadata_timeline(session.ctx.storage).by_time


def _has_dead_lease(session: Session, instant: str) -> bool:
    # Unlike `is_dead` this needs no storage clock: if the hudi_ops writer is alive after all, a CANCEL slot stops it.
    lease = read_lease(session.ctx.storage, instant)
    return lease is not None and lease.is_dead(session.ctx.clock)

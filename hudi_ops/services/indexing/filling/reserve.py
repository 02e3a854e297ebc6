"""Reserve an instant of the metadata table for a build, and remove the files of dead builds.

The instant joins the metadata table's timeline when the build is announced. Apache Hudi 1.0.2 rolls back every pending instant
there before each write, and deletes its files (docs/format §14.10). Until then the build's checkpoint names the instant.

A build is alive as long as the executor of its plan, which the plan's lease names; the build's checkpoint leads from the build to
the plan. A dead build is cancelled by a slot before its files are removed: if its process wakes up, it finds the slot before it can
announce the partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import refuse_closed
from hudi_ops.concurrency.lease.lease import read_lease, take_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Cancelled, Conflict, HudiOpsError, InvalidRequest, NotFound
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import INIT_PREFIX, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.metadata.writer.commit import ACTION, undo_delta
from hudi_ops.services.indexing.wanted import refuse_unbuildable
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.builds.checkpoint import (
    BuildCheckpoint,
    checkpoints_of,
    drop_checkpoint,
    planned_builds,
    put_checkpoint,
)
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.reserve import free_at_or_below, known_times
from hudi_ops.timeline.names import (
    State,
    completed_name,
    inflight_name,
    instant_of_ms,
    ms_of_instant,
    requested_name,
)
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

EXECUTORS = 8
"""Number of consecutive slots whose executors never choose the same instant of catch-up."""


def reserve_build(session: Session, attempt: Attempt, wanted: tuple[str, ...]) -> tuple[str, TableState]:
    """Take an instant of the metadata table for a build, and remove files of dead builds.

    Returns:
        The instant, and the state of the table when it was taken.

    Raises:
        Busy: another build is running, or the lock is held.
        Conflict: another process has built one of the partitions.
        InvalidRequest: the table has no completed write.
        Cancelled: the plan was cancelled, or taken over by another process.
    """
    ctx = session.ctx
    _cancel_dead_builds(session, attempt)
    with hold_lock(ctx, "begin to build the metadata table") as held:
        state = session.finish_decided()
        refuse_closed(ctx.storage, attempt, state)
        refuse_unbuildable(session, state)
        _refuse_built(state, wanted)
        own = load_metadata_timeline(ctx.storage)
        left = _unfinished(session, attempt, state, own)
        if not all(session.was_cancelled(state, instant) for instant in left):
            raise Busy(
                "another process is beginning to build the metadata table",
                table=state.config.name,
                next_step="run the same call again",
            )
        if not held.still_mine():
            raise Busy(
                "the table lock was lost before the build began",
                table=state.config.name,
                next_step="run the same call again: nothing was built",
            )
        _clear(session, attempt, state, own, wanted, left, begins=True)
        instant = _take_instant(session, state, own)
        # Other processes find the build by the checkpoint.
        names = tuple(map(str, wanted))
        checkpoint = BuildCheckpoint(
            plan=attempt.instant, epoch=attempt.epoch, built_at=instant, partitions=names, at_ms=ctx.clock.now_ms()
        )
        put_checkpoint(ctx.storage, checkpoint)
    # A process that slept since it took the lock may meet the files of its successor, at the same instant.
    try:
        refuse_closed(ctx.storage, attempt, session.loader.load())
    except (Cancelled, Conflict):
        drop_checkpoint(ctx.storage, attempt.instant, attempt.epoch)
        raise
    return instant, state


def _refuse_built(state: TableState, wanted: tuple[str, ...]) -> None:
    """Refuse to build partitions that the properties name: readers use their folders.

    Raises:
        Conflict: another process has built one of them.
    """
    built = [name for name in wanted if name in state.config.metadata_partitions]
    if built:
        raise Conflict(
            f"another process has built {', '.join(built)}",
            table=state.config.name,
            expected=f"a metadata table without {', '.join(wanted)}",
            found=", ".join(state.config.metadata_partitions),
            next_step="run the same call again to build the others",
            has_built=True,
        )


def _cancel_dead_builds(session: Session, attempt: Attempt) -> None:
    """Cancel the unfinished builds of dead processes.

    Raises:
        Busy: one of them is running. Raised by `_unfinished`.
    """
    state = session.loader.load()
    for instant in _unfinished(session, attempt, state, load_metadata_timeline(session.ctx.storage)):
        if not session.was_cancelled(state, instant):
            cancel_write(session, instant, "its builder is gone", lambda: _is_dead(session, attempt, instant))  # noqa: B023


def _is_dead(session: Session, attempt: Attempt, instant: str) -> bool:
    """Return whether a build is still unfinished, and dead; called under the lock."""
    try:
        state = session.loader.load()
        return instant in _unfinished(session, attempt, state, load_metadata_timeline(session.ctx.storage))
    except Busy:
        return False


def clear_build(session: Session, attempt: Attempt, instant: str, partitions: Collection[str]) -> None:
    """Remove the files of a build that readers do not use; log a failure.

    No other build gets a cancelled instant, so what this executor put there since, while it slept, goes whole.
    """
    storage = session.ctx.storage
    try:
        with hold_lock(session.ctx, "remove an unfinished build") as held:
            state = session.loader.load()
            builds, named = _by_instant(session), {*state.config.all_metadata_partitions}
            if session.was_cancelled(state, instant):
                undo_delta(storage, [instant], also_vanished=True)
                others = {name for one in builds.values() if one.built_at != instant for name in one.partitions}
                paths = _unused_files(storage, partitions, named | others)
                if paths and held.still_mine():
                    _refuse_named(load_config(storage), named)
                    remove_build_files(session, attempt, state, paths)
            # Until the instant is cancelled, a successor may have taken it, too, and announced the partitions.
            elif instant in builds and not named & {*partitions}:
                _clear(session, attempt, state, load_metadata_timeline(storage), partitions, [instant])
        session.drop_name(instant)
    except HudiOpsError as error:
        logger.warning("files of the build at %s stay until the next build: %s", instant, error)


def _unused_files(storage: Storage, partitions: Collection[str], used: Collection[str]) -> list[str]:
    """Return the files of partitions' folders that no reader, no build and no instant uses.

    `used` are the partitions of readers and of other builds; a folder with a data file is another instant's.
    """
    places = [f"{FOLDER}/{name}" for name in partitions if name not in used] if used else [FOLDER]
    listed = [storage.list(place) for place in places]
    return [info.path for files in listed if all(parse_data_file(one.name) is None for one in files) for info in files]


def _unfinished(session: Session, attempt: Attempt, state: TableState, own: Timeline) -> list[str]:
    """Return the instants of builds that are pending, or completed and not named.

    Archived instants are left out: once its partition is dropped, the delta of one looks like a build, since the metadata table's
    timeline is archived later.

    Raises:
        Busy: one of them is running.
    """
    found: list[str] = []
    archived: frozenset[str] | None = None
    plans = _by_instant(session)
    for instant in own:
        is_init = instant.time.startswith(INIT_PREFIX)
        if instant.kind != ACTION or is_init or state.timeline.find(instant.time) is not None:
            continue
        if instant.is_completed and _is_named(session, state, own.path(instant.file_name)):
            continue
        if archived is None:
            history = load_history(session.ctx.storage, state.config)
            archived = frozenset(one.time for one in history.instants)
        planned = plans.get(instant.time)
        # Deltas of catch-up go with the announced build that they belong to.
        is_delta = planned is not None and instant.time in planned.deltas
        if instant.time not in archived and not is_delta:
            _refuse_live(session, attempt, state, instant.time, planned)
            found.append(instant.time)
    named = state.config.all_metadata_partitions
    for planned in {one.built_at: one for one in plans.values()}.values():
        if own.find(planned.built_at) is None and not {*planned.partitions} <= {*named}:
            if not session.was_cancelled(state, planned.built_at):
                _refuse_live(session, attempt, state, planned.built_at, planned)
            found.append(planned.built_at)
    return found


def _refuse_live(
    session: Session, attempt: Attempt, state: TableState, instant: str, planned: BuildCheckpoint | None
) -> None:
    """Refuse to take the build of another living process for dead.

    Raises:
        Busy: it is running.
    """
    if planned is not None and planned.plan == attempt.instant:
        return
    lease = read_lease(session.ctx.storage, planned.plan if planned is not None else instant)
    if lease is not None and not lease.is_dead(session.ctx.clock):
        raise Busy(
            f"{lease.owner or 'an unknown process'} builds the metadata table",
            table=state.config.name,
            instant=instant,
            found=f"a beat {max(0, session.ctx.clock.now_ms() - lease.beaten_ms) / 1000:.0f} s ago",
            next_step="wait until it has ended; if its process is gone, wait for its heartbeat to expire",
        )


def _by_instant(session: Session) -> dict[str, BuildCheckpoint]:
    """Return the checkpoints of planned builds by their instants of the metadata table."""
    storage = session.ctx.storage
    found = [one for plan in planned_builds(storage) for one in checkpoints_of(storage, plan)]
    return {instant: one for one in found for instant in one.instants}


def _is_named(session: Session, state: TableState, path: str) -> bool:
    """Return whether readers use the files of a completed instant of the metadata table."""
    try:
        metadata = CommitMetadata.from_bytes(session.ctx.storage.get(path), path)
    except NotFound:
        return True
    return any(stat.partition_path in state.config.all_metadata_partitions for stat in metadata.stats)


def _clear(
    session: Session,
    attempt: Attempt,
    state: TableState,
    own: Timeline,
    wanted: Collection[str],
    instants: Collection[str],
    *,
    begins: bool = False,
) -> None:
    """Delete the folders of partitions that readers do not use, and instants of builds.

    Call it under the lock, with `state` and the metadata table's timeline `own` read under it. `begins`: a build begins.

    Raises:
        Busy: another process listed or announced partitions since the files were listed. Raised by `_refuse_named`.
        Cancelled: the attempt was cancelled, or taken over by another process. Raised by `refuse_closed`.
    """
    storage, config = session.ctx.storage, state.config
    named = config.all_metadata_partitions
    if not named:
        gone = [info.path for info in storage.list(FOLDER)]
    else:
        folders = [f"{FOLDER}/{partition}" for partition in wanted if partition not in config.metadata_partitions]
        gone = [info.path for folder in folders for info in storage.list(folder)]
        # Files of removed instants in other folders: their builds wanted other partitions.
        others = [f"{FOLDER}/{name}" for name in storage.list_folder(FOLDER).folders if name not in {*named, ".hoodie"}]
        gone += [
            info.path
            for folder in others
            if folder not in folders
            for info in storage.list(folder)
            if (name := parse_data_file(info.name)) is not None and name.instant in instants
        ]
        for instant in instants:
            found = own.find(instant)
            if found is not None and found.is_completed and _is_named(session, state, own.path(found.file_name)):
                continue  # readers use its files by now
            if found is not None and found.is_completed:
                gone.append(f"{TIMELINE_FOLDER}/{completed_name(instant, ACTION, found.completion_time)}")
            gone += [f"{TIMELINE_FOLDER}/{name_of(instant, ACTION)}" for name_of in (inflight_name, requested_name)]
    if gone:
        # The lock may be lost by now.
        _refuse_named(load_config(storage), named)
        if begins:
            refuse_closed(storage, attempt, session.loader.load())
        logger.warning("deleting %s files of a metadata table that no reader uses", len(gone))
    remove_build_files(session, attempt, state, gone)


def remove_build_files(session: Session, attempt: Attempt, state: TableState, paths: Sequence[str]) -> None:
    """Delete files in the metadata table that the executor of a build's plan found."""
    plan = Instant(attempt.instant, attempt.action, State.INFLIGHT)
    remove(Removal(session, state, plan, Reason.BUILD_WITHDRAWN, paths), {Part.CONTENT})


def _refuse_named(config: TableConfig, before: Collection[str]) -> None:
    """Refuse to delete files that were listed while other partitions were named.

    Raises:
        Busy: the lock was lost, and another process built one of the partitions.
    """
    if {*config.all_metadata_partitions} - {*before}:
        raise Busy(
            "the metadata table got partitions while files of a dead build were looked for",
            table=config.name,
            expected=", ".join(sorted(before)) or "none",
            found=", ".join(sorted(config.all_metadata_partitions)),
            next_step="run the same call again: nothing was deleted",
        )


def _take_instant(session: Session, state: TableState, own: Timeline) -> str:
    """Return an instant that no write will have: a free one below the newest completion time.

    Raises:
        InvalidRequest: the table has no completed write.
    """
    newest = max((instant.completion_time for instant in state.timeline if instant.completion_time), default="")
    if not newest:
        raise InvalidRequest(
            "the table has no completed write",
            table=state.config.name,
            expected="a completed write",
            found="none",
            next_step="write to it first",
        )
    taken = known_times(state.timeline, state.log) | own.known_times
    while True:
        instant = free_at_or_below(newest, taken)
        if not session.was_cancelled(state, instant) and take_lease(session.ctx, instant, "build"):
            return instant
        taken |= {instant}


def take_above(ctx: TableContext, floor: str, taken: Collection[str], takeover: int) -> str:
    """Return a free time above `floor` that the executors of other slots do not choose.

    An executor that slept cannot put files at an instant of its successor, nor remove them. The lease of the instant keeps writers
    from it.
    """
    at_ms = ms_of_instant(floor) + 1
    while True:
        instant = instant_of_ms(at_ms)
        if at_ms % EXECUTORS == takeover % EXECUTORS and instant not in taken and take_lease(ctx, instant, "build"):
            return instant
        at_ms += 1

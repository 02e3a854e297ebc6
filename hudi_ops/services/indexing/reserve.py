"""Reserve an instant of the metadata table for a build, and remove the files of dead builds.

A build holds a lease of its instant, so that no process takes its files for leftovers. A dead build is cancelled by a slot before
its files are removed: if its process wakes up, it finds the slot before it can name the partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hudi_ops.commit.checks import refuse_indexing, refuse_pending_restore
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.undo.cancel import cancel_write
from hudi_ops.concurrency.lease.lease import read_lease, take_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.errors import Busy, Conflict, HudiOpsError, InvalidRequest, NotFound, Unsupported
from hudi_ops.files.names import parse_data_file
from hudi_ops.index.resizes import RESIZE_STRATEGY, is_resize
from hudi_ops.metadata.reader.instants import INIT_PREFIX, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition
from hudi_ops.metadata.writer.begin import request_beginning
from hudi_ops.metadata.writer.commit import ACTION
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import ReplacePlan, RollbackPlan, read_plan
from hudi_ops.timeline.log.reserve import free_at_or_below, known_times
from hudi_ops.timeline.names import completed_name, inflight_name, requested_name
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import is_partitioned

logger = logging.getLogger(__name__)

_DEFAULT = (MetadataPartition.FILES, MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS)


@dataclass(frozen=True)
class BuildReservation:
    """Instant of a build, and the state of the table when it was taken."""

    instant: str
    partitions: tuple[MetadataPartition, ...]
    state: TableState


def wanted_partitions(state: TableState, names: Sequence[str] | None) -> tuple[MetadataPartition, ...]:
    """Return the partitions to build: the named ones that readers do not use yet, and `files`.

    Raises:
        InvalidRequest: an unknown name, or one that the table cannot have.
        Unsupported: a record index beside hash rings.
    """
    config = state.config
    asked = _default(state) if names is None else [partition_named(name, config.name) for name in names]
    wanted = {MetadataPartition.FILES, *asked}
    if MetadataPartition.RECORD_INDEX in wanted and state.log.properties.facts.has_ring:
        raise Unsupported(
            "a table with hash rings cannot have a record index: a write beside a resize records its keys later than the resize "
            "does, so the index would go on naming the replaced file group",
            table=config.name,
            expected="partitions other than record_index",
            found=str(MetadataPartition.RECORD_INDEX),
            next_step="leave it out: the ring locates every key without an index",
        )
    if MetadataPartition.PARTITION_STATS in wanted:
        if not is_partitioned(config):
            raise InvalidRequest(
                "a table without partitions has no statistics of them",
                table=config.name,
                expected=", ".join(name for name in MetadataPartition if name is not MetadataPartition.PARTITION_STATS),
                found=str(MetadataPartition.PARTITION_STATS),
                next_step=f"leave it out: {MetadataPartition.COLUMN_STATS} holds all statistics of such a table",
            )
        # Apache Hudi derives one from the other, and keeps one definition of both.
        wanted.add(MetadataPartition.COLUMN_STATS)
    return tuple(name for name in MetadataPartition if name in wanted and name not in config.metadata_partitions)


def _default(state: TableState) -> list[MetadataPartition]:
    """Return the defaults of Apache Hudi, and the record index if it is the table's index."""
    is_index = state.log.properties.facts.index == "record_index"
    found = [name for name in _DEFAULT if is_partitioned(state.config) or name is not MetadataPartition.PARTITION_STATS]
    return [*found, *([MetadataPartition.RECORD_INDEX] if is_index else [])]


def partition_named(name: str, table: str) -> MetadataPartition:
    """Return the partition of that name.

    Raises:
        InvalidRequest: no partition of this name can be built here.
    """
    try:
        return MetadataPartition(name)
    except ValueError:
        raise InvalidRequest(
            f"Unknown metadata partition {name!r}",
            table=table,
            expected=f"one of {', '.join(MetadataPartition)}",
            found=name,
            next_step="secondary and expression indexes are built with Apache Hudi"
            if name.startswith(("secondary_index_", "expr_index_"))
            else "correct the name",
        ) from None


def refuse_unbuildable(session: Session, state: TableState) -> None:
    """Refuse a table on which a metadata table cannot be built now.

    Raises:
        Unsupported: the table cannot be written. Raised by `refuse_unwritable`.
        Busy: an index is being built by Apache Hudi, a restore is pending, or a resize is being undone.
        Corrupt: a pending plan cannot be read. Raised by `read_plan`.
    """
    refuse_unwritable(state.config)
    refuse_indexing(state)
    refuse_pending_restore(state)
    for instant in state.timeline.pending:
        plan = read_plan(session.ctx.storage, state.timeline, instant) if instant.kind == "replacecommit" else None
        if isinstance(plan, ReplacePlan) and plan.children:
            _refuse_unknown_resize(state, instant.time, plan)
            _refuse_undone_resize(session, state, instant.time)


def _refuse_unknown_resize(state: TableState, resize: str, plan: ReplacePlan) -> None:
    """Refuse to build beside a resize by a strategy whose log files are not known.

    Raises:
        Busy: the plan names another strategy than that of Apache Hudi's resizes.
    """
    if not is_resize(plan):
        raise Busy(
            "a resize by an unknown strategy is pending: which log files of writes belong to its new buckets is not known",
            table=state.config.name,
            instant=resize,
            expected=RESIZE_STRATEGY,
            found=plan.strategy or "no strategy",
            next_step="let Apache Hudi execute it, or roll it back; then run the same call again",
        )


def _refuse_undone_resize(session: Session, state: TableState, resize: str) -> None:
    """Refuse to build beside a resize whose log files are being deleted.

    Completed writes name them, and the one that deletes them tells the metadata partitions that had been named when it began.

    Raises:
        Busy: the resize is cancelled, or a rollback of it is pending.
    """
    rollbacks = [
        instant.time
        for instant in state.timeline.pending
        if instant.kind == "rollback"
        and isinstance(plan := read_plan(session.ctx.storage, state.timeline, instant), RollbackPlan)
        and plan.target == resize
    ]
    is_cancelled = session.was_cancelled(state, resize)
    if is_cancelled or rollbacks:
        raise Busy(
            "a resize is being undone: the log files that writes put into its new buckets are being deleted",
            table=state.config.name,
            instant=resize,
            expected="a resize that is pending, completed or gone",
            found="a cancelled one" if is_cancelled else f"its pending rollback {rollbacks[0]}",
            next_step=f"`hudi-ops cancel TABLE {resize}` removes it; then run the same call again"
            if is_cancelled
            else "let the program that rolls it back finish, or run `hudi-ops recover TABLE`; then run the same call again",
        )


def reserve_build(session: Session, wanted: tuple[MetadataPartition, ...]) -> BuildReservation:
    """Take an instant of the metadata table for a build, and remove files of dead builds.

    Raises:
        Busy: another build is running, or the lock is held.
        Conflict: another process has built one of the partitions.
        InvalidRequest: the table has no completed write.
    """
    ctx = session.ctx
    _cancel_dead_builds(session)
    with hold_lock(ctx, "begin to build the metadata table") as held:
        state = session.finish_decided()
        refuse_unbuildable(session, state)
        _refuse_built(state, wanted)
        own = load_metadata_timeline(ctx.storage)
        left = _unfinished(session, state, own)
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
        _clear(session, state, wanted, left)
        instant = _take_instant(session, state, own)
        request_beginning(ctx.storage, instant)
    return BuildReservation(instant, wanted, state)


def _refuse_built(state: TableState, wanted: tuple[MetadataPartition, ...]) -> None:
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
        )


def _cancel_dead_builds(session: Session) -> None:
    """Cancel the unfinished builds of dead processes.

    Raises:
        Busy: one of them is running. Raised by `_unfinished`.
    """
    state = session.loader.load()
    for instant in _unfinished(session, state, load_metadata_timeline(session.ctx.storage)):
        if not session.was_cancelled(state, instant):
            cancel_write(session, instant, "its builder is gone", lambda: _is_dead(session, instant))  # noqa: B023


def _is_dead(session: Session, instant: str) -> bool:
    """Return whether a build is still unfinished, and dead; called under the lock."""
    try:
        state = session.loader.load()
        return instant in _unfinished(session, state, load_metadata_timeline(session.ctx.storage))
    except Busy:
        return False


def clear_build(session: Session, reserved: BuildReservation) -> None:
    """Remove the files of a build that readers do not use; log a failure."""
    try:
        with hold_lock(session.ctx, "remove an unfinished build"):
            state = session.loader.load()
            if load_metadata_timeline(session.ctx.storage).find(reserved.instant) is not None:
                _clear(session, state, reserved.partitions, [reserved.instant])
        session.drop_name(reserved.instant)
    except HudiOpsError as error:
        logger.warning("files of the build at %s stay until the next build: %s", reserved.instant, error)


def _unfinished(session: Session, state: TableState, own: Timeline) -> list[str]:
    """Return the instants of builds that are pending, or completed and not named.

    The delta of an archived instant looks alike once its partition is dropped: the metadata table's timeline is archived later.

    Raises:
        Busy: one of them is running.
    """
    found: list[str] = []
    archived: frozenset[str] | None = None
    for instant in own:
        is_init = instant.time.startswith(INIT_PREFIX)
        if instant.kind != ACTION or is_init or state.timeline.find(instant.time) is not None:
            continue
        if instant.is_completed and _is_named(session, state, own.path(instant.file_name)):
            continue
        if archived is None:
            history = load_history(session.ctx.storage, state.config)
            archived = frozenset(one.time for one in history.instants)
        if instant.time in archived:
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        if lease is not None and not lease.is_dead(session.ctx.clock):
            raise Busy(
                f"{lease.owner or 'an unknown process'} builds the metadata table",
                table=state.config.name,
                instant=instant.time,
                found=f"a beat {max(0, session.ctx.clock.now_ms() - lease.beaten_ms) / 1000:.0f} s ago",
                next_step="wait until it has ended; if its process is gone, wait for its heartbeat to expire",
            )
        found.append(instant.time)
    return found


def _is_named(session: Session, state: TableState, path: str) -> bool:
    """Return whether readers use the files of a completed instant of the metadata table."""
    try:
        metadata = CommitMetadata.from_bytes(session.ctx.storage.get(path), path)
    except NotFound:
        return True
    return any(stat.partition_path in state.config.all_metadata_partitions for stat in metadata.stats)


def _clear(
    session: Session, state: TableState, wanted: Collection[MetadataPartition], instants: Collection[str]
) -> None:
    """Delete the folders of partitions that the properties do not name, and instants of builds.

    Call it under the lock.
    """
    storage = session.ctx.storage
    named = load_config(storage).all_metadata_partitions
    if not named:
        gone = [info.path for info in storage.list(FOLDER)]
    else:
        folders = [f"{FOLDER}/{partition}" for partition in wanted if partition not in state.config.metadata_partitions]
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
        own = load_metadata_timeline(storage)
        for instant in instants:
            found = own.find(instant)
            if found is not None and found.is_completed:
                gone.append(f"{TIMELINE_FOLDER}/{completed_name(instant, ACTION, found.completion_time)}")
            gone += [f"{TIMELINE_FOLDER}/{name_of(instant, ACTION)}" for name_of in (inflight_name, requested_name)]
    if gone:
        logger.warning("deleting %s files of a metadata table that no reader uses", len(gone))
    for path in gone:
        storage.delete(path)


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

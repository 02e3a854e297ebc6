"""Reservation of a build of the metadata table: its partitions, its instant, its clean-up.

A build has a lease under its instant, so that its files are not taken for leftovers while it lives. What a dead one left unfinished
is cancelled by a slot before it is cleared away: if its builder wakes up after all, it finds that before it could name anything.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hudi_ops.commit.checks import refuse_indexing
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.undo.cancel import cancel_write
from hudi_ops.concurrency.lease.lease import read_lease, take_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.errors import Busy, Conflict, HudiOpsError, InvalidRequest, NotFound
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import INIT_PREFIX, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition
from hudi_ops.metadata.writer.begin import request_beginning
from hudi_ops.metadata.writer.commit import ACTION
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.log.reserve import free_at_or_below, known_times
from hudi_ops.timeline.names import completed_name, inflight_name, requested_name
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import is_partitioned

logger = logging.getLogger(__name__)

_RESIZE = "ConsistentBucket"
_DEFAULT = (MetadataPartition.FILES, MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS)


@dataclass(frozen=True)
class Place:
    """Where a build takes place: its instant, and the state of the table when it was taken."""

    instant: str
    partitions: tuple[MetadataPartition, ...]
    state: TableState


def wanted_partitions(state: TableState, names: Sequence[str] | None) -> tuple[MetadataPartition, ...]:
    """Return the requested partitions that readers do not use yet, and `files` if it is missing.

    Raises:
        InvalidRequest: an unknown name, or one that the table cannot have.
    """
    config = state.config
    has_partitions = is_partitioned(config)
    asked = _default(state) if names is None else [partition_named(name, config.name) for name in names]
    wanted = {MetadataPartition.FILES, *asked}
    held = set(config.metadata_partitions)
    if MetadataPartition.PARTITION_STATS in wanted:
        if not has_partitions:
            raise InvalidRequest(
                "a table without partitions has no statistics of them",
                table=config.name,
                expected=", ".join(one for one in MetadataPartition if one is not MetadataPartition.PARTITION_STATS),
                found=str(MetadataPartition.PARTITION_STATS),
                next_step=f"leave it out: {MetadataPartition.COLUMN_STATS} says all of such a table",
            )
        # Apache Hudi makes them of each other, and keeps one definition of both.
        wanted.add(MetadataPartition.COLUMN_STATS)
    return tuple(one for one in MetadataPartition if one in wanted and one not in held)


def _default(state: TableState) -> list[MetadataPartition]:
    """Return Apache Hudi's default partitions, and the record index if it is the table's index."""
    is_index = state.log.properties.facts.index == "record_index"
    found = [one for one in _DEFAULT if is_partitioned(state.config) or one is not MetadataPartition.PARTITION_STATS]
    return [*found, *([MetadataPartition.RECORD_INDEX] if is_index else [])]


def partition_named(name: str, table: str) -> MetadataPartition:
    """Return the partition of that name.

    Raises:
        InvalidRequest: there is none that is built here.
    """
    try:
        return MetadataPartition(name)
    except ValueError:
        raise InvalidRequest(
            f"the metadata table's partition {name!r} is none that is built here",
            table=table,
            expected=", ".join(MetadataPartition),
            found=name,
            next_step="build secondary and expression indexes with Apache Hudi",
        ) from None


def refuse_unbuildable(session: Session, state: TableState) -> None:
    """Refuse pending actions that must not run beside a build of the metadata table.

    Raises:
        Unsupported: the table cannot be written. Raised by `refuse_unwritable`.
        Busy: an index is being built by Apache Hudi, or its buckets are being resized.
    """
    refuse_unwritable(state.config)
    refuse_indexing(state)
    for one in state.timeline.pending:
        plan = read_plan(session.ctx.storage, state.timeline, one) if one.kind == "replacecommit" else None
        if isinstance(plan, ReplacePlan) and _RESIZE in plan.strategy:
            raise Busy(
                "a resize of buckets is pending: it is not decided yet whether the time of its log files will count",
                table=state.config.name,
                instant=one.time,
                found=plan.strategy,
                next_step="let Apache Hudi execute the clustering, or roll it back; then run the same call again",
            )


def take_place(session: Session, wanted: tuple[MetadataPartition, ...]) -> Place:
    """Reserve an instant of the metadata table, and delete leftovers of earlier builds.

    Raises:
        Busy: another process builds, which is named; or the lock was not available.
        Conflict: another process has built one of them.
        InvalidRequest: nothing has ever completed.
    """
    ctx = session.ctx
    _cancel_left(session)
    with hold_lock(ctx, "begin to build the metadata table") as held:
        state = session.finish_decided()
        refuse_unbuildable(session, state)
        _refuse_built(state, wanted)
        own = load_metadata_timeline(ctx.storage)
        left = _unfinished(session, state, own)
        if not all(session.was_cancelled(state, instant) for instant in left):
            raise Busy(
                "another process begins to build the metadata table",
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
    return Place(instant, wanted, state)


def _refuse_built(state: TableState, wanted: tuple[MetadataPartition, ...]) -> None:
    """Readers use what lies in the folder of a partition that is named.

    Raises:
        Conflict: another process has built one of those that were to be built.
    """
    built = [one for one in wanted if one in state.config.metadata_partitions]
    if built:
        raise Conflict(
            f"another process has built {', '.join(built)} meanwhile",
            table=state.config.name,
            expected=f"a metadata table without {', '.join(wanted)}",
            found=", ".join(state.config.metadata_partitions),
            next_step="run the same call again if more is to be built",
        )


def _cancel_left(session: Session) -> None:
    """Cancel what dead builds left unfinished.

    Raises:
        Busy: one of them lives. Raised by `_unfinished`.
    """
    state = session.loader.load()
    for instant in _unfinished(session, state, load_metadata_timeline(session.ctx.storage)):
        if not session.was_cancelled(state, instant):
            cancel_write(session, instant, "its builder is gone", lambda: _is_left(session, instant))  # noqa: B023


def _is_left(session: Session, instant: str) -> bool:
    """Whether a build is unfinished even now, and dead; asked under the lock."""
    try:
        state = session.loader.load()
        return instant in _unfinished(session, state, load_metadata_timeline(session.ctx.storage))
    except Busy:
        return False


def clear_build(session: Session, place: Place) -> None:
    """Delete the files of a build that readers do not use; log a failure for the next build."""
    try:
        with hold_lock(session.ctx, "clear away an unfinished build"):
            state = session.loader.load()
            if load_metadata_timeline(session.ctx.storage).find(place.instant) is not None:
                _clear(session, state, place.partitions, [place.instant])
        session.drop_name(place.instant)
    except HudiOpsError as error:
        logger.warning("what was built at %s stays until the next build: %s", place.instant, error)


def _unfinished(session: Session, state: TableState, own: Timeline) -> list[str]:
    """Instants of builds that are pending, or completed without being named.

    Raises:
        Busy: one of them lives.
    """
    found = []
    for one in own:
        is_init = one.time.startswith(INIT_PREFIX)
        if one.kind != ACTION or is_init or state.timeline.find(one.time) is not None:
            continue
        if one.is_completed and _is_named(session, state, own.path(one.file_name)):
            continue
        lease = read_lease(session.ctx.storage, one.time)
        if lease is not None and not lease.is_dead(session.ctx.clock):
            raise Busy(
                f"{lease.owner or 'another process'} builds the metadata table",
                table=state.config.name,
                instant=one.time,
                found=f"a beat {max(0, session.ctx.clock.now_ms() - lease.beaten_ms) / 1000:.0f} s ago",
                next_step="wait until it has ended; if its process is gone, wait for its heartbeat to expire",
            )
        found.append(one.time)
    return found


def _is_named(session: Session, state: TableState, path: str) -> bool:
    """Whether readers use what a completed instant of the metadata table wrote."""
    try:
        metadata = CommitMetadata.from_bytes(session.ctx.storage.get(path), path)
    except NotFound:
        return True
    return any(stat.partition_path in state.config.all_metadata_partitions for stat in metadata.stats)


def _clear(
    session: Session, state: TableState, wanted: Collection[MetadataPartition], instants: Collection[str]
) -> None:
    """Delete folders of partitions that are not named, and instants of builds; under the lock."""
    storage = session.ctx.storage
    named = load_config(storage).all_metadata_partitions
    if not named:
        gone = [info.path for info in storage.list(FOLDER)]
    else:
        folders = [f"{FOLDER}/{partition}" for partition in wanted if partition not in state.config.metadata_partitions]
        gone = [info.path for folder in folders for info in storage.list(folder)]
        # Whatever else began at an instant that is taken off: a build of other partitions than are wanted now.
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
        logger.warning("clearing away %s files of a metadata table that no reader uses", len(gone))
    for path in gone:
        storage.delete(path)


def _take_instant(session: Session, state: TableState, own: Timeline) -> str:
    """Choose an instant that no write has or will have.

    It is below the newest completion time, above which all others rise.

    Raises:
        InvalidRequest: nothing has ever completed.
    """
    newest = max((one.completion_time for one in state.timeline if one.completion_time), default="")
    if not newest:
        raise InvalidRequest(
            "nothing has ever completed in this table",
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

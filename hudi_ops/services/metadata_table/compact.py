"""Compact the metadata table: merge its log files into base files, beside ongoing writes.

Base files are put first, invisible to readers; then, under the table's lock and after a check, one timeline file completes them.
The metadata table stays correct beside other compactions and writes. Source: docs/protocol §18.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.concurrency.transaction import unfinished
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Busy, Conflict, HudiOpsError
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.layout import Basis, basis_of, kept_partitions
from hudi_ops.metadata.reader.slices import list_partition
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER
from hudi_ops.metadata.writer.compaction import (
    ACTION,
    CompactionInputs,
    GroupInput,
    MergedGroup,
    commit_bytes,
    compaction_plan_bytes,
    compaction_time,
    compactions,
    deltas_since_compaction,
    inputs_at,
    merged_group,
    taken_below,
)
from hudi_ops.services.base.result import Result
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import FileInfo, Folder
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.names import MERGING_ACTIONS, completed_name, inflight_name, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

KEPT_MS = 10 * 60 * 1000
"""Time for which superseded files of the metadata table stay for readers that began before."""

_PURPOSE = "compact the metadata table"
_NOTHING = "nothing to merge: all writes below the newest one are merged already"


@dataclass(frozen=True)
class MetadataCompaction(Result):
    """Result of a compaction, or of its dry run; `instant` None: nothing was merged.

    `records` counts those of the new base files; `cleaned` counts deleted files of superseded slices.
    """

    table: str
    instant: str | None
    groups: int = 0
    log_files: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records: int = 0
    cleaned: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    note: str = ""


@dataclass(frozen=True)
class _Chosen:
    """Inputs of a merge, and the state from which they were chosen."""

    state: TableState
    basis: Basis
    instants: MetadataInstants
    inputs: CompactionInputs
    listed: Sequence[tuple[str, Folder]]


def after_write(session: Session) -> None:
    """Compact the metadata table after `metadata_compact_after` deltas; never raise.

    The session's last write counted the deltas.
    """
    if session.memory.metadata_deltas < session.metadata_compact_after:
        return
    try:
        done = compact_metadata(session)
    except (Busy, Conflict) as error:
        logger.info("the metadata table is compacted by a later write: %s", error)
    except HudiOpsError as error:
        logger.warning("the metadata table was not compacted; the next write tries it again: %s", error)
    else:
        logger.info("metadata table: %s", done.note or f"compacted {done.log_files} log files at {done.instant}")


def compact_metadata(session: Session, *, dry_run: bool = False) -> MetadataCompaction:
    """Merge the log files of the metadata table into base files, and delete superseded files.

    Raises:
        Unsupported: the table cannot be written.
        Busy: the lock is held, or was lost.
        Corrupt: a file of the metadata table is damaged.
    """
    started_s = session.ctx.clock.monotonic_s()
    state = session.loader.load() if dry_run else finish_unfinished(session)
    refuse_unwritable(state.config)
    if not state.config.all_metadata_partitions:
        return MetadataCompaction(state.config.name, None, dry_run=dry_run, note="the table has no metadata table")
    chosen = _choose(session, state)
    if chosen is None:
        return MetadataCompaction(state.config.name, None, dry_run=dry_run, note=_NOTHING)
    if dry_run:
        done = _preview(chosen)
    else:
        done = _publish(session, chosen, _merge(session, chosen))
        done = replace(done, cleaned=_clean(session, chosen))
    return replace(done, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def _choose(session: Session, state: TableState) -> _Chosen | None:
    """Return the inputs of a merge; None if there is nothing to merge.

    Raises:
        Busy: a write is between its two commits.
    """
    storage = session.ctx.storage
    own = load_metadata_timeline(storage)
    # After the metadata table's timeline: instants that completed there were requested here before.
    state = session.loader.relist(state)
    if unfinished(state) is not None:
        raise Busy(**_not_now(state, "a write is being completed"))
    _refuse_unsettled(own, state)
    instant = compaction_time(own, state.timeline)
    if not instant or not deltas_since_compaction(own) or instant <= max(compactions(own), default=""):
        return None
    instants = MetadataInstants(own, state.timeline, session.commits.archived)
    partitions = mergeable_partitions(state.config)
    folders = session.ctx.local_engine.map(lambda partition: list_partition(storage, partition), partitions)
    listed = tuple(zip(partitions, folders, strict=True))
    inputs = inputs_at(instant, instants, listed)
    if not inputs.groups:
        return None
    return _Chosen(state, basis_of(storage, state, own), instants, inputs, listed)


def mergeable_partitions(config: TableConfig) -> tuple[str, ...]:
    """Return the partitions to compact: not those that are announced.

    Catch-up puts its records below those of writers. Above a base file that holds the writers' records, they would replace these.
    """
    return tuple(one for one in kept_partitions(config) if one not in config.metadata_partitions_inflight)


def _refuse_unsettled(own: Timeline, state: TableState) -> None:
    """Refuse instants that are complete in the metadata table and pending in the table.

    They may still be rolled back.

    Raises:
        Busy: there is such an instant, or a foreign compaction is pending.
    """
    for of_data in state.timeline.pending:
        delta = own.find(of_data.time, "deltacommit") if of_data.kind != "savepoint" else None
        if delta is not None and delta.is_completed:
            raise Busy(**_not_now(state, f"{of_data} is between its two commits"))
    for delta in own.pending:
        if delta.action in MERGING_ACTIONS:
            raise Busy(**_not_now(state, f"{delta} of a foreign writer is pending in the metadata table"))


def _not_now(state: TableState, what: str) -> dict[str, str]:
    return {
        "what": f"the metadata table cannot be compacted now: {what}",
        "table": state.config.name,
        "next_step": "nothing: the next write tries it again",
    }


def _merge(session: Session, chosen: _Chosen) -> list[MergedGroup]:
    """Merge and put all groups; return them without their bodies.

    Raises:
        Unavailable: a file could not be read: another process compacted and cleaned, or dropped, the metadata table.
    """
    storage, version = session.ctx.storage, chosen.state.config.version

    def step(group: GroupInput) -> MergedGroup:
        merged = merged_group(storage, chosen.inputs, group, version, chosen.instants.counts)
        storage.put(merged.path, merged.body)
        return replace(merged, body=b"")

    # A metadata table is small beside its table: executors would wait for its files longer than they work on them.
    return session.ctx.local_engine.map(step, chosen.inputs.groups)


def _publish(session: Session, chosen: _Chosen, merged: Sequence[MergedGroup]) -> MetadataCompaction:
    """Publish the merged base files, unless their inputs changed.

    Raises:
        Busy: the lock is held, or was lost.
        Conflict: the inputs changed.
    """
    ctx, inputs = session.ctx, chosen.inputs
    with hold_lock(ctx, _PURPOSE) as held:
        state = session.finish_decided()
        own = load_metadata_timeline(ctx.storage)
        if inputs.instant not in compactions(own):
            named = state.config.all_metadata_partitions
            # The folder of a dropped partition must not come back.
            ctx.storage.delete_all([group.path for group in merged if group.stat.partition_path not in named])
            if basis_of(ctx.storage, state, own) != chosen.basis:
                raise Conflict(**_changed(state, "it got or lost partitions"))
            _refuse_changed(inputs, own, state)
            if not held.still_mine():
                raise Busy(
                    f"the table lock was lost before it was decided to {_PURPOSE}",
                    table=state.config.name,
                    next_step="run the same call again, or leave it to the next write",
                )
            _put(session, inputs, commit_bytes(merged, state.config.version))
    return replace(
        _preview(chosen),
        dry_run=False,
        bytes_out=sum(group.stat.file_size_in_bytes for group in merged),
        records=sum(group.stat.num_writes for group in merged),
    )


def _refuse_changed(inputs: CompactionInputs, own: Timeline, state: TableState) -> None:
    """Refuse to publish unless the merged deltas are exactly those completed below the time.

    The base files stay: another process with the same time may be about to complete them. The next compaction deletes them.

    Raises:
        Busy: a write is between its two commits.
        Conflict: the deltas changed.
    """
    _refuse_unsettled(own, state)
    if compactions(own) != inputs.before:
        raise Conflict(**_changed(state, "another process compacted it"))
    if taken_below(own, inputs.instant) != inputs.taken:
        raise Conflict(**_changed(state, "a write with an older completion time completed, or one was undone"))
    if any(instant.time == inputs.instant for timeline in (own, state.timeline) for instant in timeline):
        raise Conflict(**_changed(state, f"the time {inputs.instant} was taken"))


def _changed(state: TableState, what: str) -> dict[str, str]:
    return {
        "what": f"the metadata table changed while it was compacted: {what}",
        "table": state.config.name,
        "next_step": "nothing: the next write tries it again",
    }


def _put(session: Session, inputs: CompactionInputs, commit: bytes) -> None:
    storage = session.ctx.storage
    # The completed file is put first, which completes the compaction. Without it the other two would be a plan that Apache Hudi
    # executes, beside our base files; all programs read and archive a completed instant without them.
    done = completed_name(inputs.instant, ACTION, inputs.completion_time)
    ensure(storage, f"{TIMELINE_FOLDER}/{done}", commit)
    ensure(storage, f"{TIMELINE_FOLDER}/{requested_name(inputs.instant, ACTION)}", compaction_plan_bytes(inputs))
    ensure(storage, f"{TIMELINE_FOLDER}/{inflight_name(inputs.instant, ACTION)}", b"")


def _clean(session: Session, chosen: _Chosen) -> int:
    """Delete files of slices superseded twice, after `KEPT_MS`, and uncompleted base files."""
    before_ms = session.ctx.clock.now_ms() - KEPT_MS
    gone = [
        path
        for partition, folder in chosen.listed
        for path in superseded_files(folder, chosen.instants, chosen.inputs.instant, before_ms)
    ]
    session.ctx.storage.delete_all(gone)
    return len(gone)


def _preview(chosen: _Chosen) -> MetadataCompaction:
    groups = chosen.inputs.groups
    return MetadataCompaction(
        table=chosen.state.config.name,
        instant=chosen.inputs.instant,
        groups=len(groups),
        log_files=sum(len(group.slice.logs) for group in groups),
        bytes_in=sum(group.size_bytes for group in groups),
        dry_run=True,
    )


def superseded_files(folder: Folder, instants: MetadataInstants, newest: str, before_ms: int) -> list[str]:
    """Return the files that no reader needs any more, log files before their base files.

    These are files of slices older than one that existed by `before_ms`, since a reader of an older one began earlier, and base
    files that never counted. `newest` is the time of a compaction completed since the listing. Where compactions follow each other
    faster, the slices made since `before_ms` stay.
    """
    bases: dict[str, list[tuple[str, FileInfo]]] = {}
    logs: dict[str, list[tuple[str, FileInfo]]] = {}
    gone: list[str] = []
    for info in folder.files:
        name = parse_data_file(info.name)
        if name is None:
            continue
        if name.is_log:
            logs.setdefault(name.file_id, []).append((name.instant, info))
        elif instants.is_committed(name.instant):
            bases.setdefault(name.file_id, []).append((name.instant, info))
        elif instants.own.find(name.instant) is None and name.instant < newest:
            gone.append(info.path)
    for file_id, held in bases.items():
        instant = max((made for made, base in held if made < newest and base.modified_ms < before_ms), default="")
        if instant:
            of_group = [(written, log) for written, log in logs.get(file_id, []) if instants.is_committed(written)]
            upon = instants.lie_upon([(written, instant) for written, _ in of_group])
            gone += [log.path for (_, log), is_newer in zip(of_group, upon, strict=True) if not is_newer]
            gone += [base.path for older, base in held if older < instant]
    return gone

"""Drop partitions of the metadata table: first from the properties, then their folders.

Readers list storage as soon as the properties name no partition, even if the folder still exists; a default writer of Apache Hudi
builds the metadata table again, even over a stale folder (docs/format §9.6). So a crash at any point leaves a correct table.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.checks import refuse_indexing
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.config.table import (
    INDEX_DEFINITIONS_PATH,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    IndexKind,
    TableConfig,
)
from hudi_ops.errors import Busy, Conflict, HudiOpsError, InvalidRequest
from hudi_ops.metadata.index_definitions import encode_index_definitions
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, is_secondary, rebuild_command
from hudi_ops.services.base.result import Result
from hudi_ops.services.indexing.choose import pending_builds
from hudi_ops.services.indexing.end_builds import end_builds
from hudi_ops.services.indexing.rebuild import dropped_before
from hudi_ops.services.indexing.secondary import with_columns
from hudi_ops.storage.protocol import FileInfo
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.log.entries import Entry, Properties
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

KEYS = (METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT)
_DECISION = "drop metadata table"
_WHY = (
    "a writer of Apache Hudi had the metadata table off: give it hoodie.metadata.enable=true, or let "
    "hoodie.metadata.auto.delete.partitions be true"
)


@dataclass(frozen=True)
class DropResult(Result):
    """Result of a drop, or of its dry run: partitions, files, cancelled builds."""

    table: str
    dropped: tuple[str, ...]
    left: tuple[str, ...]
    files: int = 0
    bytes: int = 0
    dry_run: bool = False
    note: str = ""
    ended_builds: tuple[str, ...] = ()


def drop_metadata(
    session: Session, names: Sequence[str] | None = None, *, dry_run: bool = False, to_build: Sequence[str] = ()
) -> DropResult:
    """Drop the metadata table, or partitions of it; running it again changes nothing.

    Files of an earlier try are deleted, too. Definitions of indexes stay, as when Apache Hudi drops its metadata table; those of
    dropped secondary and expression indexes are removed: a writer of Apache Hudi would build them again.

    Args:
        names: partitions of any kind; None: all.
        dry_run: return the result that a drop would have; change nothing.
        to_build: partitions that the caller builds next, recorded in the log. With them the table's own index may be dropped, too.

    Raises:
        InvalidRequest: an unknown name, or a partition that others need.
        Busy: the lock is held, or an index is being built.
        Conflict: another process builds it again, or changed its partitions before a rebuild.
    """
    storage = session.ctx.storage
    config = load_config(storage)
    begun = _planned(session, config) if names is not None else set()
    wanted = _wanted(config, names, {*storage.list_folder(FOLDER).folders, *begun})
    result = DropResult(config.name, tuple(sorted(wanted & _listed(config))), tuple(sorted(_listed(config) - wanted)))
    if dry_run:
        if (log := session.loader.find(config)) is not None:
            _refuse_index(config, log.properties.facts.index, set(result.dropped))
        files = _files(session, wanted, config, whole=names is None)
        return replace(result, files=len(files), bytes=sum(info.size_bytes for info in files), dry_run=True)
    ended = end_builds(session, names, "its partitions are dropped") if session.loader.find(config) is not None else ()
    if session.loader.find(config) is None:
        # A table of Apache Hudi must be writable after the drop.
        left = without_partitions(config, wanted)
        session.loader.seed(session.loader.propose(left, load_timeline(storage, left)))
    dropped: set[str] = set()

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal dropped, wanted
        if to_build:
            _refuse_changed(config, state.config)
        # Checked again: the table may have got partitions that need the dropped ones.
        wanted = _wanted(state.config, names, wanted)
        dropped = wanted & _listed(state.config)
        is_left = dropped_before(state) or any(key in state.config.raw for key in KEYS)
        if not dropped and not (names is None and is_left):
            return None
        if not to_build:
            _refuse_index(state.config, state.log.properties.facts.index, dropped)
        refuse_indexing(state)
        is_whole = dropped == _listed(state.config) or names is None
        return Properties(
            **session.entry(state, f"{_DECISION} {session.ctx.ids.new_id()}"),
            remove=KEYS if is_whole else (),
            drops=() if is_whole else tuple(sorted(dropped)),
            **state.log.properties.carried(),
            # Partitions that an interrupted rebuild did not build are still to be built, unless all are dropped.
            to_build=tuple(to_build) or tuple(sorted(set(dropped_before(state)) - wanted if names is not None else ())),
        )

    session.decide(prepare, "drop the metadata table")
    files = _delete(session, wanted, whole=names is None, to_build=to_build)
    if dropped:
        logger.warning("dropped partitions of the metadata table of %s: %s", config.name, ", ".join(sorted(dropped)))
    remaining = _listed(load_config(storage))
    return DropResult(
        config.name,
        tuple(sorted(dropped)),
        tuple(sorted(remaining)),
        len(files),
        sum(info.size_bytes for info in files),
        note="" if dropped or files or ended else "there was nothing to drop",
        ended_builds=ended,
    )


def finish_drop(session: Session) -> int:
    """Delete the files that a drop left when its process died; return their number.

    Only the drop that was decided last is finished. A partition that the properties name again stays.

    Raises:
        Busy: the lock was not free in time, or it was lost.
    """
    state, storage = session.loader.load(), session.ctx.storage
    entry, listed = state.log.properties, _listed(state.config)
    if not entry.decision_id.startswith(_DECISION) or dropped_before(state) or [*pending_builds(session, state)]:
        return 0
    if entry.drops:
        left = [name for name in entry.drops if name not in listed and storage.list(f"{FOLDER}/{name}")]
        return drop_metadata(session, left).files if left else 0
    return drop_metadata(session).files if not listed and storage.list(FOLDER) else 0


def drop_if_behind(session: Session, written: str) -> str:
    """Drop the metadata table if it lacks completed writes; return what was done.

    Empty: it lacks none.

    A writer of Apache Hudi with `hoodie.metadata.enable=false` and `hoodie.metadata.auto.delete.partitions=false` leaves the
    metadata table listed, and readers would miss its rows: those of Apache Hudi and the `hudi` package trust what is listed.
    Source: docs/format §9.6.

    Call it after a write has completed: a failure here does not undo the write. Without a gap it costs no storage call.

    Args:
        session: of this process; its last write listed the metadata table's timeline.
        written: instant of that write, whose delta the listing lacks.
    """
    own = session.memory.metadata_timeline
    try:
        state = session.loader.resume()
        if own is None or not state.config.metadata_partitions or not _gap(session, own, state.timeline, written):
            return ""
        # Both timelines are read again: other writes may have completed since.
        state = session.loader.load()
        lost = _gap(session, load_metadata_timeline(session.ctx.storage), state.timeline, written)
        if not lost or not state.config.metadata_partitions:
            return ""
        what = f"the metadata table lacks {len(lost)} completed writes, the first {lost[0]} ({_WHY})"
        if state.log.properties.facts.index == "record_index":
            return _warned(f"{what}; next: `hudi-ops index TABLE run --rebuild`, until which reads list storage")
        columns = {
            name: index.source_fields[0]
            for name, index in load_index_definitions(session.ctx.storage).items()
            if is_secondary(name) and index.source_fields
        }
        names = " ".join(with_columns(drop_metadata(session).dropped, columns))
        return _warned(
            f"{what}; it was dropped, and reads list storage; `hudi-ops index TABLE run {names}` builds it again"
        )
    except HudiOpsError as error:
        return _warned(
            f"the metadata table lacks completed writes, and was not dropped: {error.what}; {error.next_step}"
        )


def _gap(session: Session, own: Timeline, data: Timeline, written: str) -> list[str]:
    return [time for time in MetadataInstants(own, data, session.commits.archived).missing if time != written]


def _warned(line: str) -> str:
    logger.warning("%s", line)
    return line


def _planned(session: Session, config: TableConfig) -> set[str]:
    """Return the partitions that pending plans build; a drop cancels these plans."""
    if session.loader.find(config) is None:
        return set()  # a table of Apache Hudi, without a commit log
    return {name for _, names in pending_builds(session, session.loader.load()) for name in names}


def _wanted(config: TableConfig, names: Sequence[str] | None, folders: Sequence[str] | set[str]) -> set[str]:
    """Return the partitions to drop; without names all that the properties name.

    Raises:
        InvalidRequest: a partition does not exist, or others need it.
    """
    held = _listed(config)
    if names is None:
        return held
    for name in names:
        if name not in held and name not in folders:
            raise InvalidRequest(
                f"the metadata table has no partition {name}",
                table=config.name,
                expected=", ".join(sorted(held)) or "no name: there is no metadata table",
                found=name,
                next_step="name one of these; `hudi-ops index TABLE show` shows them"
                if held
                else "nothing to do: there is nothing to drop",
            )
    wanted = set(names)
    left = held - wanted
    needed = [
        (MetadataPartition.FILES, sorted(left)),
        (MetadataPartition.RECORD_INDEX, sorted(filter(is_secondary, left))),
        (MetadataPartition.COLUMN_STATS, sorted(left & {MetadataPartition.PARTITION_STATS})),
    ]
    for partition, needing in needed:
        if partition in wanted and needing:
            raise InvalidRequest(
                f"the partition {partition} of the metadata table cannot be dropped while others need it",
                table=config.name,
                expected=f"{', '.join(needing)} dropped with it",
                found=", ".join(sorted(wanted)),
                next_step=f"`hudi-ops index TABLE drop {' '.join(sorted(wanted | set(needing)))}`",
            )
    return wanted


def _refuse_index(config: TableConfig, index: IndexKind, dropped: set[str]) -> None:
    """Refuse to drop the record index if it is the table's index: writers find keys with it.

    Raises:
        InvalidRequest: it would be dropped.
    """
    if index == "record_index" and MetadataPartition.RECORD_INDEX in dropped:
        raise InvalidRequest(
            "the record index is this table's index: without it no writer finds existing rows",
            table=config.name,
            expected="other partitions",
            found=", ".join(sorted(dropped)),
            next_step=f"name the partitions to drop; {rebuild_command(MetadataPartition.RECORD_INDEX)} rebuilds a damaged one",
        )


def _refuse_changed(before: TableConfig, now: TableConfig) -> None:
    """Refuse a rebuild whose partitions were chosen from other properties.

    Raises:
        Conflict: partitions were added or dropped since.
    """
    if _listed(now) != _listed(before):
        raise Conflict(
            "the metadata table got or lost partitions before some of them were dropped for a rebuild",
            table=now.name,
            expected=", ".join(sorted(_listed(before))) or "none",
            found=", ".join(sorted(_listed(now))) or "none",
            next_step="run the same call again",
        )


def _delete(session: Session, wanted: set[str], *, whole: bool, to_build: Sequence[str]) -> list[FileInfo]:
    """Delete the files of partitions that the properties no longer name.

    Raises:
        Busy: the lock was lost.
        Conflict: another process built a dropped partition again, or builds one.
    """
    ctx = session.ctx
    # Under the lock, with fresh properties: Apache Hudi builds a metadata table under the same lock.
    with hold_lock(ctx, "delete dropped partitions of the metadata table") as held:
        config = load_config(ctx.storage)
        files = _files(session, wanted, config, whole=whole)
        if files and not held.still_mine():
            raise Busy(
                "the table lock was lost before the metadata table's files were deleted",
                table=config.name,
                next_step="run the same call again: readers no longer use the files, and the call deletes them",
            )
        # Read after the listing: files of partitions that are named by now must stay.
        config = load_config(ctx.storage)
        rebuilt = _listed(config) if whole else _listed(config) & wanted
        _refuse_begun(session, config.name, wanted, whole=whole)
        if rebuilt:
            raise Conflict(
                f"another process built the metadata table again ({', '.join(sorted(rebuilt))})",
                table=config.name,
                next_step="let Apache Hudi's writers run with hoodie.metadata.enable=false, then run the same call again",
            )
        if _listed(config):
            _forget(session, wanted - {*to_build})
        for info in files:
            ctx.storage.delete(info.path)
    return files


def _refuse_begun(session: Session, table: str, wanted: set[str], *, whole: bool) -> None:
    """Refuse to delete the files of a build that began since the drop was decided.

    The properties do not name its partitions yet.

    Raises:
        Conflict: such a build is pending.
    """
    for plan, names in pending_builds(session, session.loader.load()):
        begun = {*names} if whole else {*names} & wanted
        if begun:
            raise Conflict(
                f"another process builds {', '.join(sorted(begun))} again, so their files stay",
                table=table,
                instant=plan.time,
                expected="no build of dropped partitions",
                found=f"index build {plan.time}",
                next_step="they are dropped; run the same call again to cancel the build, too",
                other=plan.time,
            )


def _files(session: Session, wanted: set[str], config: TableConfig, *, whole: bool) -> list[FileInfo]:
    """Return the files to delete: those of the partitions, or all files if no partition stays."""
    storage = session.ctx.storage
    if whole or (wanted and not _listed(config) - wanted):
        return list(storage.list(FOLDER))
    return [info for name in sorted(wanted) for info in storage.list(f"{FOLDER}/{name}")]


def _forget(session: Session, dropped: set[str]) -> None:
    """Remove the definitions of dropped secondary and expression indexes."""
    definitions = load_index_definitions(session.ctx.storage)
    kept = {name: index for name, index in definitions.items() if name not in dropped or name in set(MetadataPartition)}
    if kept != definitions:
        session.ctx.storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions(kept))


def without_partitions(config: TableConfig, dropped: Collection[str]) -> TableConfig:
    """Return the settings after partitions are dropped."""
    return config.model_copy(
        update={
            "metadata_partitions": tuple(name for name in config.metadata_partitions if name not in dropped),
            "metadata_partitions_inflight": tuple(
                name for name in config.metadata_partitions_inflight if name not in dropped
            ),
        }
    )


def _listed(config: TableConfig) -> set[str]:
    return set(config.all_metadata_partitions)

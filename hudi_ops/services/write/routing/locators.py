"""Locators of record keys, for an index that does not compute file groups from keys."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.decide.complete import is_shared_table
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import newest_foreign_completion
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict, Unsupported
from hudi_ops.files.slice.slice_scan import SliceTask
from hudi_ops.index.base_keys import BaseFileLocator, KeyedGroup
from hudi_ops.index.locator import GroupName, Locator
from hudi_ops.index.record_lookup import RecordIndexLocator, RecordLookup
from hudi_ops.metadata.reader.layout import refuse_partitioned_record_index
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, rebuild_command
from hudi_ops.metadata.records.record_index import decoded_locations
from hudi_ops.read.prune import with_metadata
from hudi_ops.services.base.slices import live_slices, merging_of
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

logger = logging.getLogger(__name__)

_RECORD_INDEX = MetadataPartition.RECORD_INDEX

_READ_BEFORE_MS = 60_000
"""Bound of the time between a write's lookup of keys and its instant."""


def locator_of(
    session: Session, engine: Engine, state: TableState, slices: Sequence[Slice], schema: pa.Schema
) -> Locator:
    """Return the locator of a table's index, in one state.

    Args:
        slices: visible slices of every partition that rows go to.
        schema: the table's columns, without meta columns.

    Raises:
        Unsupported: the index cannot be read.
    """
    if state.log.properties.facts.index == "record_index":
        return RecordIndexLocator(_of_visible(session, state, slices, record_lookup_of(session, state)))
    groups = []
    # Flink and the Java client put new keys into log files, and begin groups with them; Spark and we put them into base files.
    foreign = newest_foreign_completion(session.commits, state)
    is_shared = any(slice_.logs for slice_ in slices) and is_shared_table(
        session, state, foreign, session.newest_extra(state)
    )
    for slice_ in slices:
        merged = SliceTask.of(session.ctx.storage, slice_, *merging_of(state, schema)) if slice_.logs else None
        name = GroupName(*slice_.key)
        base = slice_.base.path if slice_.base is not None else None
        groups.append(KeyedGroup(session.ctx.storage, name, base, merged, is_shared or _may_hold_more(state, slice_)))
    return BaseFileLocator(engine, groups)


def record_lookup_of(session: Session, state: TableState) -> RecordLookup:
    """Return the lookup in the record index of a table, as of one state.

    Raises:
        Unsupported: the table's metadata table has no record index that can be read.
        Conflict: an instant completed since the state was read, so the index is newer than the state.
        Unavailable: storage did not answer.
    """

    def with_index(opened: MetadataTable | None) -> MetadataTable:
        if opened is not None and opened.holds(_RECORD_INDEX):
            return opened
        refuse_partitioned_record_index(session.ctx.storage, state.config)
        raise Unsupported(
            "the record index, which locates the rows of this table, cannot be read",
            table=state.config.name,
            expected=f"the partition {_RECORD_INDEX} of its metadata table, with every completed write",
            found=", ".join(state.config.metadata_partitions) or "no metadata table",
            next_step=f"run {rebuild_command(_RECORD_INDEX)}, unless another process is building it now",
        )

    archived = session.commits.archived
    metadata = with_metadata(
        session.ctx.storage, state.config, state.timeline, "metadata", with_index, archived=archived
    )
    if not metadata.is_current:
        raise Conflict(
            "an instant completed while the record index was opened",
            table=state.config.name,
            expected="the table as it was read",
            next_step="run the same call again: it starts from the table as it is now",
        )

    def lookup(keys: pa.Array) -> pa.Table:
        return decoded_locations(metadata.lookup(_RECORD_INDEX, keys), f"{FOLDER}/{_RECORD_INDEX}")

    return lookup


def _of_visible(session: Session, state: TableState, slices: Sequence[Slice], lookup: RecordLookup) -> RecordLookup:
    """Return a lookup that leaves out file groups which readers do not see.

    The index keeps the record of a key that a log file deletes, if the delete may lose to a row elsewhere. A later write that
    replaces the group does not find the key among its rows, so the record stays.

    `slices` are all visible ones of some partitions; other partitions are listed when the index names them.
    """
    seen = {slice_.key for slice_ in slices}
    listed = {path for path, _ in seen}

    def visible(keys: pa.Array) -> pa.Table:
        found = lookup(keys)
        paths, ids = (found[name].cast(pa.string()) for name in ("partition_path", "file_id"))
        groups = pa.table({"path": paths, "id": ids}).group_by(["path", "id"]).aggregate([]).to_pylist()
        named = [(group["path"], group["id"]) for group in groups]
        elsewhere = sorted({path for path, _ in named} - listed)
        if elsewhere:
            seen.update(slice_.key for slice_ in live_slices(session, state, elsewhere))
            listed.update(elsewhere)
        for path, file_id in (key for key in named if key not in seen):
            logger.warning(
                "the record index names file group %s of partition %s, which no reader sees", file_id, path or "."
            )
            is_other = pc.invert(pc.and_(pc.equal(paths, path), pc.equal(ids, file_id)))
            found, paths, ids = (column.filter(is_other) for column in (found, paths, ids))
        return found

    return visible


def _may_hold_more(state: TableState, slice_: Slice) -> bool:
    """Return whether log files of a slice may hold keys that its base file lacks.

    A writer logs a row only if the base file has its key, perhaps deleted by an older log file. A compaction that merges that
    delete leaves the key out of the next base file; a row that was logged at the same time is then in a log file alone.
    """
    if slice_.base is None or not slice_.logs:
        return False
    made = state.timeline.find(slice_.base.instant)
    if made is None:
        return True  # archived, or very old: its completion time is unknown
    if made.kind != "commit":
        return False  # no compaction made it: a row logged at the same time was a conflict
    until = instant_of_ms(ms_of_instant(made.completion_time) + _READ_BEFORE_MS)
    return any(log.instant <= until for log in slice_.logs)

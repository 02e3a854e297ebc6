"""What is asked where keys are, in tables whose index does not tell it from the key."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict, Unsupported
from hudi_ops.files.slice.slice_scan import SliceTask
from hudi_ops.index.base_keys import BaseFileLocator, KeyedGroup
from hudi_ops.index.locator import GroupName, Locator
from hudi_ops.index.record_lookup import RecordIndexLocator, RecordLookup
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, build_again
from hudi_ops.metadata.records.record_index import decoded_locations
from hudi_ops.read.prune import with_metadata
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.base.slices import live_slices
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

logger = logging.getLogger(__name__)

_RECORD_INDEX = MetadataPartition.RECORD_INDEX

_SET_OUT_MS = 60_000
"""How long before its instant a write may have read the state that it looked its keys up in; a bound, not a measurement."""


def locator_of(
    session: Session, engine: Engine, state: TableState, slices: Sequence[Slice], schema: pa.Schema
) -> Locator:
    """The locator of a table's index, in one state.

    Args:
        session: the table.
        engine: runs its tasks.
        state: decides what is visible.
        slices: the visible ones of every partition that rows go to.
        schema: the table's columns, without meta columns.

    Raises:
        Unsupported: the index cannot be asked.
    """
    if state.log.properties.facts.index == "record_index":
        return RecordIndexLocator(_of_visible(session, state, slices, record_lookup_of(session, state)))
    groups = []
    for one in slices:
        if one.base is None:
            continue  # with these indexes no group begins with a log file
        merged = SliceTask.of(session.ctx.storage, one, *merging_of(state, schema)) if one.logs else None
        name = GroupName(one.partition_path, one.file_id)
        groups.append(KeyedGroup(session.ctx.storage, name, one.base.path, merged, _may_hold_more(state, one)))
    return BaseFileLocator(engine, groups)


def record_lookup_of(session: Session, state: TableState) -> RecordLookup:
    """What reads the record index of a table, as of one state of it.

    Raises:
        Unsupported: the table's metadata table has no record index that can be read.
        Conflict: something completed since the state was read, so that the index says where keys are now.
        Unavailable: storage did not answer.
    """

    def with_index(opened: MetadataTable | None) -> MetadataTable:
        if opened is not None and opened.holds(_RECORD_INDEX):
            return opened
        raise Unsupported(
            "rows of this table go where its record index says, and it has none that can be read",
            table=state.config.name,
            expected=f"the partition {_RECORD_INDEX} of its metadata table, with every completed write",
            found=", ".join(state.config.metadata_partitions) or "no metadata table",
            next_step=f"run {build_again(_RECORD_INDEX)}, unless somebody is at it at this moment",
        )

    archived = session.commits.archived
    metadata = with_metadata(
        session.ctx.storage, state.config, state.timeline, "metadata", with_index, archived=archived
    )
    if not metadata.is_current:
        raise Conflict(
            "something completed while the record index was opened",
            table=state.config.name,
            expected="the table as it was read",
            next_step="run the same call again: it starts from the table as it is now",
        )

    def lookup(keys: pa.Array) -> pa.Table:
        return decoded_locations(metadata.lookup(_RECORD_INDEX, keys), f"{FOLDER}/{_RECORD_INDEX}")

    return lookup


def _of_visible(session: Session, state: TableState, slices: Sequence[Slice], lookup: RecordLookup) -> RecordLookup:
    """Places in file groups that readers see; a key in another one is nowhere.

    A delete in a log file that may lose to a row elsewhere leaves the key's record. When its group is replaced later, nobody finds
    the key in the group's rows, and the record outlives it.

    Args:
        session: the table.
        state: decides what is visible.
        slices: the visible ones of some partitions, whole; others are listed when a key is said to lie there.
        lookup: reads the record index.
    """
    seen = {(one.partition_path, one.file_id) for one in slices}
    listed = {path for path, _ in seen}

    def visible(keys: pa.Array) -> pa.Table:
        told = lookup(keys)
        paths, ids = (told[name].cast(pa.string()) for name in ("partition_path", "file_id"))
        places = pa.table({"path": paths, "id": ids}).group_by(["path", "id"]).aggregate([]).to_pylist()
        named = [(one["path"], one["id"]) for one in places]
        elsewhere = sorted({path for path, _ in named} - listed)
        if elsewhere:
            seen.update((one.partition_path, one.file_id) for one in live_slices(session, state, elsewhere))
            listed.update(elsewhere)
        for path, file_id in (one for one in named if one not in seen):
            logger.warning(
                "the record index names file group %s of partition %s, which no reader sees", file_id, path or "."
            )
            is_there = pc.and_(pc.equal(paths, path), pc.equal(ids, file_id))
            told, paths, ids = (one.filter(pc.invert(is_there)) for one in (told, paths, ids))
        return told

    return visible


def _may_hold_more(state: TableState, one: Slice) -> bool:
    """Whether log files of a slice may hold keys that its base file does not.

    A writer logs a row only where the base file has its key, perhaps deleted by an older log file. A compaction that merges that
    delete leaves the key out of the next base file, and a row that was logged meanwhile lies upon it: then in the log alone.
    """
    if one.base is None or not one.logs:
        return False
    made = state.timeline.find(one.base.instant)
    if made is None:
        return True  # archived, or very old: when it completed is not known
    if made.kind != "commit":
        return False  # no compaction made it: what was logged meanwhile was a conflict
    until = instant_of_ms(ms_of_instant(made.completion_time) + _SET_OUT_MS)
    return any(log.instant <= until for log in one.logs)

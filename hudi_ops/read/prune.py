"""Exclude partitions and file groups from a read by the metadata table's indexes.

An index may exclude a file group or a partition only if its entry is certainly right:
- An entry about a file is right at any time.
- An entry about a partition or a key is right only now. It is used only to read the newest state of the table, and only if the
  metadata table is not newer than the timeline that was read.
- The record index is complete only if writers find keys by it: if a table uses another index, Apache Hudi's writers leave keys out.

Source: docs/format.md §14.7.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeVar

import numpy as np
import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import IndexKind, TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Corrupt, Unavailable
from hudi_ops.kernels.condition import Condition, both, member
from hudi_ops.metadata.prune.bounds import possible_files, possible_partitions
from hudi_ops.metadata.prune.key_places import files_for_keys, groups_of_keys, keys_of_values
from hudi_ops.metadata.reader.listing import ListingChoice
from hudi_ops.metadata.reader.table import MetadataTable, open_metadata
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.log.unique_keys import why_doubtful
from hudi_ops.timeline.settings.properties_file import folded_slot
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns, Flags
from hudi_ops.view.columns.slices import NO_BASE, SliceColumns
from hudi_ops.view.listing import Keep, Listing

logger = logging.getLogger(__name__)

FEW_GROUPS = 4
"""If the record index names at most this many file groups, statistics are not read: the files' footers take less time."""

KEYS_BY_VALUE_MAX = 10_000
"""Largest number of record keys to take from a secondary index; of more keys, most file groups contain one."""

TRIES = 2
"""Attempts to read the metadata table before a read continues without it."""

Used = TypeVar("Used")


@dataclass(frozen=True)
class Sought:
    """Request of a read to the indexes.

    Attributes:
        schema: the table's columns, meta columns first.
        keys: the only record keys that wanted rows can have; None: any key.
        values: the only texts that wanted rows can have in the column of a secondary index, by the index's name.
        by_path: returns for partition paths whether they may hold wanted rows; None: all may.
        may_prune_folders: whether `by_path` may be called for folders above partitions.
        is_newest: whether the newest state of the table is wanted.
        told_by_path: columns that files may lack, since paths hold their values: statistics of these columns are ignored.
    """

    schema: pa.Schema
    condition: Condition | None
    keys: tuple[str, ...] | None
    by_path: Keep | None = None
    may_prune_folders: bool = False
    is_newest: bool = True
    told_by_path: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def asks(self) -> bool:
        """Whether partitions or file groups can be left out."""
        return self.condition is not None or self.keys is not None

    @property
    def bounded(self) -> Condition | None:
        """Return the condition for statistics, with the record keys if they are known."""
        if self.condition is None or self.keys is None or RECORD_KEY in self.condition.columns or not self.keys:
            return self.condition
        return (
            both(self.condition, member(RECORD_KEY, self.keys)) if RECORD_KEY in self.schema.names else self.condition
        )


@dataclass(frozen=True)
class LeftOut:
    """Counts of what the metadata table excluded, and the source of the listing.

    Attributes:
        listing: source of the file listing: `storage`, `metadata`, or `view`.
        partitions_by_statistics: partitions whose statistics exclude every row.
        partitions_by_record_index: partitions without one of the record keys.
        groups_by_statistics: file groups whose files' statistics exclude every row.
        groups_by_record_index: file groups without one of the record keys.
        groups_by_bloom_filters: file groups whose base file has none of the record keys, and no log files.
        base_files: base files of the file groups that were left out.
        record_index_unused: why the table's record index was not used for the record keys; empty: it was, or the read does not
            need keys.
        located_by: the secondary index that returned the record keys; empty: the condition named them.
    """

    listing: str = "storage"
    partitions_by_statistics: int = 0
    partitions_by_record_index: int = 0
    groups_by_statistics: int = 0
    groups_by_record_index: int = 0
    groups_by_bloom_filters: int = 0
    base_files: int = 0
    record_index_unused: str = ""
    located_by: str = ""


NOTHING_LEFT_OUT = LeftOut()


@dataclass(frozen=True)
class Chosen:
    """The slices to read, and what was left out.

    Attributes:
        slices: by partition and file id.
        partitions: partition paths whose files were listed.
        skipped: partitions, and folders with all partitions below, that were left out.
        left_out: how much each index left out.
    """

    slices: SliceColumns
    partitions: tuple[str, ...]
    skipped: tuple[str, ...]
    left_out: LeftOut


def choose_slices(
    listing: Listing,
    visible: Callable[[FileColumns], SliceColumns],
    sought: Sought,
    metadata: MetadataTable | None,
    why_unused: Callable[[], str],
) -> Chosen:
    """List a table; leave out partitions and file groups that cannot hold a wanted row.

    Without `metadata` only partitions are left out, by their paths. `why_unused` returns why the record index may lack rows of a
    key; empty: it lacks none.
    """
    current = metadata if metadata is not None and sought.is_newest and sought.asks and metadata.is_current else None
    located, unused, located_by = None, "", ""
    needs_keys = sought.keys is not None or bool(sought.values)
    if metadata is not None and needs_keys and metadata.holds(MetadataPartition.RECORD_INDEX):
        unused = why_unused() if current is not None else "it tells of the newest state, not of the one that is read"
        if current is not None and not unused:
            located_by, keys = ("", sought.keys) if sought.keys is not None else _keys_by_value(current, sought)
            located = groups_of_keys(current, keys) if keys is not None else None
    asks_statistics = located is None or len(located) > FEW_GROUPS
    partitions = _Partitions(sought, current if asks_statistics else None, located)
    walked = listing.walk(partitions.keep if partitions.asks else None, may_prune_folders=sought.may_prune_folders)
    slices = visible(walked.files)
    left_out = LeftOut(
        listing.source,
        partitions_by_statistics=len(partitions.by_statistics & set(walked.skipped)),
        partitions_by_record_index=len(partitions.by_record_index & set(walked.skipped)),
        record_index_unused=unused,
        located_by=located_by,
    )
    if located is not None:
        are_located, missing = slices.are_of(located)
        strange = [one for one in missing if one[0] not in partitions.skipped]
        if strange:
            logger.warning(
                "the record index names file groups that are not there, the first %s: it is not used", strange[0]
            )
            chosen = choose_slices(listing, visible, replace(sought, keys=None, values={}), metadata, why_unused)
            why = f"it names file group {strange[0][1]} of partition {strange[0][0] or '.'}, which is not there"
            return replace(chosen, left_out=replace(chosen.left_out, record_index_unused=why))
        slices, dropped = _split(slices, are_located)
        left_out = replace(left_out, groups_by_record_index=len(dropped), base_files=dropped.base_count)
    elif metadata is not None and sought.keys is not None:
        slices, left_out = _by_bloom_filters(metadata, slices, sought.keys, left_out)
    if metadata is not None and asks_statistics:
        slices, left_out = by_statistics(metadata, slices, sought, left_out)
    return Chosen(slices, walked.files.partitions, walked.skipped, left_out)


def why_index_unused(storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader) -> str:
    """Return why the record index may lack rows of a key; empty if it lacks none.

    Apache Hudi does not store which index writers use, and a record index in the metadata table does not prove that they use it:
    slot 0 of the commit log holds the index. A second reason: for a key in two file groups the record index names only one.
    """
    try:
        first = read_slot(storage, 0)
        if reason := _of_index(first.facts.index if isinstance(first, Properties) else None):
            return reason
        slot = folded_slot(config.raw) or 0

        def counted() -> Properties | None:
            entry = read_slot(storage, slot) if slot else first
            return entry if isinstance(entry, Properties) and entry.doubled_keys is not None else None

        return why_doubtful(commits, timeline, counted)
    except Corrupt as error:
        logger.warning("the table's index is not known: %s", error)
        return _of_index(None)


def why_values_unused(timeline: Timeline, commits: CommitReader) -> str:
    """Return why secondary indexes may lack entries; empty if they do not.

    Apache Hudi adds no entries in a bulk insert, and not always for rows in log files (docs/format.md §14.11). The newest write
    records whether a foreign writer has ever written the table.
    """
    try:
        is_ours_alone = commits.is_ours_alone(timeline)
    except Corrupt as error:
        return f"the newest write cannot be read: {error.what}"
    return "" if is_ours_alone else "another program has written the table, and may have left entries out"


def by_statistics(
    metadata: MetadataTable, slices: SliceColumns, sought: Sought, left_out: LeftOut
) -> tuple[SliceColumns, LeftOut]:
    """Leave out the slices without a file that can hold a wanted row, by `column_stats`.

    Each row of a slice is complete in one of its files. A file without statistics keeps its slice.
    """
    condition, partition = sought.bounded, MetadataPartition.COLUMN_STATS
    if condition is None or not len(slices) or not _speaks(metadata, partition, condition):
        return slices, left_out
    files = slices.files.named(slices.rows)
    owner = np.concatenate([
        np.flatnonzero(slices.bases != NO_BASE),
        np.repeat(np.arange(len(slices)), slices.log_counts),
    ])
    may_hold = possible_files(metadata, condition, files, sought.schema, unasked=sought.told_by_path)
    is_kept = np.zeros(len(slices), bool)
    is_kept[owner[may_hold]] = True
    kept, dropped = _split(slices, is_kept)
    count = left_out.groups_by_statistics + len(dropped)
    return kept, replace(left_out, groups_by_statistics=count, base_files=left_out.base_files + dropped.base_count)


def with_metadata(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    listing: ListingChoice,
    use: Callable[[MetadataTable | None], Used],
    engine: LocalEngine | None = None,
    archived: ArchivedTimes | None = None,
) -> Used:
    """Call `use` with the metadata table or None; retry once if its files cannot be read.

    A clean of the metadata table may remove base files during the read; the second attempt finds the newer ones. If it fails, too,
    `use` is called with None, unless `listing` is `metadata`. With `storage` the metadata table is never used. `timeline` must be
    read before the call.

    Raises:
        Unavailable: storage did not answer.
        Unsupported: `listing` is `metadata`, and the table has no metadata table.
    """
    for _ in range(TRIES if listing != "storage" else 0):
        metadata = open_metadata(storage, config, timeline, engine, archived)
        try:
            return use(metadata)
        except Unavailable as error:
            if metadata is None:
                raise
            failed = error
            logger.warning("the metadata table could not be read: %s", error)
    if listing == "metadata":
        raise failed
    return use(None)


class _Partitions:
    """Choose the partitions to read: by their paths, the record index, then statistics."""

    def __init__(
        self, sought: Sought, current: MetadataTable | None, located: frozenset[tuple[str, str]] | None
    ) -> None:
        self._sought = sought
        self._condition = sought.bounded
        has_statistics = current is not None and _speaks(current, MetadataPartition.PARTITION_STATS, self._condition)
        self._statistics = current if has_statistics else None
        self._located = None if located is None else frozenset(path for path, _ in located)
        self.skipped: set[str] = set()
        self.by_statistics: set[str] = set()
        self.by_record_index: set[str] = set()

    @property
    def asks(self) -> bool:
        """Whether anything can be left out."""
        return not (self._sought.by_path is None and self._statistics is None and self._located is None)

    def keep(self, paths: Sequence[str]) -> list[bool]:
        """Return for each path whether it, or a partition below it, may hold wanted rows."""
        kept = list(paths)
        if self._sought.by_path is not None and kept:
            kept = list(compress(kept, self._sought.by_path(kept)))
        if self._located is not None:
            found = [path for path in kept if _is_above(path, self._located)]
            self.by_record_index.update(set(kept) - set(found))
            kept = found
        if self._statistics is not None and self._condition is not None and kept:
            unasked = self._sought.told_by_path
            may_hold = possible_partitions(
                self._statistics, self._condition, kept, self._sought.schema, unasked=unasked
            )
            found = list(compress(kept, may_hold))
            self.by_statistics.update(set(kept) - set(found))
            kept = found
        self.skipped.update(set(paths) - set(kept))
        wanted = frozenset(kept)
        return [path in wanted for path in paths]


def _keys_by_value(metadata: MetadataTable, sought: Sought) -> tuple[str, tuple[str, ...] | None]:
    """Return the secondary index that returns the fewest record keys, and these keys.

    The keys are None if there are more than `KEYS_BY_VALUE_MAX`, or no such index.
    """
    found = {
        name: keys_of_values(metadata, name, values) for name, values in sought.values.items() if metadata.holds(name)
    }
    name = min(found, key=lambda one: len(found[one]), default="")
    if not name or len(found[name]) > KEYS_BY_VALUE_MAX:
        return "", None
    return name, found[name]


def _of_index(index: IndexKind | None) -> str:
    if index == "record_index":
        return ""
    if index in {None, "other"}:
        return "nothing says that all writers find keys by it, and others may leave keys out of it"
    name = "bucket" if index.endswith("_bucket") else index
    return (
        f"the table's index is {name}, and writers that do not find keys by the record index may leave keys out of it"
    )


def _speaks(metadata: MetadataTable, partition: str, condition: Condition | None) -> bool:
    return condition is not None and bool(condition.columns) and metadata.holds(partition)


def _is_above(path: str, partitions: Iterable[str]) -> bool:
    return any(one == path or one.startswith(f"{path}/") for one in partitions)


def _by_bloom_filters(
    metadata: MetadataTable, slices: SliceColumns, keys: Sequence[str], left_out: LeftOut
) -> tuple[SliceColumns, LeftOut]:
    """Leave out slices whose bloom filter excludes all keys; slices with log files are kept."""
    alone = np.flatnonzero((slices.bases != NO_BASE) & (slices.log_counts == 0))
    if not len(alone) or not metadata.holds(MetadataPartition.BLOOM_FILTERS):
        return slices, left_out
    is_kept = np.ones(len(slices), bool)
    is_kept[alone] = files_for_keys(metadata, slices.files.named(slices.bases[alone]), keys)
    kept, dropped = _split(slices, is_kept)
    return kept, replace(left_out, groups_by_bloom_filters=len(dropped), base_files=dropped.base_count)


def _split(slices: SliceColumns, is_kept: Flags) -> tuple[SliceColumns, SliceColumns]:
    return slices.filter(is_kept), slices.filter(~is_kept)

"""Exclude partitions and file groups from a read by the metadata table's indexes.

Only what is certain leaves something out. What an index says of a file holds at any time. What it says of a partition or of a key
holds now: it is asked only for the newest state of the table, and only when the metadata table is not ahead of what was read. And
a record index is whole only where writers find keys by it: beside another index Apache Hudi's writers leave keys out.

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
from hudi_ops.timeline.log.commit_log import Pointer, read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.log.unique_keys import why_doubtful
from hudi_ops.timeline.settings.properties_file import folded_slot
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import Keep, Listing
from hudi_ops.view.slices import Slice

logger = logging.getLogger(__name__)

FEW_GROUPS = 4
"""So few file groups, named by the record index, are read without asking statistics, which takes longer than their footers."""

KEYS_BY_VALUE_MAX = 10_000
"""With more rows than these of one value, most file groups hold one of them."""

TRIES = 2
"""How often the metadata table is opened, before a read goes without it."""

Used = TypeVar("Used")


@dataclass(frozen=True)
class Sought:
    """What a read wants, as far as indexes can tell of it.

    Attributes:
        schema: the table's columns, meta columns first.
        keys: record keys of which each wanted row has one; None when nothing is known.
        values: texts of which each wanted row has one in the column of a secondary index, by the index's name.
        may_prune_folders: whether `by_path` may be asked of folders above partitions.
        is_newest: whether the newest state of the table is wanted.
        told_by_path: columns that no file need hold: what statistics say of them is not believed.
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
    def bounded(self) -> Condition | None:
        """Return the condition for statistics, with the record keys where they are known."""
        if self.condition is None or self.keys is None or RECORD_KEY in self.condition.columns or not self.keys:
            return self.condition
        return (
            both(self.condition, member(RECORD_KEY, self.keys)) if RECORD_KEY in self.schema.names else self.condition
        )


@dataclass(frozen=True)
class LeftOut:
    """What the metadata table left out, and whether it listed the table.

    Attributes:
        listing: who said which files there are: `storage` or `metadata`.
        partitions_by_statistics: partitions whose statistics exclude every row.
        partitions_by_record_index: partitions without one of the record keys.
        groups_by_statistics: file groups whose files' statistics exclude every row.
        groups_by_record_index: file groups without one of the record keys.
        groups_by_bloom_filters: file groups whose base file has none of the record keys, and no log files.
        base_files: base files of those groups.
        record_index_unused: why the table's record index was not used for the record keys; empty: it was, or the read does not
            need keys.
        located_by: the secondary index that told the record keys; empty: the read named them.
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
    """The slices to read, and how they were come by.

    Attributes:
        slices: by partition and file id.
        partitions: partition paths that were looked into.
        skipped: partitions, and folders with all partitions below, that were left out.
        left_out: by which index.
    """

    slices: tuple[Slice, ...]
    partitions: tuple[str, ...]
    skipped: tuple[str, ...]
    left_out: LeftOut


def choose_slices(
    listing: Listing,
    visible: Callable[[dict[str, list[DataFile]]], Sequence[Slice]],
    sought: Sought,
    metadata: MetadataTable | None,
    why_unused: Callable[[], str],
) -> Chosen:
    """List a table, and leave out what cannot hold a wanted row.

    Without `metadata` only partitions are left out, by their paths. `why_unused` returns why the record index does not know every
    row of a key; empty: it does.
    """
    current = metadata if metadata is not None and sought.is_newest and _asks(sought) and metadata.is_current else None
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
    slices = list(visible(walked.files))
    left_out = LeftOut(
        listing.source,
        partitions_by_statistics=len(partitions.by_statistics & set(walked.skipped)),
        partitions_by_record_index=len(partitions.by_record_index & set(walked.skipped)),
        record_index_unused=unused,
        located_by=located_by,
    )
    if located is not None:
        seen = {(one.partition_path, one.file_id) for one in slices}
        strange = [one for one in located if one not in seen and one[0] not in partitions.skipped]
        if strange:
            logger.warning(
                "the record index names file groups that are not there, the first %s: it is not used", strange[0]
            )
            chosen = choose_slices(listing, visible, replace(sought, keys=None, values={}), metadata, why_unused)
            why = f"it names file group {strange[0][1]} of partition {strange[0][0] or '.'}, which is not there"
            return replace(chosen, left_out=replace(chosen.left_out, record_index_unused=why))
        slices, dropped = _split(slices, [(one.partition_path, one.file_id) in located for one in slices])
        left_out = replace(left_out, groups_by_record_index=len(dropped), base_files=_bases(dropped))
    elif metadata is not None and sought.keys is not None:
        slices, left_out = _by_bloom_filters(metadata, slices, sought.keys, left_out)
    if metadata is not None and asks_statistics:
        slices, left_out = by_statistics(metadata, slices, sought, left_out)
    return Chosen(tuple(slices), tuple(walked.files), walked.skipped, left_out)


def why_index_unused(storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader) -> str:
    """Return why the record index does not know every row of a key; empty when it does.

    Apache Hudi stores no index, and a record index among the metadata table's partitions does not say that writers use it: slot 0
    of the commit log does. And of a key that lies in two file groups it names one.
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

    Apache Hudi adds none in a bulk insert, and not always for rows in log files (docs/format.md §14.11). The newest write says
    whether a foreign writer has ever written the table.
    """
    try:
        said = next(
            (one for each in timeline.newest_first if (one := commits.metadata(timeline, each)) is not None), None
        )
        pointer = Pointer.decode(said.extra) if said is not None else None
    except Corrupt as error:
        return f"the newest write cannot be read: {error.what}"
    is_ours_alone = said is None or (pointer is not None and pointer.shared is False)
    return "" if is_ours_alone else "another program has written the table, and may have left entries out"


def by_statistics(
    metadata: MetadataTable, slices: Sequence[Slice], sought: Sought, left_out: LeftOut
) -> tuple[list[Slice], LeftOut]:
    """Leave out the slices of which no file can hold a wanted row, by `column_stats`.

    A row of a slice is whole in one of its files; one file without a record keeps the slice.
    """
    condition, partition = sought.bounded, MetadataPartition.COLUMN_STATS
    if condition is None or not slices or not _speaks(metadata, partition, condition):
        return list(slices), left_out
    files = [file for one in slices for file in (*((one.base,) if one.base is not None else ()), *one.logs)]
    owner = np.repeat(np.arange(len(slices)), [(one.base is not None) + len(one.logs) for one in slices])
    may_hold = possible_files(metadata, condition, files, sought.schema, unasked=sought.told_by_path)
    is_kept = np.zeros(len(slices), bool)
    is_kept[owner[may_hold]] = True
    kept, dropped = _split(slices, is_kept.tolist())
    count = left_out.groups_by_statistics + len(dropped)
    return kept, replace(left_out, groups_by_statistics=count, base_files=left_out.base_files + _bases(dropped))


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

    Its base files are replaced and cleaned as those of every table; a second look finds the newer ones. After that it is not used,
    unless `listing` is `metadata`; with `storage` it never is. `timeline` was read before.

    Raises:
        Unavailable: storage did not answer.
        Unsupported: listing by the metadata table was asked for, and there is none.
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
        """Whether partitions, or all partitions below folders, may hold wanted rows."""
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
    """Return the secondary index that leaves the fewest record keys, and these keys.

    None: they are too many.
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


def _asks(sought: Sought) -> bool:
    return sought.condition is not None or sought.keys is not None


def _speaks(metadata: MetadataTable, partition: str, condition: Condition | None) -> bool:
    return condition is not None and bool(condition.columns) and metadata.holds(partition)


def _is_above(path: str, partitions: Iterable[str]) -> bool:
    return any(one == path or one.startswith(f"{path}/") for one in partitions)


def _by_bloom_filters(
    metadata: MetadataTable, slices: Sequence[Slice], keys: Sequence[str], left_out: LeftOut
) -> tuple[list[Slice], LeftOut]:
    """Of log files there are no filters, so that slices with some stay."""
    files = [one.base for one in slices if one.base is not None and not one.logs]
    if not files or not metadata.holds(MetadataPartition.BLOOM_FILTERS):
        return list(slices), left_out
    excluded = {file.path for file, may in zip(files, files_for_keys(metadata, files, keys), strict=True) if not may}
    is_kept = [one.base is None or bool(one.logs) or one.base.path not in excluded for one in slices]
    kept, dropped = _split(slices, is_kept)
    return kept, replace(left_out, groups_by_bloom_filters=len(dropped), base_files=_bases(dropped))


def _split(slices: Sequence[Slice], is_kept: Sequence[bool]) -> tuple[list[Slice], list[Slice]]:
    return list(compress(slices, is_kept)), list(compress(slices, (not one for one in is_kept)))


def _bases(slices: Sequence[Slice]) -> int:
    return sum(one.base is not None for one in slices)

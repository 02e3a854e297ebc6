"""Exclude partitions and file groups from a read by the metadata table's indexes.

An index may exclude a file group or a partition only if its entry is certainly right:
- An entry about a file is right at any time.
- An entry about a partition or a key is right only now. It is used only to read the newest state of the table, and only if the
  metadata table is not newer than the timeline that was read.
- The record index is complete only if writers find keys by it: if a table uses another index, Apache Hudi's writers leave keys out.

Source: docs/format §14.7.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TypeVar

import numpy as np

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Unavailable
from hudi_ops.metadata.prune.bounds import possible_files, possible_partitions
from hudi_ops.metadata.prune.key_places import files_for_keys, groups_of_keys, keys_of_values
from hudi_ops.metadata.prune.sought import LeftOut, Sought
from hudi_ops.metadata.prune.worth import Worth
from hudi_ops.metadata.reader.listing import ListingChoice
from hudi_ops.metadata.reader.table import MetadataTable, open_metadata
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.read.fixed_keys import in_buckets
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.view.columns.files import FileColumns, Flags
from hudi_ops.view.columns.slices import NO_BASE, SliceColumns
from hudi_ops.view.listing import Listing, Walked

logger = logging.getLogger(__name__)

FEW_GROUPS = 4
"""If the record index names at most this many file groups, statistics are not read: the files' footers take less time."""

KEYS_BY_VALUE_MAX = 10_000
"""Largest number of record keys to take from a secondary index; of more keys, most file groups contain one."""

TRIES = 2
"""Attempts to read the metadata table before a read continues without it."""

Used = TypeVar("Used")


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

    Without `metadata` only partitions are left out, by their paths. An index is asked if that may take less time than reading what
    it can exclude. A listing that is whole is taken first, so that this is known. `why_unused` returns why the record index may
    lack rows of a key; empty: it lacks none.
    """
    walked, slices, others = None, None, None
    if listing.is_whole:
        walked = listing.walk(sought.by_path, may_prune_folders=sought.may_prune_folders)
        slices, others = _of_buckets(visible(walked.files), sought)
    worth = Worth(metadata, sought, slices) if metadata is not None and sought.asks_indexes else None
    current = worth if worth is not None and sought.is_newest and worth.metadata.is_current else None
    located, unused, located_by = _located(worth, current, why_unused)
    asks_statistics = located is None or len(located) > FEW_GROUPS
    partitions = _Partitions(sought, current if asks_statistics else None, located, walked)
    if walked is None or slices is None:
        keep = partitions.keep if partitions.asks else None
        walked = listing.walk(keep, may_prune_folders=sought.may_prune_folders)
        slices, others = _of_buckets(visible(walked.files), sought)
    else:
        walked, slices = partitions.left(walked, slices)
    left_out = LeftOut(
        listing.source,
        partitions_by_statistics=len(partitions.by_statistics & set(walked.skipped)),
        partitions_by_record_index=len(partitions.by_record_index & set(walked.skipped)),
        record_index_unused=unused,
        located_by=located_by,
        groups_by_bucket=len(others) if others is not None else 0,
        base_files=others.base_count if others is not None else 0,
    )
    if located is not None:
        are_located, missing = slices.are_of(located)
        strange = [one for one in missing if one[0] not in partitions.skipped]
        if strange:
            logger.warning(
                "the record index names file groups that are not there, the first %s: it is not used", strange[0]
            )
            chosen = choose_slices(
                listing, visible, replace(sought, keys=None, values={}, buckets=None), metadata, why_unused
            )
            why = f"it names file group {strange[0][1]} of partition {strange[0][0] or '.'}, which is not there"
            return replace(chosen, left_out=replace(chosen.left_out, record_index_unused=why))
        slices, dropped = _split(slices, are_located)
        base_files = left_out.base_files + dropped.base_count
        left_out = replace(left_out, groups_by_record_index=len(dropped), base_files=base_files)
    elif worth is not None and sought.keys is not None:
        slices, left_out = _by_bloom_filters(worth.of(slices), slices, sought.keys, left_out)
    if metadata is not None and asks_statistics:
        slices, left_out = by_statistics(metadata, slices, sought, left_out)
    return Chosen(slices, walked.files.partitions, walked.skipped, left_out)


def _located(
    worth: Worth | None, current: Worth | None, why_unused: Callable[[], str]
) -> tuple[frozenset[tuple[str, str]] | None, str, str]:
    """Return the file groups of the wanted keys, None if they are not known.

    With them: why the index was not asked, and the index that returned the keys.
    """
    if worth is None or not (worth.sought.keys is not None or worth.sought.values):
        return None, "", ""
    sought, partition = worth.sought, MetadataPartition.RECORD_INDEX
    if not worth.pays(partition, len(sought.keys or ("",)), by_key=True):
        return None, "", ""
    unused = why_unused() if current is not None else "it tells of the newest state, not of the one that is read"
    if current is None or unused:
        return None, unused, ""
    name, keys = ("", sought.keys) if sought.keys is not None else _keys_by_value(current.metadata, sought)
    return (groups_of_keys(current.metadata, keys) if keys is not None else None), "", name


def by_statistics(
    metadata: MetadataTable, slices: SliceColumns, sought: Sought, left_out: LeftOut
) -> tuple[SliceColumns, LeftOut]:
    """Leave out the slices without a file that can hold a wanted row, by `column_stats`.

    Each row of a slice is complete in one of its files. A file without statistics keeps its slice.
    """
    condition, partition = sought.bounded, MetadataPartition.COLUMN_STATS
    records = len(slices.rows) * len(condition.columns) if condition is not None else 0
    if condition is None or not records or not Worth(metadata, sought, slices).pays(partition, records):
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
    """Choose the partitions to read: by their paths, the record index, then statistics.

    `walked` are those that the paths leave; None: they are not listed yet.
    """

    def __init__(
        self,
        sought: Sought,
        current: Worth | None,
        located: frozenset[tuple[str, str]] | None,
        walked: Walked | None,
    ) -> None:
        self._sought = sought
        self._by_path = sought.by_path if walked is None else None
        self._condition = sought.bounded
        partition, columns = MetadataPartition.PARTITION_STATS, self._condition.columns if self._condition else ()
        records = len(columns) * (len(walked.files.partitions) if walked is not None else 1)
        has_statistics = current is not None and bool(records) and current.pays(partition, records)
        self._statistics = current.metadata if current is not None and has_statistics else None
        self._located = None if located is None else frozenset(path for path, _ in located)
        self.skipped: set[str] = set()
        if walked is not None:
            self.skipped.update(walked.skipped)
            self.skipped.update(path for path in self._located or () if _is_below(path, walked.skipped))
        self.by_statistics: set[str] = set()
        self.by_record_index: set[str] = set()

    @property
    def asks(self) -> bool:
        """Whether anything can be left out."""
        return not (self._by_path is None and self._statistics is None and self._located is None)

    def keep(self, paths: Sequence[str]) -> list[bool]:
        """Return for each path whether it, or a partition below it, may hold wanted rows."""
        kept = list(paths)
        if self._by_path is not None and kept:
            kept = list(compress(kept, self._by_path(kept)))
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

    def left(self, walked: Walked, slices: SliceColumns) -> tuple[Walked, SliceColumns]:
        """Return the listed partitions that may hold wanted rows, and their slices."""
        if not self.asks or not walked.files.partitions:
            return walked, slices
        paths = walked.files.partitions
        kept = frozenset(compress(paths, self.keep(paths)))
        files = walked.files.of_partitions([path for path in paths if path in kept])
        own = np.array([path in kept for path in slices.files.partitions], bool)
        is_kept = own[slices.files.partition_of[slices.firsts]] if len(own) else np.ones(len(slices), bool)
        return Walked(files, tuple(sorted({*walked.skipped, *(set(paths) - kept)}))), slices.filter(is_kept)


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


def _is_above(path: str, partitions: Iterable[str]) -> bool:
    return any(one == path or one.startswith(f"{path}/") for one in partitions)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _by_bloom_filters(
    worth: Worth, slices: SliceColumns, keys: Sequence[str], left_out: LeftOut
) -> tuple[SliceColumns, LeftOut]:
    """Leave out slices whose bloom filter excludes all keys; slices with log files are kept."""
    alone = np.flatnonzero((slices.bases != NO_BASE) & (slices.log_counts == 0))
    if not len(alone) or not worth.pays(MetadataPartition.BLOOM_FILTERS, len(alone)):
        return slices, left_out
    is_kept = np.ones(len(slices), bool)
    is_kept[alone] = files_for_keys(worth.metadata, slices.files.named(slices.bases[alone]), keys)
    kept, dropped = _split(slices, is_kept)
    base_files = left_out.base_files + dropped.base_count
    return kept, replace(left_out, groups_by_bloom_filters=len(dropped), base_files=base_files)


def _of_buckets(slices: SliceColumns, sought: Sought) -> tuple[SliceColumns, SliceColumns | None]:
    """Return the slices whose bucket can hold a wanted key, and the others.

    None: there are no others.
    """
    return _split(slices, in_buckets(slices, sought.buckets)) if sought.buckets is not None else (slices, None)


def _split(slices: SliceColumns, is_kept: Flags) -> tuple[SliceColumns, SliceColumns]:
    return slices.filter(is_kept), slices.filter(~is_kept)

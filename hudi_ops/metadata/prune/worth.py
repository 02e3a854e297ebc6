"""Estimate whether asking an index takes less time than it can save.

Times are rough: only their ratio decides, and rows never depend on the decision. What an index can save is the reading of the files
that it excludes. Footers exclude the same row groups of a base file as `column_stats`, so of a base file without log files the
index saves no more than opening it. A slice with log files is merged even where footers exclude all of its base file: there the
index saves reading the log files and the keys of the base file.

Source: profiles of reads of the table of benchmarks/read on a local disk; 15 ms a request to an object store is an assumption.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.metadata.prune.sought import Sought
from hudi_ops.metadata.reader.slice_files import WHOLE_BYTES
from hudi_ops.metadata.reader.slices import MetadataSlice
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.columns.slices import NO_BASE, SliceColumns
from hudi_ops.view.listing import is_near

QUESTION_US = 12_000
"""Opening the metadata table, then decoding and folding the records of one question, however few they are."""

_FILE_US = 1_000
"""Parsing the footer of a data file, or the frame of a file of the metadata table."""
_FILTER_BYTE_NS = 0.2
"""Decoding the bloom filter in the footer of a base file, for each byte of the file: filters grow with the number of rows."""
_RECORD_US = 4
_KEY_SHARE = 0.25
"""Share of a base file that its keys and ordering values take."""
_PROBED = 3
_OF_KEYS = frozenset({MetadataPartition.RECORD_INDEX, MetadataPartition.BLOOM_FILTERS})
_STATISTICS = frozenset({MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS})


@dataclass(frozen=True)
class _Speed:
    """Time of one request in microseconds, and of reading one byte in nanoseconds."""

    call_us: float
    byte_ns: float

    @classmethod
    def of(cls, storage: Storage) -> _Speed:
        return cls(100, 4) if is_near(storage.uri) else cls(15_000, 25)


def asking_us(storage: Storage, held: tuple[MetadataSlice, ...], records: int, *, by_key: bool = False) -> float:
    """Return the time of looking up some records of a partition of the metadata table.

    `by_key`: each record is in the one file group that its key hashes to.
    """
    speed, files = _Speed.of(storage), [file for slice_ in held for file in slice_.files]
    share = min(1.0, records / max(1, len(held))) if by_key else 1.0
    read_bytes = sum(min(file.size_bytes, WHOLE_BYTES) for file in files)
    of_files = len(files) * (_FILE_US + speed.call_us) + read_bytes * speed.byte_ns / 1_000
    return QUESTION_US + share * of_files + records * _RECORD_US


def saved_us(storage: Storage, slices: SliceColumns, sought: Sought) -> float:
    """Return the time of a read that an index saves at most, if it excludes all of these slices."""
    speed = _Speed.of(storage)
    filters_us, per_base = 0.0, _FILE_US + 2 * speed.call_us
    read_bytes = float(slices.log_bytes.sum())
    if sought.values:  # footers exclude little by a value, so that all rows would be read
        read_bytes += float(slices.base_bytes.sum())
    elif sought.keys is not None:  # the filter of a base file mostly says that it has none of the keys
        filters_us = float(slices.base_bytes.sum()) * _FILTER_BYTE_NS / 1_000
    else:
        read_bytes += _KEY_SHARE * float(slices.base_bytes[slices.log_counts > 0].sum())
    opened = slices.base_count * per_base + len(slices.logs) * (_FILE_US + speed.call_us)
    # Not divided by the threads that open files: most of this work holds the interpreter's lock.
    return opened + filters_us + read_bytes * speed.byte_ns / 1_000


def may_pay(storage: Storage, slices: SliceColumns, sought: Sought, partitions: Collection[str]) -> bool:
    """Return whether some index could pay, before the metadata table is opened."""
    if sought.decision == "always":
        return sought.asks
    saved, least = saved_us(storage, slices, sought), QUESTION_US + _FILE_US
    if not sought.asks_indexes or saved <= least:
        return False
    if (sought.keys is not None or sought.values) and not _OF_KEYS.isdisjoint(partitions):
        return True
    return not _STATISTICS.isdisjoint(partitions) and saved * excluded_share(storage, slices, sought) > least


def excluded_share(storage: Storage, slices: SliceColumns, sought: Sought) -> float:
    """Return the share of a few base files that their footers exclude; 1 if no file tells.

    If rows are not clustered by the columns of the condition, neither footers nor statistics of files and partitions exclude any.
    """
    condition, places = sought.bounded, np.flatnonzero(slices.bases != NO_BASE)
    if condition is None or not len(places) or set(condition.columns) & set(sought.told_by_path):
        return 1.0
    chosen = np.unique(places[np.linspace(0, len(places) - 1, _PROBED).astype(np.int64)])
    columns = tuple(dict.fromkeys(condition.columns))
    schema = pa.schema([field for field in sought.schema if field.name in columns])
    told = []
    for file in slices.files.data_files(slices.bases[chosen]):
        try:
            scan = FileScan(FileTask(storage, file.path, file.size_bytes, schema, columns, condition))
        except (Corrupt, NotFound):
            continue  # a read that needs the file raises the error
        told.append(not scan.row_groups)
    return sum(told) / len(told) if told else 1.0


@dataclass(frozen=True)
class Worth:
    """Decides which partitions of the metadata table a read asks.

    Attributes:
        slices: those that an index may exclude; None: not listed yet, as in tables of which even the list of files is large.
    """

    metadata: MetadataTable
    sought: Sought
    slices: SliceColumns | None

    def of(self, slices: SliceColumns) -> Worth:
        """Return the same for the slices that are left."""
        return replace(self, slices=slices)

    def pays(self, partition: str, records: int, *, by_key: bool = False) -> bool:
        """Return whether to look up some records of a partition.

        `by_key`: each record is in the one file group that its key hashes to.
        """
        if not self.sought.asks_indexes or not self.metadata.holds(partition):
            return False
        if self.sought.decision == "always" or self.slices is None:
            return True
        storage = self.metadata.storage
        cost = asking_us(storage, self.metadata.slices(partition), records, by_key=by_key)
        saved = saved_us(storage, self.slices, self.sought)
        if cost >= saved or partition not in _STATISTICS:
            return cost < saved
        return cost < saved * excluded_share(storage, self.slices, self.sought)

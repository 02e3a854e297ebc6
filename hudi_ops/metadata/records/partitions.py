"""Partitions of a metadata table: folders, file groups, and the group of a key.

Source: docs/format.md §14.2, §14.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.keys.hashing import java_string_hash

FOLDER = ".hoodie/metadata"
"""Folder of a metadata table below its table's root: a merge-on-read table of its own."""

TIMELINE_FOLDER = f"{FOLDER}/.hoodie/timeline"
HISTORY_FOLDER = f"{TIMELINE_FOLDER}/history"


class MetadataPartition(StrEnum):
    """Partition that this library maintains: its folder, and its name in the properties."""

    FILES = "files"
    COLUMN_STATS = "column_stats"
    BLOOM_FILTERS = "bloom_filters"
    RECORD_INDEX = "record_index"
    PARTITION_STATS = "partition_stats"


@dataclass(frozen=True, slots=True)
class _Kind:
    prefix: str
    record_type: int
    groups: int


_KINDS = {
    MetadataPartition.FILES: _Kind("files-", 2, 1),
    MetadataPartition.COLUMN_STATS: _Kind("col-stats-", 3, 2),
    MetadataPartition.BLOOM_FILTERS: _Kind("bloom-filters-", 4, 4),
    MetadataPartition.RECORD_INDEX: _Kind("record-index-", 5, 10),
    MetadataPartition.PARTITION_STATS: _Kind("partition-stats-", 6, 1),
}
ALL_PARTITIONS_TYPE = 1
"""Record type of the one record in `files` that lists all partitions."""


def record_type(partition: MetadataPartition) -> int:
    """Return the value of `type` in its records."""
    return _KINDS[partition].record_type


def default_groups(partition: MetadataPartition) -> int:
    """Return the number of file groups of a new one, as in Apache Hudi."""
    return _KINDS[partition].groups


def group_id(partition: MetadataPartition, number: int) -> str:
    """Return the file id of a partition's file group: `col-stats-0001-0`."""
    return f"{_KINDS[partition].prefix}{number:04d}-0"


def group_numbers(keys: pa.Array | pa.ChunkedArray, groups: int) -> npt.NDArray[np.int64]:
    """Return the file group of each key: `abs(abs(hash) % groups)` (docs/format.md §14.5)."""
    # In 64 bits the absolute value of the least int is a number like any other; Java's second abs gives the same.
    return np.abs(java_string_hash(keys).astype(np.int64)) % groups


def rebuild_command(*names: str) -> str:
    """Return the command that repairs damaged or outdated partitions, or all, for errors."""
    return f"`hudi-ops metadata build {' '.join(('TABLE', *names))} --rebuild`"


def is_kept(name: str) -> bool:
    """Return whether this library maintains a partition, by its name in the properties."""
    return name in set(MetadataPartition)

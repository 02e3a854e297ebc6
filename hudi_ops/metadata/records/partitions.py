"""Partitions of a metadata table: folders, file groups, and the group of a key.

Source: docs/format §14.2, §14.5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.errors import Internal
from hudi_ops.kernels.keys.hashing import java_string_hash
from hudi_ops.metadata.records.keys import SECONDARY_V2, hashed_part

FOLDER = ".hoodie/metadata"
"""Folder of a metadata table below its table's root: a merge-on-read table of its own."""

TIMELINE_FOLDER = f"{FOLDER}/.hoodie/timeline"
HISTORY_FOLDER = f"{TIMELINE_FOLDER}/history"

KEEPS_INDEXES = "hoodie.metadata.enable=true and hoodie.metadata.auto.delete.partitions=false"
"""Settings with which a writer of Apache Hudi keeps indexes that its options do not name."""

SECONDARY_PREFIX: Final = "secondary_index_"
"""Beginning of the names of secondary indexes, each of which is a partition of its own."""


class MetadataPartition(StrEnum):
    """Partition that this library maintains: its folder, and its name in the properties.

    Secondary indexes, whose users name them, are maintained too.
    """

    FILES = "files"
    COLUMN_STATS = "column_stats"
    BLOOM_FILTERS = "bloom_filters"
    RECORD_INDEX = "record_index"
    PARTITION_STATS = "partition_stats"


@dataclass(frozen=True, slots=True)
class PartitionForm:
    """Form of a partition's files and records, found by the partition's name.

    Attributes:
        name: the partition's folder, and its name in the properties.
        prefix: beginning of the ids of its file groups.
        record_type: value of `type` in its records.
        field: field of a record that its records fill.
        groups: number of file groups of a new partition, as in Apache Hudi.
    """

    name: str
    prefix: str
    record_type: int
    field: str
    groups: int


_FORMS: dict[str, PartitionForm] = {
    form.name: form
    for form in (
        PartitionForm(MetadataPartition.FILES, "files-", 2, "filesystemMetadata", 1),
        PartitionForm(MetadataPartition.COLUMN_STATS, "col-stats-", 3, "ColumnStatsMetadata", 2),
        PartitionForm(MetadataPartition.BLOOM_FILTERS, "bloom-filters-", 4, "BloomFilterMetadata", 4),
        PartitionForm(MetadataPartition.RECORD_INDEX, "record-index-", 5, "recordIndexMetadata", 10),
        PartitionForm(MetadataPartition.PARTITION_STATS, "partition-stats-", 6, "ColumnStatsMetadata", 1),
    )
}
ALL_PARTITIONS_TYPE = 1
"""Record type of the one record in `files` that lists all partitions."""


def add_form(form: PartitionForm) -> None:
    """Add the form of one more partition, or do nothing if it was added before.

    Raises:
        Internal: the name has another form.
    """
    held = _FORMS.setdefault(form.name, form)
    if held != form:
        raise Internal(
            f"The partition {form.name} of metadata tables has two forms",
            expected=str(held),
            found=str(form),
            next_step="report this error with its text",
        )


def form_of(partition: str) -> PartitionForm:
    """Return the form of a partition that this library maintains.

    Raises:
        Internal: it maintains no partition of this name; check with `is_kept` first.
    """
    form = _FORMS.get(partition)
    if form is None and is_secondary(partition):
        return _secondary_form(partition)
    if form is None:
        raise Internal(
            f"The partition {partition} of metadata tables has no form",
            expected=f"one of {', '.join(_FORMS)}",
            found=partition,
            next_step="report this error with its text",
        )
    return form


def is_secondary(name: str) -> bool:
    """Return whether a partition is a secondary index, by its name."""
    return name.startswith(SECONDARY_PREFIX) and len(name) > len(SECONDARY_PREFIX)


def _secondary_form(name: str) -> PartitionForm:
    prefix = f"secondary-index-{name.removeprefix(SECONDARY_PREFIX).replace('_', '-')}-"
    return PartitionForm(name, prefix, 7, "SecondaryIndexMetadata", 10)


def in_build_order(names: Collection[str]) -> tuple[str, ...]:
    """Sort partitions by the order in which they are built: secondary indexes last, by name."""
    known = tuple(name for name in MetadataPartition if name in names)
    return (*known, *sorted({*names} - {*known}))


def record_type(partition: str) -> int:
    """Return the value of `type` in its records."""
    return form_of(partition).record_type


def default_groups(partition: str) -> int:
    """Return the number of file groups of a new one, as in Apache Hudi."""
    return form_of(partition).groups


def group_id(partition: str, number: int) -> str:
    """Return the file id of a partition's file group: `col-stats-0001-0`."""
    return f"{form_of(partition).prefix}{number:04d}-0"


def group_numbers(
    keys: pa.Array | pa.ChunkedArray, groups: int, partition: str = "", version: int = SECONDARY_V2
) -> npt.NDArray[np.int64]:
    """Return the file group of each key: `abs(abs(hash) % groups)` (docs/format §14.5).

    Secondary indexes of tables of version 9 hash the value alone, so that all keys of a value lie in one group.
    """
    if is_secondary(partition) and version >= SECONDARY_V2:
        keys = hashed_part(keys)
    # In 64 bits the absolute value of the least int is a number like any other; Java's second abs gives the same.
    return np.abs(java_string_hash(keys).astype(np.int64)) % groups


def rebuild_command(*names: str) -> str:
    """Return the command that repairs damaged or outdated partitions, or all, for errors."""
    return f"`hudi-ops index {' '.join(('TABLE run', *names))} --rebuild`"


def is_kept(name: str) -> bool:
    """Return whether this library maintains a partition, by its name in the properties."""
    return name in _FORMS or is_secondary(name)

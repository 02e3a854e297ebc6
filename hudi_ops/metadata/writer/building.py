"""Records of partitions that are built from a table's files, and of concurrent changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.definitions import Statistics
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records, removed_filters
from hudi_ops.metadata.records.column_stats import column_stats_records, removed_stats
from hudi_ops.metadata.records.file_lists import FileChanges, files_records, listing_records
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition, default_groups
from hudi_ops.metadata.records.record_index import location_values
from hudi_ops.metadata.records.records import Records, sorted_records
from hudi_ops.metadata.records.values import repeated

_GROWTH = 2
_RECORD_BYTES = 48
_GROUP_BYTES_MAX = 1 << 30
_GROUPS_MAX = 10_000
"""Constants of Apache Hudi's count of the file groups of a record index."""


@dataclass(frozen=True, slots=True)
class KeysAt:
    """Record keys, each once, with location and their slice's moment in ms since 1970 UTC."""

    partition_path: str
    file_id: str
    instant_ms: int
    keys: pa.Array


@dataclass(frozen=True)
class Building:
    """Parameters of a build's records: its instant, and the version of statistics."""

    version: int
    instant: str
    statistics: Statistics

    def whole(
        self,
        partition: MetadataPartition,
        files: Mapping[str, Mapping[str, int]],
        statistics: Sequence[FileStatistics],
        keys: Sequence[KeysAt],
    ) -> Records:
        """Return the complete records of a partition."""
        if partition is MetadataPartition.FILES:
            return listing_records(files, version=self.version)
        if partition is MetadataPartition.RECORD_INDEX:
            return located(keys, pa.array([], pa.string()), version=self.version)
        return self._of_statistics(partition, statistics, tight=True)

    def changed(
        self,
        partition: MetadataPartition,
        files: Mapping[str, FileChanges],
        statistics: Sequence[FileStatistics],
        keys: Sequence[KeysAt],
        gone: pa.Array,
    ) -> Records:
        """Return the records that bring a partition up to date."""
        if partition is MetadataPartition.FILES:
            return files_records(files, version=self.version)
        if partition is MetadataPartition.RECORD_INDEX:
            return located(keys, gone, version=self.version)
        made = self._of_statistics(partition, statistics, tight=False)
        removed = [(path, name) for path, change in files.items() for name in change.removed]
        if partition is MetadataPartition.COLUMN_STATS and removed:
            return merge(
                removed_stats(removed, self.statistics.columns, version=self.version), made, version=self.version
            )
        if partition is MetadataPartition.BLOOM_FILTERS and removed:
            return merge(removed_filters(removed, version=self.version), made, version=self.version)
        return made

    def _of_statistics(
        self, partition: MetadataPartition, statistics: Sequence[FileStatistics], *, tight: bool
    ) -> Records:
        index_version = self.statistics.index_version
        if partition is MetadataPartition.COLUMN_STATS:
            return column_stats_records(statistics, version=self.version, index_version=index_version)
        if partition is MetadataPartition.PARTITION_STATS:
            return partition_stats_records(
                statistics,
                version=self.version,
                tight=tight,
                columns=self.statistics.types,
                index_version=index_version,
            )
        return bloom_filter_records(statistics, self.instant, version=self.version)


def group_count(partition: MetadataPartition, records: int) -> int:
    """Return the number of file groups, as in Apache Hudi (docs/format.md §14.2)."""
    if partition is not MetadataPartition.RECORD_INDEX:
        return default_groups(partition)
    wanted = -(-records * _GROWTH * _RECORD_BYTES // _GROUP_BYTES_MAX)
    return min(max(wanted, default_groups(partition)), _GROUPS_MAX)


def located(keys: Sequence[KeysAt], gone: pa.Array, *, version: int) -> Records:
    """Return records of a record index: of two locations of one key the later one stays."""
    held = [located_keys for located_keys in keys if len(located_keys.keys)]
    values = location_values(
        [(located_keys.partition_path, located_keys.file_id, located_keys.instant_ms) for located_keys in held],
        version=version,
    )
    whole = joined([located_keys.keys for located_keys in held], pa.string())
    each = repeated(values, [len(located_keys.keys) for located_keys in held])
    return sorted_records(MetadataPartition.RECORD_INDEX, whole, each, gone, version=version)


def without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """Return the keys that are not among others."""
    return keys.filter(pc.invert(pc.is_in(keys, others)))

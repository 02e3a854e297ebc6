"""Records of partitions that are built from a table's files, and of concurrent changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.index_kind import KeysAt, TableChange, TableContent, Terms
from hudi_ops.metadata.kinds.registry import kind_of
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.metadata.records.records import Records


class Building(Terms):
    """Terms of a build, which make the records of its partitions."""

    def whole(
        self,
        partition: str,
        files: Mapping[str, Mapping[str, int]],
        statistics: Sequence[FileStatistics],
        keys: Sequence[KeysAt],
    ) -> Records:
        """Return the complete records of a partition."""
        return kind_of(partition).whole(TableContent(files, statistics, keys), self)

    def changed(
        self,
        partition: str,
        files: Mapping[str, FileChanges],
        statistics: Sequence[FileStatistics],
        keys: Sequence[KeysAt],
        gone: pa.Array,
        gone_entries: Mapping[str, pa.Array] = MappingProxyType({}),
    ) -> Records:
        """Return the records that bring a partition up to date."""
        change = TableChange(files, statistics, keys, gone, gone_entries)
        return kind_of(partition).changed(change, self)


def group_count(partition: str, records: int) -> int:
    """Return the number of file groups, as in Apache Hudi (docs/format §14.2)."""
    return kind_of(partition).groups(records)

"""Index kind `partition_stats`: ranges of columns in each partition.

Records stay when files are removed: they may be wider than the files that exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.index_kind import IndexKind, TableChange, TableContent, Terms, WantedFacts, WrittenFiles
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition, form_of
from hudi_ops.metadata.records.records import Records


def _whole(content: TableContent, terms: Terms) -> Records:
    return _records(content.facts, terms, tight=True)


def _changed(change: TableChange, terms: Terms) -> Records:
    return _records(change.facts, terms, tight=False)


def _records(facts: Sequence[FileStatistics], terms: Terms, *, tight: bool) -> Records:
    """Return ranges of all columns: one that a file lacks excludes nothing in its partition."""
    return partition_stats_records(
        facts,
        version=terms.version,
        tight=tight,
        columns=terms.statistics.types,
        index_version=terms.statistics.index_version,
    )


def _of_write(written: WrittenFiles, terms: Terms) -> Records:
    # Without log files of deletes alone: their column records would have no type.
    told = [file for file in written.facts if any(column.values for column in file.ranges)]
    return partition_stats_records(
        [*told, *written.added_columns],
        version=terms.version,
        tight=False,
        index_version=terms.statistics.index_version,
    )


PARTITION_STATS = IndexKind(
    form_of(MetadataPartition.PARTITION_STATS),
    _whole,
    _changed,
    _of_write,
    facts=WantedFacts(ranges=True, added_columns=True),
    widens=True,
)

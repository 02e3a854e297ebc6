"""Index kind `column_stats`: ranges of columns in each file."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.index_kind import Terms, WantedFacts, each_file, kind_of_files
from hudi_ops.metadata.records.column_stats import column_stats_records, removed_stats
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.plans import FilesByPartition


def _records(facts: Sequence[FileStatistics], terms: Terms) -> Records:
    return column_stats_records(facts, version=terms.version, index_version=terms.statistics.index_version)


def _removed(files: FilesByPartition, terms: Terms) -> Records:
    return removed_stats(each_file(files), terms.statistics.columns, version=terms.version)


COLUMN_STATS = kind_of_files(MetadataPartition.COLUMN_STATS, _records, _removed, WantedFacts(ranges=True))

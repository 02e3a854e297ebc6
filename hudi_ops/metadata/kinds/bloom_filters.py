"""Index kind `bloom_filters`: the filter of record keys of each base file."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.index_kind import Terms, WantedFacts, each_file, kind_of_files
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records, removed_filters
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.plans import FilesByPartition


def _records(facts: Sequence[FileStatistics], terms: Terms) -> Records:
    return bloom_filter_records(facts, terms.instant, version=terms.version)


def _removed(files: FilesByPartition, terms: Terms) -> Records:
    return removed_filters(each_file(files), version=terms.version)


BLOOM_FILTERS = kind_of_files(MetadataPartition.BLOOM_FILTERS, _records, _removed, WantedFacts(bloom=True))

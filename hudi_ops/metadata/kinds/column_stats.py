"""Index kind `column_stats`: ranges of columns in each file."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.index_kind import (
    IndexKind,
    TableChange,
    TableContent,
    Terms,
    WantedFacts,
    WrittenFiles,
    each_file,
)
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.column_stats import column_stats_records, removed_stats
from hudi_ops.metadata.records.partitions import MetadataPartition, form_of
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.plans import FilesByPartition


def _whole(content: TableContent, terms: Terms) -> Records:
    return _records(content.facts, terms)


def _changed(change: TableChange, terms: Terms) -> Records:
    made, gone = _records(change.facts, terms), change.removed
    return merge(_removed(gone, terms), made, version=terms.version) if gone else made


def _of_write(written: WrittenFiles, terms: Terms) -> Records:
    return _records(written.facts, terms)


def _removed(files: FilesByPartition, terms: Terms) -> Records:
    return removed_stats(each_file(files), terms.statistics.columns, version=terms.version)


def _records(facts: Sequence[FileStatistics], terms: Terms) -> Records:
    return column_stats_records(facts, version=terms.version, index_version=terms.statistics.index_version)


COLUMN_STATS = IndexKind(
    form_of(MetadataPartition.COLUMN_STATS),
    _whole,
    _changed,
    _of_write,
    facts=WantedFacts(ranges=True),
    removed=_removed,
)

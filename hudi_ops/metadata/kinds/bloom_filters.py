"""Index kind `bloom_filters`: the filter of record keys of each base file."""

from __future__ import annotations

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
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records, removed_filters
from hudi_ops.metadata.records.partitions import MetadataPartition, form_of
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.plans import FilesByPartition


def _whole(content: TableContent, terms: Terms) -> Records:
    return bloom_filter_records(content.facts, terms.instant, version=terms.version)


def _changed(change: TableChange, terms: Terms) -> Records:
    made, gone = bloom_filter_records(change.facts, terms.instant, version=terms.version), change.removed
    return merge(_removed(gone, terms), made, version=terms.version) if gone else made


def _of_write(written: WrittenFiles, terms: Terms) -> Records:
    return bloom_filter_records(written.facts, terms.instant, version=terms.version)


def _removed(files: FilesByPartition, terms: Terms) -> Records:
    return removed_filters(each_file(files), version=terms.version)


BLOOM_FILTERS = IndexKind(
    form_of(MetadataPartition.BLOOM_FILTERS),
    _whole,
    _changed,
    _of_write,
    facts=WantedFacts(bloom=True),
    removed=_removed,
)

"""Index kind `files`: partitions and their files."""

from __future__ import annotations

from hudi_ops.metadata.index_kind import IndexKind, TableChange, TableContent, Terms, WrittenFiles
from hudi_ops.metadata.records.file_lists import FileChanges, files_records, listing_records
from hudi_ops.metadata.records.partitions import MetadataPartition, form_of
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.plans import FilesByPartition


def _whole(content: TableContent, terms: Terms) -> Records:
    return listing_records(content.files, version=terms.version)


def _changed(change: TableChange, terms: Terms) -> Records:
    return files_records(change.files, version=terms.version)


def _of_write(written: WrittenFiles, terms: Terms) -> Records:
    return files_records(written.files, version=terms.version)


def _removed(files: FilesByPartition, terms: Terms) -> Records:
    changes = {path: FileChanges(removed=names) for path, names in files.items() if names}
    return files_records(changes, version=terms.version)


FILES = IndexKind(form_of(MetadataPartition.FILES), _whole, _changed, _of_write, removed=_removed)

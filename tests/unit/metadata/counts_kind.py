"""An index kind that only tests have: `counts`, the number of rows of each data file."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats.avro.encode import encode_column
from hudi_ops.metadata.index_kind import (
    IndexKind,
    TableChange,
    TableContent,
    Terms,
    WantedFacts,
    WrittenFiles,
    each_file,
)
from hudi_ops.metadata.kinds.registry import register
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.partitions import PartitionForm
from hudi_ops.metadata.records.records import Records, deletes_only, sorted_records
from hudi_ops.metadata.records.values import field_node, framed, types_and_fields
from hudi_ops.timeline.content.plans import FilesByPartition

NAME = "counts"
COLUMN = "id"
"""A column of every file, whose range says how many rows the file has."""


def _key(path: str, name: str) -> str:
    return f"{path}/{name}"


def _records(facts: Iterable[FileStatistics], terms: Terms) -> Records:
    counted = {
        _key(file.partition_path, file.name): held.values
        for file in facts
        for held in file.ranges
        if held.column == COLUMN
    }
    node = field_node(NAME, terms.version)
    structs = pa.array([{"fileIdEncoding": 1, "position": count} for count in counted.values()], node.arrow)
    values = framed(NAME, encode_column(node, structs, NAME), len(counted))
    return sorted_records(NAME, pa.array(list(counted), pa.string()), values, version=terms.version)


def _whole(content: TableContent, terms: Terms) -> Records:
    return _records(content.facts, terms)


def _changed(change: TableChange, terms: Terms) -> Records:
    return merge(_removed(change.removed, terms), _records(change.facts, terms), version=terms.version)


def _of_write(written: WrittenFiles, terms: Terms) -> Records:
    return _records(written.facts, terms)


def _removed(files: FilesByPartition, terms: Terms) -> Records:
    return deletes_only(NAME, (_key(*file) for file in each_file(files)), version=terms.version)


COUNTS = register(
    IndexKind(
        PartitionForm(NAME, f"{NAME}-", 9, "recordIndexMetadata", 3),
        _whole,
        _changed,
        _of_write,
        facts=WantedFacts(ranges=True),
        removed=_removed,
    )
)


def decoded_counts(records: Records) -> dict[str, int]:
    """The number of rows by partition path and name."""
    _, structs = types_and_fields(NAME, records.values, records.schema, "a test")
    return dict(zip(records.keys.to_pylist(), structs.field("position").to_pylist(), strict=True))

"""Records of the partition `bloom_filters`: filters of base files (docs/format §14.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats.avro.encode import encode_column
from hudi_ops.metadata.records.keys import bloom_filter_key
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records, deletes_only, sorted_records
from hudi_ops.metadata.records.values import field_node, framed, types_and_fields

_BLOOM: Final = MetadataPartition.BLOOM_FILTERS
FILTER_TYPE: Final = "DYNAMIC_V0"
"""Type code of filters whose footer names none."""


def bloom_filter_records(statistics: Sequence[FileStatistics], instant: str, *, version: int) -> Records:
    """Return records of those base files that have a filter."""
    filtered = [each for each in statistics if each.bloom is not None and not each.is_log]
    texts = pa.array([each.bloom.encode() for each in filtered if each.bloom is not None], pa.binary())
    keys = pa.array([bloom_filter_key(each.partition_path, each.name) for each in filtered], pa.string())
    count = len(filtered)
    filters = pa.StructArray.from_arrays(
        [
            pa.array([each.bloom_type or FILTER_TYPE for each in filtered], pa.string()),
            pa.array([instant] * count, pa.string()),
            texts,
            pa.array([False] * count, pa.bool_()),
        ],
        ["type", "timestamp", "bloomFilter", "isDeleted"],
    )
    return sorted_records(_BLOOM, keys, bloom_filter_values(filters, version=version), version=version)


def bloom_filter_values(filters: pa.StructArray, *, version: int) -> pa.BinaryArray:
    """Encode records that hold these structs, whose fields are those of the schema."""
    return framed(_BLOOM, encode_column(field_node(_BLOOM, version), filters, "BloomFilterMetadata"), len(filters))


def removed_filters(files: Iterable[tuple[str, str]], *, version: int) -> Records:
    """Return deletes of the filters of cleaned files, given by partition path and name."""
    return deletes_only(_BLOOM, (bloom_filter_key(path, name) for path, name in files), version=version)


def decoded_filters(records: Records, where: str) -> pa.Table:
    """Decode rows `key`, `type`, `timestamp`, `filter` (as in footers), without deleted ones."""
    _, filters = types_and_fields(_BLOOM, records.values, records.schema, where)
    rows = pa.table({
        "key": records.keys,
        "type": pc.struct_field(filters, "type"),
        "timestamp": pc.struct_field(filters, "timestamp"),
        "filter": pc.struct_field(filters, "bloomFilter").cast(pa.string()),
        "is_deleted": pc.struct_field(filters, "isDeleted"),
    })
    return rows.filter(pc.invert(rows["is_deleted"])).drop_columns(["is_deleted"])

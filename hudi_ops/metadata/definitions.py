"""Statistics by index definitions, and updates of these (docs/format.md §14.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.metadata.index_definitions import (
    IndexDefinition,
    column_stats_definition,
    record_index_definition,
    stats_index_version,
)
from hudi_ops.metadata.indexed_columns import indexed_columns
from hudi_ops.metadata.records.partitions import MetadataPartition

_STATS = MetadataPartition.COLUMN_STATS


@dataclass(frozen=True)
class Statistics:
    """Columns with statistics, their types, and the version in which they are written."""

    types: Mapping[str, pa.DataType]
    index_version: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.types)


def statistics_of(schema: pa.Schema, config: TableConfig, definitions: Mapping[str, IndexDefinition]) -> Statistics:
    """Return the columns with statistics, of a table with these columns and definitions."""
    version = stats_index_version(definitions, config.version)
    held = definitions.get(_STATS)
    columns = indexed_columns(
        schema,
        index_version=version,
        has_meta_columns=config.populate_meta_fields,
        source_fields=held.source_fields if held is not None else (),
    )
    stored = stored_schema(schema, config.populate_meta_fields)
    return Statistics({name: _type_of(stored, name) for name in columns}, version)


def _type_of(schema: pa.Schema, name: str) -> pa.DataType:
    first, *below = name.split(".")
    kind = schema.field(first).type
    for part in below:
        kind = kind.field(part).type
    return kind


def with_definitions(
    definitions: Mapping[str, IndexDefinition],
    partitions: Iterable[MetadataPartition],
    columns: Iterable[str],
    version: int,
) -> dict[str, IndexDefinition]:
    """Return the definitions after adding partitions, as Apache Hudi's tables have them."""
    added = dict(definitions)
    for partition in partitions:
        if partition is _STATS:
            added.setdefault(_STATS, column_stats_definition(tuple(columns), version))
        elif partition is MetadataPartition.RECORD_INDEX and version >= 9:
            added.setdefault(str(partition), record_index_definition())
    return added

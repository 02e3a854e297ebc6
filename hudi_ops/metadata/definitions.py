"""Statistics by index definitions, and updates of these (docs/format §14.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Unsupported
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.metadata.index_definitions import (
    SECONDARY_KIND,
    IndexDefinition,
    column_stats_definition,
    record_index_definition,
    stats_index_version,
)
from hudi_ops.metadata.indexed_columns import indexed_columns
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.slice_entries import is_indexable

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


def secondary_columns(
    names: Iterable[str], schema: pa.Schema, config: TableConfig, definitions: Mapping[str, IndexDefinition]
) -> dict[str, str]:
    """Return the column of each of these secondary indexes, by the index's name.

    Raises:
        Unsupported: names an index that is not kept here, with the reason.
    """
    found: dict[str, str] = {}
    for name in names:
        held = definitions.get(name)
        if held is None:
            why = "it has no definition"
        elif held.kind != SECONDARY_KIND or len(held.source_fields) != 1:
            why = f"its definition is of kind {held.kind!r} on {', '.join(held.source_fields) or 'no column'}"
        elif held.version not in {None, f"V{2 if config.version >= 9 else 1}"}:
            why = f"its version is {held.version}"
        else:
            why = why_not_indexable(held.source_fields[0], schema, config)
            found[name] = held.source_fields[0]
        if why:
            raise Unsupported(
                f"the secondary index {name} is not maintained here: {why}",
                table=config.name,
                expected="an index of one column of texts or whole numbers, as this table's version makes it",
                found=why,
                next_step=f"drop it with `hudi-ops index TABLE drop {name}`, or write the table with Apache Hudi alone",
            )
    return found


def why_not_indexable(column: str, schema: pa.Schema, config: TableConfig) -> str:
    """Return why a column cannot have a secondary index here; empty if it can."""
    if column in config.dropped_columns:
        return f"column {column} is in no file"
    if column not in schema.names:
        return f"column {column} is nested" if "." in column else f"the table has no column {column}"
    kind = schema.field(column).type
    return "" if is_indexable(kind) else f"column {column} is of type {kind}"


def _type_of(schema: pa.Schema, name: str) -> pa.DataType:
    first, *below = name.split(".")
    kind = schema.field(first).type
    for part in below:
        kind = kind.field(part).type
    return kind


def with_definitions(
    definitions: Mapping[str, IndexDefinition],
    partitions: Iterable[str],
    columns: Iterable[str],
    version: int,
) -> dict[str, IndexDefinition]:
    """Return the definitions after adding partitions, as Apache Hudi's tables have them."""
    added = dict(definitions)
    for partition in partitions:
        if partition == _STATS:
            added.setdefault(_STATS, column_stats_definition(tuple(columns), version))
        elif partition == MetadataPartition.RECORD_INDEX and version >= 9:
            added.setdefault(str(partition), record_index_definition())
    return added

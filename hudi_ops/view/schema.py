"""Read the schema of a table at an instant, from the newest commit (docs/format §4)."""

from __future__ import annotations

import pyarrow as pa

from hudi_ops.config.table import PROPERTIES_PATH, TableConfig
from hudi_ops.errors import Corrupt
from hudi_ops.formats.avro.schema import to_arrow
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.partition_values import PLAIN_GENERATORS, is_read_from_paths

_KEEPS_SCHEMA = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX"})


def table_schema(config: TableConfig, timeline: Timeline, commits: CommitReader, as_of: str | None = None) -> pa.Schema:
    """Return the columns of the table's files, without meta columns; see `row_schema`.

    Raises:
        Corrupt: no commit and no property holds a schema, or one cannot be read.
    """
    return file_schema(config, to_arrow(*schema_text(config, timeline, commits, as_of)))


def file_schema(config: TableConfig, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table's rows that its files hold."""
    dropped = config.dropped_columns
    return pa.schema([field for field in schema if field.name not in dropped]) if dropped else schema


def row_schema(config: TableConfig, schema: pa.Schema) -> pa.Schema:
    """Return the columns of the rows: those of files, then dropped ones (docs/format §6.10).

    A dropped column has its type in the create schema, if a path can be read as a value of that type; otherwise it is text.
    """
    dropped = config.dropped_columns
    if not dropped:
        return schema
    made = to_arrow(config.create_schema, PROPERTIES_PATH) if config.create_schema else pa.schema([])
    return pa.schema([*schema, *(pa.field(name, _dropped_type(config, made, name)) for name in dropped)])


def _dropped_type(config: TableConfig, made: pa.Schema, name: str) -> pa.DataType:
    # The path of any other key generator is text, even if the column was a number.
    known = (
        name in made.names and config.key_generator in PLAIN_GENERATORS and is_read_from_paths(made.field(name).type)
    )
    return made.field(name).type if known else pa.string()


def schema_text(
    config: TableConfig, timeline: Timeline, commits: CommitReader, as_of: str | None = None
) -> tuple[str, str]:
    """Return the table's Avro schema as it is written, and the file that holds it.

    Raises:
        Corrupt: no commit and no property holds a schema.
    """
    for instant in timeline.newest_first:
        if as_of is not None and instant.time > as_of:
            continue
        metadata = commits.metadata(timeline, instant)
        if metadata is None or metadata.operation in _KEEPS_SCHEMA:
            continue
        text = metadata.extra.get("schema")
        if text:
            return text, timeline.path(instant.file_name)
    if config.create_schema:
        return config.create_schema, PROPERTIES_PATH
    raise Corrupt(
        "no commit and no property holds the table's schema",
        table=config.name,
        expected="`schema` in a commit's extra metadata, or hoodie.table.create.schema",
        next_step="write to the table once with the program that made it",
    )

"""The table's schema at an instant: that of the newest commit that may change it (docs/format.md §4)."""

from __future__ import annotations

import pyarrow as pa

from hudi_ops.config.table import PROPERTIES_PATH, TableConfig
from hudi_ops.errors import Corrupt
from hudi_ops.formats.avro_schema import to_arrow
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader

_KEEPS_SCHEMA = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX"})


def table_schema(config: TableConfig, timeline: Timeline, commits: CommitReader, as_of: str | None = None) -> pa.Schema:
    """Columns of the table, without meta columns.

    Raises:
        Corrupt: no commit and no property holds a schema, or one cannot be read.
    """
    return to_arrow(*schema_text(config, timeline, commits, as_of))


def schema_text(
    config: TableConfig, timeline: Timeline, commits: CommitReader, as_of: str | None = None
) -> tuple[str, str]:
    """The table's Avro schema as it is written, and the file it is written in.

    Raises:
        Corrupt: no commit and no property holds a schema.
    """
    for instant in sorted(timeline.completed_writes, key=lambda one: one.completion_time, reverse=True):
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

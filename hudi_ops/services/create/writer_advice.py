"""Advice on what writers of Apache Hudi that share an adopted table must set."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.errors import HudiOpsError
from hudi_ops.formats.arrow_types import in_microseconds
from hudi_ops.metadata.records.partitions import KEEPS_INDEXES
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.schema import table_schema


def writer_advice(config: TableConfig, facts: TableFacts, timeline: Timeline, commits: CommitReader) -> tuple[str, ...]:
    """Return advice on the settings of the table's writers of Apache Hudi; a sentence for each."""
    try:
        schema = table_schema(config, timeline, commits)
    except HudiOpsError:
        schema = pa.schema([])  # a table without a commit and without a schema is adopted all the same
    return tuple(_advice(config, facts, schema))


def _advice(config: TableConfig, facts: TableFacts, schema: pa.Schema) -> Iterator[str]:
    if config.all_metadata_partitions:
        yield f"its writers of Apache Hudi must set {KEEPS_INDEXES}: else they drop indexes, or leave them behind"
    if facts.has_ring:
        yield (
            "with several writers of Apache Hudi, set hoodie.write.lock.conflict.resolution.strategy=org.apache.hudi.client."
            "transaction.SimpleConcurrentFileWritesConflictResolutionStrategy: their default fails on hash rings"
        )
    millis = [field.name for field in schema if in_microseconds(field).type != field.type]
    if config.version == 8 and millis:
        yield (
            f"columns {', '.join(millis)} hold times in milliseconds, which Apache Hudi 1.0 takes for microseconds when it "
            "rewrites a file: let no writer of 1.0 update, compact or cluster the table"
        )
    if millis:
        yield (
            f"columns {', '.join(millis)} hold times in milliseconds: Spark writers of Apache Hudi 1.2 must set "
            "hoodie.datasource.write.reconcile.schema=true, or their writes are refused"
        )

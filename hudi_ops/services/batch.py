"""What to ingest, and the tasks that read it: one a source."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.merge import Operation
from hudi_ops.services.ledger import Ledger
from hudi_ops.services.operations import WriteOperation
from hudi_ops.services.tag_tasks import SourceTask
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class Batch:
    """What to ingest: files of a source with the ledger they belong to, or rows in memory. `evolve` lets the columns change."""

    operation: WriteOperation
    source: Storage | None = None
    files: tuple[FileInfo, ...] = ()
    ledger: Ledger | None = None
    rows: pa.Table | None = None
    evolve: bool = False


def source_tasks(state: TableState, batch: Batch, schema: pa.Schema) -> list[SourceTask]:
    """The first tasks of an ingest; `schema` is the table's, without meta columns."""
    tagger = Tagger.of(state.config, state.log.properties.facts)
    required = tuple(schema.names)
    ordering = next(iter(state.config.ordering_fields), None)
    if batch.operation.kernel is Operation.DELETE:
        # Only what routes a row must be there; other columns may be, and are checked, but say nothing.
        required = tuple(dict.fromkeys(state.config.record_key_fields + state.config.partition_fields))
    elif batch.evolve:
        required = tuple(field.name for field in schema if not field.nullable or field.name in roles(state.config))
    if batch.rows is not None:
        return [SourceTask(0, tagger, schema, required, ordering, rows=batch.rows, fill=batch.evolve)]
    return [
        SourceTask(ordinal, tagger, schema, required, ordering, storage=batch.source, file=file, fill=batch.evolve)
        for ordinal, file in enumerate(batch.files)
    ]


def roles(config: TableConfig) -> dict[str, str]:
    """What the columns are for that keys, folders and order follow from."""
    return {
        **dict.fromkeys(config.ordering_fields, "ordering"),
        **dict.fromkeys(config.partition_fields, "partition"),
        **dict.fromkeys(config.record_key_fields, "key"),
    }

"""Columns of a table after an ingest that may change them, from the sources' schemas."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.kernels.merging.merge import Operation
from hudi_ops.services.write.batch import Batch, roles
from hudi_ops.services.write.tasks.tag import GIVEN
from hudi_ops.sources.schema_change import merge_schemas, schema_changes
from hudi_ops.sources.source_schema import SchemaTask, source_schema
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import file_schema, row_schema, table_schema


@dataclass(frozen=True)
class ColumnChange:
    """The table's columns after an ingest, and descriptions of the changes.

    `is_widened` says that a column gets another type.
    """

    schema: pa.Schema
    phrases: tuple[str, ...] = ()
    is_widened: bool = False

    @property
    def new(self) -> pa.Schema | None:
        """Return the columns to commit with the rows; None when nothing changes."""
        return self.schema if self.phrases else None


def columns_after(session: Session, state: TableState, batch: Batch, engine: Engine) -> ColumnChange:
    """Return the table's columns after a batch; only a batch with `evolve` changes them.

    Raises:
        InvalidRequest: the sources need a change that is not supported, or a delete needs any change.
        HudiOpsError: an added column has a type that a table cannot hold.
    """
    files = table_schema(state.config, state.timeline, session.commits)
    if not batch.evolve:
        return ColumnChange(files)
    schema = row_schema(state.config, files)
    if batch.operation.kernel is Operation.DELETE:
        raise InvalidRequest(
            "a delete changes no columns",
            table=state.config.name,
            expected="evolve with rows to write",
            found="evolve with operation delete",
            next_step="run the delete without evolve",
        )
    if batch.rows is not None:
        given = batch.rows.schema
        sources = [(GIVEN, given)] if given is not None else []
    else:
        tasks = [SchemaTask(batch.source, file, schema) for file in batch.files] if batch.source is not None else []
        sources = list(zip((task.where for task in tasks), engine.map(source_schema, tasks), strict=True))
    try:
        merged = merge_schemas(schema, sources, roles(state.config))
    except HudiOpsError as error:
        raise error.at(table=state.config.name) from error
    widened = any(merged.field(column.name).type != column.type for column in schema)
    return ColumnChange(file_schema(state.config, merged), schema_changes(schema, merged), widened)

"""The columns of a table after an ingest that may change them: looked up from the sources before anything is written."""

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
    """The table's columns that an ingest works in, and in words what it changes."""

    schema: pa.Schema
    phrases: tuple[str, ...] = ()
    is_widened: bool = False
    """Whether a column gets another type."""

    @property
    def new(self) -> pa.Schema | None:
        """The columns to commit with the rows; None when nothing changes."""
        return self.schema if self.phrases else None


def columns_after(session: Session, state: TableState, batch: Batch, engine: Engine) -> ColumnChange:
    """The table's columns after a batch: as they are, unless the batch may change them.

    Raises:
        InvalidRequest: the sources ask for a change that is not made, or a delete for any.
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
    widened = any(merged.field(one.name).type != one.type for one in schema)
    return ColumnChange(file_schema(state.config, merged), schema_changes(schema, merged), widened)

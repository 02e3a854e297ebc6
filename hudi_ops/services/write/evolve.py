"""Columns of a table after an ingest that may change them, from the sources' schemas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_other_index, refuse_unwritable
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.formats.arrow_types import in_microseconds
from hudi_ops.kernels.merging.merge import Operation
from hudi_ops.services.write.batch import Batch, roles, tag_spec
from hudi_ops.services.write.rows import limits_of
from hudi_ops.services.write.tasks.tag import GIVEN
from hudi_ops.sources.schema_change import merge_schemas, schema_changes
from hudi_ops.sources.source import fit_rows, without_meta_columns
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
        limit = limits_of(engine).value_bytes
        source = batch.source
        tasks = [SchemaTask(source, file, schema, limit) for file in batch.files] if source is not None else []
        sources = list(zip((task.where for task in tasks), engine.map(source_schema, tasks), strict=True))
    try:
        plain = [(where, without_meta_columns(columns)) for where, columns in sources]
        merged = merge_schemas(schema, plain, roles(state.config))
        if state.config.version == 8:
            held = {field.name: field for field in schema}
            merged = pa.schema([in_microseconds(field, held.get(field.name)) for field in merged])
    except HudiOpsError as error:
        raise error.at(table=state.config.name) from error
    widened = any(merged.field(column.name).type != column.type for column in schema)
    return ColumnChange(file_schema(state.config, merged), schema_changes(schema, merged), widened)


def check_columns(session: Session, batch: Batch, columns: pa.Schema, where: str) -> None:
    """Check that rows with these columns fit the table, before the rows exist.

    `where` names the rows in errors; those of `batch` are not looked at.

    Raises:
        InvalidRequest: a column is unknown, missing or there twice, or has a type that does not fit.
        Unsupported: the table cannot be written.
    """
    state = session.loader.load()
    refuse_unwritable(state.config)
    refuse_other_index(state)
    rows = columns.empty_table()
    change = columns_after(session, state, replace(batch, rows=rows), session.ctx.local_engine)
    spec = tag_spec(state, batch, change.schema)
    try:
        fit_rows(rows, spec.schema, spec.required, where, fill=spec.fill)
    except InvalidRequest as error:
        raise error.at(table=state.config.name) from error

"""Check the request of a `save`, and ingest the files that its tasks staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_ops.commit.recover.staging import StagingArea
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.open_lock import lock_of
from hudi_ops.concurrency.vain_waits import PROCESS_WAITS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.definition import OpenOptions
from hudi_ops.config.tables_file import locate_table
from hudi_ops.config.write_settings import FileSizes, checked_format
from hudi_ops.context import Owner, TableContext
from hudi_ops.datasource.options import switch
from hudi_ops.datasource.staged_files import StagedFile, staged_batches
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest
from hudi_ops.read.current_view import storage_at
from hudi_ops.services.create.adoption import Adoption, AdoptionOptions
from hudi_ops.services.write.automatic import written
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.evolve import check_columns
from hudi_ops.services.write.ingest import IngestResult, ingest
from hudi_ops.services.write.once import BatchId, ingest_once, is_taken
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.services.write.rows import GivenRows
from hudi_ops.sources.source import without_meta_columns
from hudi_ops.timeline.settings.settings_check import refuse_unopenable

WRITE_OPTIONS = ("path", "operation", "evolve", "batch_id", "batch_source", "memory_bytes")

_REASON = "rows that Spark's tasks staged"


@dataclass(frozen=True)
class Saving:
    """Checked request of one `save`, with all that its tasks and its commit need.

    Attributes:
        path: the table, as the caller named it.
        operation: name of the write operation.
        evolve: the table may take new columns and wider types.
        schema: the frame's columns, without meta columns.
        area: where tasks put rows.
        batch_id: the batch's name; None: every `save` is written.
        is_taken: the table has the batch already, so nothing is staged.
        memory_bytes: rows that the commit holds in memory; further ones go to a temporary file. None: by the machine's memory.
    """

    path: str
    operation: str
    evolve: bool
    schema: pa.Schema
    area: StagingArea
    batch_id: BatchId | None = None
    is_taken: bool = False
    memory_bytes: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str | None], schema: pa.Schema, *, overwrites: bool) -> Saving:
        """Check the options and the frame's columns against the table; nothing is written.

        Raises:
            InvalidRequest: the mode is `overwrite`, an option is wrong, or the columns do not fit the table.
            Unsupported: the table cannot be written.
        """
        path = given["path"] or ""
        if overwrites:
            raise InvalidRequest(
                f"the mode overwrite is not supported for {path}",
                expected="append",
                found="overwrite",
                setting="mode",
                next_step='call .mode("append") with .option("operation", "insert_overwrite"), which replaces the partitions of '
                "the rows, or with insert_overwrite_table, which replaces all rows",
            )
        operation = parse_operation(given.get("operation") or "upsert")
        evolve = switch("evolve", given.get("evolve"))
        batch_id, memory_bytes = _batch_id(given), _memory_bytes(given.get("memory_bytes"))
        plain = without_meta_columns(schema)
        session = open_session(path)
        check_columns(session, Batch(operation, evolve=evolve), plain, "the DataFrame")
        taken = batch_id is not None and is_taken(session, batch_id)
        ctx = session.ctx
        # Spark's Python workers come and go; the JVM of the driver lives as long as the job.
        area = StagingArea.new(ctx.storage, ctx.ids, Owner.of_process_above("java"))
        return cls(path, operation.name, evolve, plain, area, batch_id, taken, memory_bytes)


def ingest_staged(saving: Saving, files: Sequence[StagedFile]) -> IngestResult:
    """Ingest staged files in one commit, as one stream in bounded memory.

    Raises:
        InvalidRequest: the rows do not fit the table; nothing was changed.
        Conflict: lost to overlapping writes again and again.
    """
    session = open_session(saving.path)
    engine = LocalEngine(memory_bytes=saving.memory_bytes)
    stream = pa.RecordBatchReader.from_batches(saving.schema, _aligned(saving, files))
    with GivenRows(stream) as rows:
        batch = Batch(parse_operation(saving.operation), rows=rows, evolve=saving.evolve)
        if saving.batch_id is not None:
            return ingest_once(session, batch, saving.batch_id, engine, _REASON)
        return written(session, lambda started_s: ingest(session, batch, engine, _REASON, started_s))


def open_session(path: str) -> Session:
    """Open a table for one `save`, with the lock that `tables.yaml` declares for its path.

    Raises:
        InvalidRequest: the path is not a table.
        Unsupported: its version cannot be opened.
    """
    location = locate_table(path)
    storage = storage_at(location)
    ctx = TableContext(storage=storage, locks=lock_of(location), engine=LocalEngine(), vain_waits=PROCESS_WAITS)
    refuse_unopenable(storage)
    options = OpenOptions(**location.options())
    return Session(
        ctx,
        Adoption(ctx, AdoptionOptions.of(options)),
        options.conflicts or ConflictSettings(),
        checked_format(options.log_format),
        options.file_sizes or FileSizes(),
        options.metadata_compact_after,
        options.upkeep,
    )


def _aligned(saving: Saving, files: Sequence[StagedFile]) -> Any:
    """Yield the staged batches in the schema of the plan.

    Spark may name text and lists by other Arrow types.
    """
    for batch in saving.area.renewed(staged_batches(saving.area.storage, files)):
        if batch.schema.equals(saving.schema):
            yield batch
        else:
            yield from pa.Table.from_batches([batch]).cast(saving.schema).to_batches()


def _batch_id(given: Mapping[str, str | None]) -> BatchId | None:
    batch_id, source = given.get("batch_id"), given.get("batch_source")
    if batch_id is None and source is not None:
        raise InvalidRequest(
            "batch_source is given without a batch_id",
            expected="batch_id with batch_source",
            found="batch_source alone",
            setting="batch_source",
        )
    return BatchId(source or "spark", batch_id) if batch_id is not None else None


def _memory_bytes(text: str | None) -> int | None:
    if text is None or (text.isdecimal() and int(text) > 0):
        return int(text) if text is not None else None
    raise InvalidRequest(
        "memory_bytes is not a number of bytes", expected="a whole number above 0", found=text, setting="memory_bytes"
    )

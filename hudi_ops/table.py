"""A table, as users hold it: create, open, read, and one method per service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.concurrency.in_process import in_process_lock
from hudi_ops.concurrency.locks import LockProvider
from hudi_ops.config.table import TABLE_TYPES, TableConfig
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict, InvalidRequest
from hudi_ops.services.batch import Batch
from hudi_ops.services.create import Definition, create_table
from hudi_ops.services.engine_choice import EngineName, choose_engine, choose_frame_engine
from hudi_ops.services.given_rows import GivenRows
from hudi_ops.services.ingest import IngestResult, ingest, nothing_new, parse_operation
from hudi_ops.services.ledger import Ledger, Offer, offer_of, read_ledger
from hudi_ops.services.read import OpenView, read_table, request_of
from hudi_ops.services.recover import finish_unfinished
from hudi_ops.services.session import Session
from hudi_ops.services.writable import refuse_unwritable
from hudi_ops.storage.paths import open_folder, open_storage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.names import parse_instant
from hudi_ops.timeline.properties_file import load_config
from hudi_ops.view.schema import table_schema

RETRIES_ON_CONFLICT = 3


class Table:
    """One table. Not safe for several threads; open one per thread.

    Use `Table.create` or `Table.open`.
    """

    def __init__(self, ctx: TableContext) -> None:
        self._ctx = ctx
        self._session = Session(ctx)
        self.was_created = False
        """Whether `create` made the table just now; False when an equal one was there."""

    @classmethod
    def create(
        cls,
        path: str,
        *,
        name: str,
        record_key: Sequence[str],
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        ordering: str | None = None,
        table_type: Literal["cow", "mor"] = "cow",
        buckets: int = 1,
        url_encode: bool = True,
        locks: LockProvider | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Make a table, or open the one that an equal call made.

        Args:
            path: a folder or `file://` URI; made when absent.
            name: the table's name; printable ASCII without spaces.
            record_key: columns that identify a row.
            schema: the table's columns, without meta columns; timestamps without a zone become UTC.
            partition_by: columns that name the folders of rows.
            ordering: column by which the newer of two rows is told; None: the later write wins.
            table_type: `cow` (copy-on-write) or `mor` (merge-on-read).
            buckets: file groups per partition; rows are routed by a hash of their key.
            url_encode: escape characters of partition values that a path must not hold; without it such values are refused.
            locks: the table lock; None: one that holds inside this process only.
            engine: runs the work; None: threads of this process.

        Raises:
            InvalidRequest: the definition cannot be a table, or another table lies there.
        """
        if table_type not in TABLE_TYPES:
            raise InvalidRequest(f"unknown table type {table_type!r}", expected="cow or mor", found=str(table_type))
        table = cls(context_of(path, locks, engine))
        definition = Definition(
            name, schema, tuple(record_key), tuple(partition_by), ordering, TABLE_TYPES[table_type], buckets, url_encode
        )
        table.was_created = create_table(table._session, definition)
        return table

    @classmethod
    def open(cls, path: str, *, locks: LockProvider | None = None, engine: Engine | None = None) -> Self:
        """Open a table, ours or one that Apache Hudi made.

        Raises:
            InvalidRequest: the path is not a table.
            Unsupported: its version cannot be opened.
        """
        table = cls(context_of(path, locks, engine))
        load_config(table._ctx.storage)
        return table

    @property
    def context(self) -> TableContext:
        """The components that this table works with."""
        return self._ctx

    @property
    def config(self) -> TableConfig:
        """The table's settings as they are now."""
        return load_config(self._ctx.storage)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as they are now, without meta columns."""
        opened = OpenView.of(self._ctx.storage, self._session.commits)
        return table_schema(opened.config, opened.timeline, opened.commits)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        as_of: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows as Arrow.

        Args:
            columns: names, in the order wanted; None for all, meta columns first.
            where: a SQL condition, or an Arrow expression.
            as_of: an instant (17 digits) or an ISO time: the table as of the newest write requested at or before it.
            limit: at most so many rows.

        Raises:
            InvalidRequest: an unknown column or instant, or a filter that does not parse.
            Unsupported: rows lie in log files.
        """
        instant = parse_instant(as_of) if as_of is not None else None
        request = request_of(columns, where, instant, limit)
        return read_table(self._ctx, request, self._session.commits)

    def ingest(self, data: Any, operation: str = "upsert", *, engine: EngineName = "auto") -> IngestResult:
        """Write rows that a program holds, makes or can stream, in one commit. They may be larger than memory.

        Args:
            data: a `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`; a data frame of pandas or Polars (also a lazy one); a
                DuckDB relation; a `Scan`; anything with the Arrow C stream interface; an iterable of record batches of one
                schema; or a PySpark DataFrame. Streams and DataFrames are read once, whatever happens.
            operation: `upsert`, `insert` (refuses keys that are there) or `delete` (by key).
            engine: `local`, `spark`, or `auto`: a DataFrame is written on its executors, a stream by this process, and rows in
                memory as their bytes suggest.

        Raises:
            InvalidRequest: the rows do not fit the table; nothing was changed.
            Conflict: lost to overlapping writes again and again.
            Unavailable: no room on disk for rows that do not fit into memory; nothing was changed.
        """
        kind = parse_operation(operation)
        with GivenRows(data) as rows:
            refuse_unwritable(self.config)
            chosen, reason = (
                choose_engine(engine, rows.size_bytes, self._ctx.engine)
                if rows.frame is None
                else choose_frame_engine(engine, rows.frame, self._ctx.engine)
            )
            return self._retried(lambda started: ingest(self._session, Batch(kind, rows=rows), chosen, reason, started))

    def ingest_folder(
        self,
        folder: str,
        operation: str = "upsert",
        *,
        engine: EngineName = "auto",
        min_age_s: float = 0.0,
        max_files: int | None = None,
        max_bytes: int | None = None,
    ) -> IngestResult:
        """Write the files of a folder that were not taken before, each exactly once.

        Args:
            folder: holds CSV, JSON lines or Parquet files, at any depth; names beginning with `_` or `.` wait.
            operation: as in `ingest`.
            engine: as in `ingest`.
            min_age_s: files that changed more recently wait.
            max_files: so many files in this commit, by path; the others are for the next call. None: all.
            max_bytes: as many files as lie within so many bytes, one at least. None: all.

        Raises:
            InvalidRequest: a file does not fit the table, or changed after it was taken; nothing was changed.
            Conflict: lost to overlapping writes again and again.
        """
        kind = parse_operation(operation)
        source = open_folder(folder)

        def attempt(started_s: float) -> IngestResult:
            # Read again at each try: a conflict may mean that another writer took these very files; so may a decided commit
            # whose writer died before it was visible.
            refuse_unwritable(self.config)
            finish_unfinished(self._session)
            ledger, offer = self._offer(source, min_age_s)
            offer = offer.within(max_files, max_bytes)
            total_bytes = sum(info.size_bytes for info in offer.files)
            chosen, reason = choose_engine(engine, total_bytes, self._ctx.engine)
            batch = Batch(kind, source=source, files=offer.files, ledger=ledger)
            if not offer.files:
                note = "; ".join(
                    filter(None, (f"nothing new: {len(ledger.taken)} files were taken before", offer.note))
                )
                return nothing_new(self._session, batch, chosen, reason, note)
            result = ingest(self._session, batch, chosen, reason, started_s)
            return replace(result, note=offer.note) if offer.note else result

        return self._retried(attempt)

    def preview_folder(
        self, folder: str, *, min_age_s: float = 0.0, max_files: int | None = None, max_bytes: int | None = None
    ) -> Offer:
        """What `ingest_folder` would take now, and which names would wait for what reason; changes nothing.

        Raises:
            InvalidRequest: no such folder, or a file that was taken has changed since.
            Unsupported: the table cannot be written.
        """
        return self._offer(open_folder(folder), min_age_s)[1].within(max_files, max_bytes)

    def _offer(self, source: Storage, min_age_s: float) -> tuple[Ledger, Offer]:
        refuse_unwritable(self.config)
        state = self._session.loader.load()
        ledger = read_ledger(self._ctx.storage, self._session.newest_extra(state), source.uri)
        return ledger, offer_of(source, ledger, self._ctx.clock.now_ms(), min_age_s)

    def _retried(self, attempt: Any) -> IngestResult:
        started_s = self._ctx.clock.monotonic_s()
        for left in range(RETRIES_ON_CONFLICT, -1, -1):
            try:
                result: IngestResult = attempt(started_s)
            except Conflict:
                if left == 0:
                    raise
            else:
                return result
        raise AssertionError  # pragma: no cover

    def close(self) -> None:
        """Let go of the lock service, where one is connected."""
        close = getattr(self._ctx.locks, "close", None)
        if close is not None:
            close()


def context_of(path: str, locks: LockProvider | None = None, engine: Engine | None = None) -> TableContext:
    """The components for a table at a path, with the defaults of a single process."""
    storage = open_storage(path)
    return TableContext(storage=storage, locks=locks or in_process_lock(storage.uri), engine=engine or LocalEngine())

"""Offer the ingestion of a table: rows of a program, and files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hudi_ops.commit.ledger import Offer
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import EngineName, IngestRequest, listed_paths
from hudi_ops.engine.progress import TellProgress
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.engine import choose_engine, choose_frame_engine
from hudi_ops.services.write.automatic import written
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.folder import SourceFolder, ingest_folder
from hudi_ops.services.write.ingest import IngestResult, ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.services.write.rows import GivenRows
from hudi_ops.storage.open import open_source
from hudi_ops.table.argument_types import checks_types


@checks_types
class IngestApi:
    """Methods of `hudi_ops.Table` that take rows."""

    _session: Session

    def ingest(
        self, data: Any, operation: str = "upsert", *, engine: EngineName = "auto", evolve: bool = False
    ) -> IngestResult:
        """Write the given rows in one commit; a stream may be larger than memory.

        Args:
            data: a `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`; a data frame of pandas or Polars (also a lazy one); a
                DuckDB relation; a `Scan`; anything with the Arrow C stream interface; an iterable of record batches of one
                schema; or a PySpark DataFrame. Streams and DataFrames are read once, even if the commit is tried again.
            operation: `upsert`; `insert`, which refuses existing keys; `delete`, by key; `bulk_insert`, which looks up no keys, so
                that an existing key gets a second row; `insert_overwrite`, which replaces the partitions that the
                rows touch; `insert_overwrite_table`, which replaces all of them.
            engine: `local`, `spark`, or `auto`: a DataFrame is written on its executors, a stream by this process, and rows in
                memory as their bytes suggest.
            evolve: let the table take new columns and wider types from the rows; missing columns are null then. An empty
                table with the wanted columns changes only the schema.

        Raises:
            InvalidRequest: the rows do not fit the table; nothing was changed.
            Conflict: lost to overlapping writes again and again.
            Unavailable: no room on disk for rows that do not fit into memory; nothing was changed.
        """
        kind = parse_operation(operation)
        with GivenRows(data) as rows:
            chosen, reason = (
                choose_engine(engine, rows.size_bytes, self._session.ctx.engine)
                if rows.frame is None
                else choose_frame_engine(engine, rows.frame, self._session.ctx.engine)
            )
            batch = Batch(kind, rows=rows, evolve=evolve)
            return written(self._session, lambda started_s: ingest(self._session, batch, chosen, reason, started_s))

    def ingest_folder(self, folder: str | os.PathLike[str], operation: str = "upsert", **keywords: Any) -> IngestResult:
        """Write the files of a folder that were not taken before, each exactly once.

        Args:
            folder: holds CSV, JSON lines or Parquet files, at any depth, as a path or a URI; names beginning with `_` or `.` wait.
            operation: as in `ingest`.
            keywords: further fields of `IngestRequest`; files that `retake` names are taken before the new files, unless
                they did not change; rows that a corrected file no longer has stay in the table.

        Raises:
            InvalidRequest: a file does not fit the table, or changed after it was taken and `retake` does not name it; nothing
                was changed.
            Conflict: lost to overlapping writes again and again.
        """
        return self.ingest_files(IngestRequest(source=folder, operation=operation, **keywords))

    def ingest_file(self, file: str | os.PathLike[str], operation: str = "upsert", **keywords: Any) -> IngestResult:
        """Write one file exactly once: nothing if it was taken before.

        `ingest` writes at every call. A later `ingest_folder` of the file's folder, or of one above it, skips the file.

        Args:
            file: a CSV, JSON lines or Parquet file; a path or a URI.
            operation: as in `ingest`.
            keywords: further fields of `IngestRequest`.

        Raises:
            InvalidRequest: no such file, its ending is unknown, it does not fit the table, or it changed after it was taken;
                nothing was changed.
            Conflict: lost to overlapping writes again and again.
        """
        source = os.fspath(file)
        if open_source(source)[1] is None:
            raise InvalidRequest(
                f"{source} is a folder",
                expected="one file",
                found="a folder",
                next_step="call ingest_folder, which takes the new files of a folder",
                file=source,
            )
        return self.ingest_files(IngestRequest(source=source, operation=operation, **keywords))

    def ingest_files(self, request: IngestRequest, *, progress: TellProgress | None = None) -> IngestResult:
        """Write the file or the files that a request names; raises as `ingest_folder` does.

        Args:
            request: which files, and how.
            progress: called after each file that was read and each file group that was written, by the local engine.

        Raises:
            InvalidRequest: it names no source, or asks for a dry run, which `preview_folder` does.
        """
        if request.source is None or request.dry_run:
            raise InvalidRequest(
                "an ingest needs a source, and has no dry run",
                expected="source, without dry_run",
                found=f"source={request.source!r}, dry_run={request.dry_run}",
                next_step="name a folder or a file; preview_folder shows what would be taken",
            )
        folder = SourceFolder.of(
            request.source,
            min_age_s=request.min_age_s,
            max_files=request.max_files,
            max_bytes=request.max_bytes,
            retake=request.retake,
        )
        operation = parse_operation(request.operation)
        return ingest_folder(self._session, folder, operation, request.engine, evolve=request.evolve, progress=progress)

    def preview_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        min_age_s: float = 0.0,
        max_files: int | None = None,
        max_bytes: int | None = None,
        retake: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    ) -> Offer:
        """Return the files that `ingest_folder` would take now, and those that wait, with reasons.

        Args:
            folder: as in `ingest_folder`.
            min_age_s: as in `IngestRequest`.
            max_files: as in `IngestRequest`.
            max_bytes: as in `IngestRequest`.
            retake: as in `ingest_folder`.

        Raises:
            InvalidRequest: no such folder, or a file that was taken has changed since and `retake` does not name it.
            Unsupported: the table cannot be written.
        """
        limits = SourceFolder.of(
            os.fspath(folder),
            min_age_s=min_age_s,
            max_files=max_files,
            max_bytes=max_bytes,
            retake=listed_paths(retake),
        )
        return limits.offer(self._session)[1]

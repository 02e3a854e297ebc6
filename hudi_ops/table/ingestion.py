"""The half of a table that takes rows: those that a program gives, and the files of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hudi_ops.commit.ledger import Offer
from hudi_ops.commit.retry import retried
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import EngineName
from hudi_ops.services.base.engine import choose_engine, choose_frame_engine
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.folder import SourceFolder, ingest_folder
from hudi_ops.services.write.ingest import IngestResult, ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.services.write.rows import GivenRows
from hudi_ops.storage.open import open_folder


class IngestableTable:
    """What `hudi_ops.Table` takes rows with."""

    _session: Session

    def ingest(
        self, data: Any, operation: str = "upsert", *, engine: EngineName = "auto", evolve: bool = False
    ) -> IngestResult:
        """Write rows that a program holds, makes or can stream, in one commit. They may be larger than memory.

        Args:
            data: a `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`; a data frame of pandas or Polars (also a lazy one); a
                DuckDB relation; a `Scan`; anything with the Arrow C stream interface; an iterable of record batches of one
                schema; or a PySpark DataFrame. Streams and DataFrames are read once, whatever happens.
            operation: `upsert`; `insert`, which refuses keys that are there; `delete`, by key; `bulk_insert`, which looks no key
                up, so that one that is there lies in the table twice; `insert_overwrite`, which replaces the partitions that the
                rows touch; `insert_overwrite_table`, which replaces all of them.
            engine: `local`, `spark`, or `auto`: a DataFrame is written on its executors, a stream by this process, and rows in
                memory as their bytes suggest.
            evolve: let the table take new columns and wider types from the rows; missing columns are null then. Rows need not be
                there: an empty table with the wanted columns changes the schema alone.

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
            return retried(self._session, lambda started_s: ingest(self._session, batch, chosen, reason, started_s))

    def ingest_folder(
        self,
        folder: str,
        operation: str = "upsert",
        *,
        engine: EngineName = "auto",
        min_age_s: float = 0.0,
        max_files: int | None = None,
        max_bytes: int | None = None,
        evolve: bool = False,
        retake: Sequence[str] = (),
    ) -> IngestResult:
        """Write the files of a folder that were not taken before, each exactly once.

        Args:
            folder: holds CSV, JSON lines or Parquet files, at any depth; names beginning with `_` or `.` wait.
            operation: as in `ingest`.
            engine: as in `ingest`.
            min_age_s: files that changed more recently wait.
            max_files: so many files in this commit, by path; the others are for the next call. None: all.
            max_bytes: as many files as lie within so many bytes, one at least. None: all.
            evolve: as in `ingest`; the table takes the columns of all files together.
            retake: paths below the folder of files that were taken before and corrected since; only with upsert. They come before
                the new files, and one that did not change is not taken again. Rows that a corrected file lacks now stay.

        Raises:
            InvalidRequest: a file does not fit the table, or changed after it was taken and `retake` does not name it; nothing
                was changed.
            Conflict: lost to overlapping writes again and again.
        """
        limits = SourceFolder(open_folder(folder), min_age_s, max_files, max_bytes, _listed(retake))
        return ingest_folder(self._session, limits, parse_operation(operation), engine, evolve=evolve)

    def preview_folder(
        self,
        folder: str,
        *,
        min_age_s: float = 0.0,
        max_files: int | None = None,
        max_bytes: int | None = None,
        retake: Sequence[str] = (),
    ) -> Offer:
        """What `ingest_folder` would take now, and which names would wait for what reason; changes nothing.

        Args:
            folder: as there.
            min_age_s: as there.
            max_files: as there.
            max_bytes: as there.
            retake: as there.

        Raises:
            InvalidRequest: no such folder, or a file that was taken has changed since and `retake` does not name it.
            Unsupported: the table cannot be written.
        """
        limits = SourceFolder(open_folder(folder), min_age_s, max_files, max_bytes, _listed(retake))
        return limits.offer(self._session)[1]


def _listed(paths: Sequence[str]) -> tuple[str, ...]:
    """Whoever passes one path as a string means that path, not its letters."""
    return (paths,) if isinstance(paths, str) else tuple(paths)

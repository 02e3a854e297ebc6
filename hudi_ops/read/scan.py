"""Scan a table at one moment, as a stream in bounded memory or for Polars, DuckDB, pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Tally, TellProgress
from hudi_ops.engine.stream import in_order
from hudi_ops.errors import HudiOpsError, InvalidRequest, NotFound
from hudi_ops.files.slice.file_scan import FileTask
from hudi_ops.files.slice.slice_scan import SliceTask, open_scan
from hudi_ops.formats.html_table import html_table
from hudi_ops.read.checkpoints import checkpoint_of_all
from hudi_ops.read.lost_files import vanished
from hudi_ops.read.plan import ReadPlan
from hudi_ops.view.columns.read_tasks import ReadTask

if TYPE_CHECKING:
    import duckdb
    import polars as pl

FILES_AHEAD = 4
"""Most files that a stream reads at a time; each holds a few batches of `files.slice.file_scan.BATCH_BYTES` in memory."""

_BATCHES_AHEAD = 2


@dataclass(frozen=True)
class Explanation:
    """Counts of what a scan reads, and of what its condition excludes.

    Attributes:
        listing: source of the file listing: `storage`, or `metadata`, the metadata table.
        partitions_read: partitions whose files are listed.
        partitions_skipped: partitions, and folders with all below them, that were left out.
        partitions_skipped_by_statistics: of those, by the metadata table's `partition_stats`.
        partitions_skipped_by_record_index: of those, partitions without a wanted key.
        groups_skipped_by_statistics: file groups that the metadata table's `column_stats` exclude; their files are not opened.
        groups_skipped_by_record_index: file groups without a wanted key, by the record index; not opened either.
        groups_skipped_by_bucket: file groups whose bucket has none of the wanted keys; not opened either.
        groups_skipped_by_bloom_filters: file groups that the metadata table's `bloom_filters` exclude; not opened either.
        files_read: base files from which rows are read.
        files_skipped: base files of the listed partitions that cannot hold a matching row, by indexes or footers.
        log_files_read: log files whose records are merged with the rows.
        row_groups_read: row groups that are read.
        row_groups_skipped: the other row groups of the opened files.
        bytes_read: total size of the files that are read, log files included, even if only parts of a file are read.
        log_bytes_read: size of the log files.
        rows_at_most: rows in the row groups that are read, plus records of the log files.
        record_index_unused: why the table's record index did not locate the wanted keys; empty: it did, or it was not needed.
        located_by: the secondary index that returned the wanted keys; empty: none was used.
    """

    listing: str
    partitions_read: int
    partitions_skipped: int
    partitions_skipped_by_statistics: int
    partitions_skipped_by_record_index: int
    groups_skipped_by_statistics: int
    groups_skipped_by_record_index: int
    groups_skipped_by_bloom_filters: int
    files_read: int
    files_skipped: int
    log_files_read: int
    row_groups_read: int
    row_groups_skipped: int
    bytes_read: int
    log_bytes_read: int
    rows_at_most: int
    record_index_unused: str = ""
    located_by: str = ""
    groups_skipped_by_bucket: int = 0

    def as_dict(self) -> dict[str, int | str]:
        """Return the fields by name."""
        return asdict(self)

    def __str__(self) -> str:
        partitions = _by({
            "partition_stats": self.partitions_skipped_by_statistics,
            self.located_by or "record_index": self.partitions_skipped_by_record_index,
        })
        groups = {
            "column_stats": self.groups_skipped_by_statistics,
            self.located_by or "record_index": self.groups_skipped_by_record_index,
            "bucket": self.groups_skipped_by_bucket,
            "bloom_filters": self.groups_skipped_by_bloom_filters,
        }
        by = "by the metadata table" if self.listing == "metadata" else "of folders"
        lines = [
            f"listing     {by}",
            f"partitions  {self.partitions_read} read, {self.partitions_skipped} skipped{partitions}",
            f"file groups {sum(groups.values())} skipped{_by(groups)}" if any(groups.values()) else "",
            f"files       {self.files_read} read, {self.files_skipped} skipped",
            f"log files   {self.log_files_read} read, {self.log_bytes_read} bytes",
            f"row groups  {self.row_groups_read} read, {self.row_groups_skipped} skipped",
            f"at most     {self.rows_at_most} rows in files of {self.bytes_read} bytes",
            f"not used    record_index: {self.record_index_unused}" if self.record_index_unused else "",
        ]
        return "\n".join(line for line in lines if line)


class Scan:
    """Rows of a table at the moment the scan was made. Each use reads the same files again.

    Programs with the Arrow C stream interface accept a scan: `pyarrow.table(scan)`, `polars.DataFrame(scan)`. `threads` is the
    number of files that are read at a time; None: the number of cores.
    """

    def __init__(self, plan: ReadPlan, threads: int | None = None) -> None:
        self._plan = plan
        self._engine = LocalEngine(threads)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"{type(self).__name__}({self._plan.table}: {facts})"

    def _repr_html_(self) -> str:
        """Return the scan as a small table, for notebooks."""
        columns = {field.name: field.type for field in self.schema}
        return html_table(f"{type(self).__name__} of {self._plan.table}", {**self._facts(), **columns})

    def _facts(self) -> dict[str, int]:
        facts = {"columns": len(self.schema), "partitions": len(self._plan.partitions), "file groups": len(self.tasks)}
        limit = {"limit": self._plan.limit} if self._plan.limit is not None else {}
        return {**facts, "bytes": self._plan.tasks.size_bytes, **limit}

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self._plan.schema

    @property
    def tasks(self) -> Sequence[FileTask | SliceTask]:
        """The files and slices to read, for engines that run them elsewhere; without the limit.

        They are a sequence whose items are made when they are taken.
        """
        return self._plan.tasks

    def to_batches(self, progress: TellProgress | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows by partition and file group; a few files are read ahead, none is held whole.

        Close the iterator to stop reading.

        Args:
            progress: called after each file group.

        Raises:
            Unavailable: a file was cleaned away meanwhile, or the storage did not answer.
            Corrupt: a file cannot be read, or is lost.
            InvalidRequest: an Arrow expression cannot be computed, for example a sum that overflows.
        """
        left = self._plan.limit
        if left is None:
            yield from self._stream(None, min(FILES_AHEAD, self._engine.threads), progress)
            return
        if left == 0:
            return
        for batch in self._stream(left, 1):
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches of `to_batches` with their schema."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows in memory; raises as `to_batches` does."""
        if self._plan.limit is not None:
            return pa.Table.from_batches(self.to_batches(), self.schema)
        # This process needs all rows in any case, so Spark executors would only add a transfer.
        with _Vanishing(self._gone):
            parts = self._engine.map(_read_whole, self._plan.tasks)
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def to_pandas(self) -> Any:
        """Return all rows as a pandas data frame; raises as `to_batches` does."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars data frame; raises as `to_batches` does.

        Raises:
            InvalidRequest: Polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise InvalidRequest(**_not_installed("polars", error)) from error
        found: pl.DataFrame = polars.from_arrow(self.to_arrow())  # type: ignore[assignment]
        return found

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a relation over the rows; each query reads the files again, as a stream.

        `connection` None: DuckDB's default connection.

        Raises:
            InvalidRequest: DuckDB is not installed.
        """
        try:
            import duckdb
        except ImportError as error:
            raise InvalidRequest(**_not_installed("duckdb", error)) from error
        return (connection or duckdb.default_connection()).from_arrow(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the Arrow C stream of `to_batches`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def count_rows(self) -> int:
        """Count the rows; without a condition only footers and keys of log files are read."""
        with _Vanishing(self._gone):
            total = sum(self._engine.map(_count, self._plan.tasks))
        return total if self._plan.limit is None else min(total, self._plan.limit)

    def explain(self) -> Explanation:
        """Return counts of what is read and excluded; opens footers and reads keys of log files."""
        with _Vanishing(self._gone):
            files = self._engine.map(_look, self._plan.tasks)
        read = [one for one in files if one.row_groups]
        groups = sum(one.row_groups for one in files)
        left_out = self._plan.left_out
        return Explanation(
            listing=left_out.listing,
            partitions_read=len(self._plan.partitions),
            partitions_skipped=len(self._plan.partitions_skipped),
            partitions_skipped_by_statistics=left_out.partitions_by_statistics,
            partitions_skipped_by_record_index=left_out.partitions_by_record_index,
            groups_skipped_by_statistics=left_out.groups_by_statistics,
            groups_skipped_by_record_index=left_out.groups_by_record_index,
            groups_skipped_by_bloom_filters=left_out.groups_by_bloom_filters,
            files_read=len(read),
            files_skipped=sum(one.has_base for one in files) - len(read) + left_out.base_files,
            log_files_read=sum(one.logs for one in files),
            row_groups_read=groups,
            row_groups_skipped=sum(one.row_groups_in_file for one in files) - groups,
            bytes_read=sum(one.base_bytes for one in read) + sum(one.log_bytes for one in files),
            log_bytes_read=sum(one.log_bytes for one in files),
            rows_at_most=sum(one.rows for one in files),
            record_index_unused=left_out.record_index_unused,
            located_by=left_out.located_by,
            groups_skipped_by_bucket=left_out.groups_by_bucket,
        )

    @property
    def checkpoint(self) -> str:
        """Return the checkpoint after this read, for `Table.changes`; store it after the rows.

        Raises:
            InvalidRequest: the read has a limit, is as of an earlier instant, or omits the log files of a slice.
        """
        self._refuse_cut()
        if self._plan.opened is None:
            raise InvalidRequest(
                "a read as of an instant, or of base files alone, has no checkpoint: a later read would miss its rows",
                table=self._plan.table,
                expected="a read of the table as it is",
                found="as_of, or query=read_optimized",
                next_step="read without them, or pass a completion time as `since`",
            )
        return checkpoint_of_all(self._plan.opened).encode()

    def _refuse_cut(self) -> None:
        if self._plan.limit is not None:
            raise InvalidRequest(
                "a read with a limit has no checkpoint: a later read would miss the rows beyond the limit",
                table=self._plan.table,
                expected="a read without a limit",
                found=f"limit {self._plan.limit}",
                next_step="read all rows, in batches if they are many, or narrow them by `where`",
            )

    def _gone(self, error: NotFound) -> HudiOpsError:
        again = "read again; the cleaner removed an old slice. If it repeats, run `hudi-ops verify`"
        return vanished(self._plan.tasks.storage, error, again, self._plan.table)

    def _stream(
        self, batch_rows: int | None, threads: int, progress: TellProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        tasks = self._plan.tasks
        tally = Tally(progress, "file groups", len(tasks), tasks.size_bytes) if progress is not None else None

        def produce(task: ReadTask) -> Iterator[pa.RecordBatch]:
            yield from open_scan(task, streaming=True).batches(batch_rows)
            if tally is not None:
                tally.add(task.size_bytes)

        with _Vanishing(self._gone):
            yield from in_order(produce, tasks, threads=threads, ahead=_BATCHES_AHEAD)


@dataclass(frozen=True)
class _Looked:
    has_base: bool
    row_groups: int
    row_groups_in_file: int
    rows: int
    base_bytes: int
    logs: int
    log_bytes: int


class _Vanishing:
    """Context that turns `NotFound` of a data file into the error for the reader."""

    def __init__(self, gone: Callable[[NotFound], HudiOpsError]) -> None:
        self._gone = gone

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, NotFound):
            raise self._gone(error) from error


def _read_whole(task: ReadTask) -> pa.Table:
    return open_scan(task, streaming=False).table()


def _count(task: ReadTask) -> int:
    return open_scan(task, streaming=True).count()


def _look(task: ReadTask) -> _Looked:
    scan = open_scan(task, streaming=True)
    logs, log_bytes = (len(task.logs), task.log_bytes) if isinstance(task, SliceTask) else (0, 0)
    has_base = not isinstance(task, SliceTask) or task.base is not None
    return _Looked(
        has_base, len(scan.row_groups), scan.row_groups_in_file, scan.rows, task.size_bytes - log_bytes, logs, log_bytes
    )


def _by(counts: dict[str, int]) -> str:
    said = [f"{count} by {name}" for name, count in counts.items() if count]
    return f" ({', '.join(said)})" if said else ""


def _not_installed(package: str, error: ImportError) -> dict[str, str]:
    return {
        "what": f"{package} is not installed: {error}",
        "expected": f"the package {package} beside hudi-ops",
        "found": "none",
        "next_step": f"pip install {package}, or take to_arrow() or to_batches()",
    }

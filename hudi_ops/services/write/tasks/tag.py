"""The first tasks of an ingest, run by any engine: read one source run by run, tag its rows with their bucket, split them.

They run on executors: everything they need comes in their input, and what they made goes back as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.engine.protocol import Chunk, Produced
from hudi_ops.errors import InvalidRequest
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.statistics import first_null_row
from hudi_ops.sources.runs import RUN_BYTES, Run, runs_of
from hudi_ops.sources.source import count_from, fit_rows, read_runs
from hudi_ops.storage.protocol import FileInfo, Storage

GIVEN = "the rows given"
"""Where rows in memory come from, for errors."""


@dataclass(frozen=True)
class TagSpec:
    """What tagging needs to know of the table. Chunks that were tagged by an equal one may be used.

    Attributes:
        tagger: routes rows.
        schema: the table's columns, without meta columns.
        required: columns that every source must have.
        ordering: column that must hold a value in every row, where it is required.
        kept: columns that go on to the second step; None for all.
        fill: columns that are not required may be missing, and are null then.
        looks_up: keys are looked up before rows are written: columns that come in chunks of their own too, the record key first.
        unstored: partition columns, which route rows and are in no file.
    """

    tagger: Tagger
    schema: pa.Schema
    required: tuple[str, ...]
    ordering: str | None = None
    kept: tuple[str, ...] | None = None
    fill: bool = False
    looks_up: tuple[str, ...] = ()
    unstored: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceTask:
    """One source to read and tag: a part of a file of `storage`, or a run of rows in memory."""

    spec: TagSpec
    storage: Storage | None = None
    file: FileInfo | None = None
    part: tuple[int, int] = (0, 1)
    rows: pa.Table | None = None
    first_row: int = 0


@dataclass(frozen=True)
class SourceSummary:
    """What a run of a source held: rows in all, rows of each (partition path, bucket), and bytes in Arrow."""

    rows: int
    groups: tuple[tuple[str, int, int], ...]
    size_bytes: int = 0


@dataclass(frozen=True)
class BatchTagger:
    """First task over record batches that an engine brings along: those of one partition of a Spark DataFrame."""

    spec: TagSpec

    def __call__(self, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[Produced]:
        """Rows split by bucket, run by run; nothing when there is no batch.

        Args:
            batches: of one schema.
            where: what they are, for errors.
        """
        rest = iter(batches)
        for first in rest:
            for run in runs_of(_chained(first, rest), first.schema, RUN_BYTES):
                yield _fit_and_tag(run, self.spec, where)


def chunk_key(partition_path: str, bucket: int) -> str:
    """Key of a bucket's chunks."""
    return f"{bucket:08d}/{partition_path}"


def keys_key(partition_path: str, lane: int) -> str:
    """Key of the chunks that hold the record keys of a lane alone, where they are looked up."""
    return f"keys {chunk_key(partition_path, lane)}"


def read_and_tag(task: SourceTask) -> Iterator[Produced]:
    """First task: rows of one source, run by run, split by the bucket they belong to.

    Raises:
        InvalidRequest: the source does not fit the table; names file, field and row.
    """
    if task.storage is None or task.file is None:
        rows = task.rows if task.rows is not None else task.spec.schema.empty_table()
        yield _fit_and_tag((task.first_row, rows), task.spec, GIVEN)
        return
    where = f"{task.storage.uri}/{task.file.path}"
    spec = task.spec
    for run in read_runs(task.storage, task.file, spec.schema, spec.required, task.part, fill=spec.fill):
        yield _tag(run, spec, where)


def _fit_and_tag(run: Run, spec: TagSpec, where: str) -> Produced:
    first, rows = run
    try:
        fitted = fit_rows(rows, spec.schema, spec.required, where, fill=spec.fill)
    except InvalidRequest as error:
        count_from(error, first)
        raise
    return _tag((first, fitted), spec, where)


def _tag(run: Run, spec: TagSpec, where: str) -> Produced:
    first, rows = run
    try:
        _refuse_null_ordering(rows, spec)
        if spec.kept is not None:
            rows = rows.select(spec.kept)
        parts = spec.tagger.split(rows)
        if spec.unstored:
            parts = [(path, bucket, part.drop_columns(list(spec.unstored))) for path, bucket, part in parts]
    except InvalidRequest as error:
        error.what = f"{where}: {error.what}"
        count_from(error, first)
        raise
    chunks = [Chunk(chunk_key(path, bucket), part) for path, bucket, part in parts]
    if spec.looks_up:
        chunks += [Chunk(keys_key(path, bucket), part.select(spec.looks_up)) for path, bucket, part in parts]
    counts = tuple((path, bucket, part.num_rows) for path, bucket, part in parts)
    return Produced(SourceSummary(rows.num_rows, counts, rows.nbytes), tuple(chunks))


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _refuse_null_ordering(rows: pa.Table, spec: TagSpec) -> None:
    # Apache Hudi fails on such a row when it meets an older one; dropping it in silence would be worse.
    column = rows.column(spec.ordering) if spec.ordering in spec.required else None
    row = first_null_row(column) if column is not None else None
    if row is not None:
        raise InvalidRequest(
            f"row {row}: the ordering column {spec.ordering} is null",
            expected="a value in every row: it says which of two rows is the newer",
            found="null",
            next_step="correct the row, or make the table without an ordering column",
            row=row,
            field=spec.ordering,
        )

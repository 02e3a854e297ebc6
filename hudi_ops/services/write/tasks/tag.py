"""First task of an ingest: read a source run by run, tag its rows with buckets, split them.

It runs on executors: its input holds everything it needs, and it returns its result as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.engine.protocol import Chunk, Produced
from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import Ranges
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.merging.merge import Ordering, combine
from hudi_ops.kernels.statistics import first_null_row
from hudi_ops.services.write.routing.known_rings import KnownRings
from hudi_ops.sources.limits import VALUE_BYTES_MAX, refuse_large_values
from hudi_ops.sources.refusal import count_from, name_line
from hudi_ops.sources.runs import RUN_BYTES, Run, picked, runs_of
from hudi_ops.sources.source import fit_rows, read_runs
from hudi_ops.storage.protocol import FileInfo, Storage

_FOLDED_ROWS_MIN, _SAMPLED_KEYS = 64, 1024
GIVEN = "the input"
"""Name of rows in memory, for errors."""


@dataclass(frozen=True)
class TagSpec:
    """Facts of the table that tagging needs; tagged chunks can be used for an equal spec.

    Attributes:
        tagger: routes rows.
        schema: the table's columns, without meta columns.
        required: columns that every source must have.
        ordering: column without nulls, if it is required.
        kept: columns for the second step; None for all.
        fill: columns that are not required may be missing, and are null then.
        looks_up: columns in further chunks for the lookup of keys, the record key first; empty: no lookup.
        folds: rule by which the newest of equal keys is kept before rows are merged; None: all rows are kept.
        keeps_second: a second row of each key is kept too: an insert refuses the key later, when it can name the partition.
        unstored: partition columns, which route rows and are in no file.
        rings: hash rings that are known before the split. They are not compared: chunks that were split by an older ring can be
            used, and are split again.
    """

    tagger: Tagger
    schema: pa.Schema
    required: tuple[str, ...]
    ordering: str | None = None
    kept: tuple[str, ...] | None = None
    fill: bool = False
    looks_up: tuple[str, ...] = ()
    folds: Ordering | None = None
    keeps_second: bool = False
    unstored: tuple[str, ...] = ()
    rings: KnownRings | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SourceTask:
    """One source to read and tag: a part of a file of `storage`, or a run of rows in memory.

    `run_bytes` and `value_bytes` limit the decoded bytes of a run and of one value.
    """

    spec: TagSpec
    storage: Storage | None = None
    file: FileInfo | None = None
    part: tuple[int, int] = (0, 1)
    rows: pa.Table | None = None
    first_row: int = 0
    run_bytes: int = RUN_BYTES
    value_bytes: int = VALUE_BYTES_MAX


@dataclass(frozen=True)
class SourceSummary:
    """Content of a run of a source: rows, rows of each (partition path, bucket), Arrow bytes.

    `ranges` are those that split the rows of partitions with a known hash ring, by partition path.
    """

    rows: int
    groups: tuple[tuple[str, int, int], ...]
    size_bytes: int = 0
    ranges: Mapping[str, Ranges] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchTagger:
    """First task over record batches of an engine: one partition of a Spark DataFrame."""

    spec: TagSpec

    def __call__(self, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[Produced]:
        """Yield rows split by bucket, run by run; `where` names the batches of one schema in errors."""
        rest = iter(batches)
        for first in rest:
            for run in runs_of(_chained(first, rest), first.schema, RUN_BYTES):
                yield _fit_and_tag(run, self.spec, where)


def chunk_key(partition_path: str, bucket: int) -> str:
    """Return the key of a bucket's chunks."""
    return f"{bucket:08d}/{partition_path}"


def keys_key(partition_path: str, shard: int) -> str:
    """Return the key of the chunks that hold the record keys of a shard for the lookup."""
    return f"keys {chunk_key(partition_path, shard)}"


def read_and_tag(task: SourceTask) -> Iterator[Produced]:
    """Yield the rows of one source, run by run, split by bucket.

    Raises:
        InvalidRequest: the source does not fit the table; names file, field, and line or row.
    """
    if task.storage is None or task.file is None:
        rows = task.rows if task.rows is not None else task.spec.schema.empty_table()
        yield _fit_and_tag((task.first_row, rows), task.spec, GIVEN, task.value_bytes)
        return
    where = f"{task.storage.uri}/{task.file.path}"
    spec = task.spec
    runs = read_runs(
        task.storage,
        task.file,
        spec.schema,
        spec.required,
        task.part,
        task.run_bytes,
        fill=spec.fill,
        value_bytes=task.value_bytes,
    )
    for run in runs:
        try:
            yield _tag(run, spec, where)
        except InvalidRequest as error:
            name_line(error, task.storage, task.file)
            raise


def _fit_and_tag(run: Run, spec: TagSpec, where: str, value_bytes: int = VALUE_BYTES_MAX) -> Produced:
    first, rows = run
    try:
        refuse_large_values(rows, value_bytes, where)
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
        ranges_of = spec.rings.ranges_of if spec.rings is not None else None
        parts, size_bytes = spec.tagger.split_sized(rows, ranges_of)
        if spec.unstored:
            parts = [(path, bucket, part.drop_columns(list(spec.unstored))) for path, bucket, part in parts]
    except InvalidRequest as error:
        error.what = f"{where}: {error.what}"
        count_from(error, first)
        raise
    counts = tuple((path, bucket, part.num_rows) for path, bucket, part in parts)
    if spec.folds is not None:
        parts = [(path, bucket, _folded(part, spec, spec.folds)) for path, bucket, part in parts]
        if sum(part.num_rows for _, _, part in parts) < rows.num_rows:
            size_bytes = sum(part.nbytes for _, _, part in parts)
    chunks = [Chunk(chunk_key(path, bucket), part) for path, bucket, part in parts]
    if spec.looks_up:
        looked_up = [Chunk(keys_key(path, bucket), part.select(spec.looks_up)) for path, bucket, part in parts]
        size_bytes += sum(chunk.rows.nbytes for chunk in looked_up)
        chunks += looked_up
    known = spec.rings.ranges if spec.rings is not None else {}
    ranges = {path: found for path in dict.fromkeys(path for path, _, _ in parts) if (found := known.get(path))}
    return Produced(SourceSummary(rows.num_rows, counts, rows.nbytes, ranges), tuple(chunks), size_bytes)


def _folded(rows: pa.Table, spec: TagSpec, mode: Ordering) -> pa.Table:
    """Return the newest row of each key if a sample shows that keys repeat, else all rows.

    A merge of the winners has the same outcome. Without this, many rows of one key would be in memory together. With
    `keeps_second` a second row of each key stays.
    """
    if rows.num_rows < _FOLDED_ROWS_MIN:
        return rows
    column = rows.column(RECORD_KEY)
    sample = column.take(pa.array(range(0, rows.num_rows, max(1, rows.num_rows // _SAMPLED_KEYS))))
    if pc.count_distinct(sample).as_py() * 2 > len(sample):
        return rows
    keys = joined([column], column.type)
    ordering = rows.column(spec.ordering) if spec.ordering in rows.column_names else None
    winners = combine(keys, joined([ordering], ordering.type) if ordering is not None else None, mode)
    if spec.keeps_second:
        others = np.setdiff1d(np.arange(rows.num_rows), winners)
        second = others[combine(keys.take(pa.array(others)), None, Ordering.COMMIT_TIME)]
        winners = pa.array(np.union1d(winners, second))
    return picked(rows, winners)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _refuse_null_ordering(rows: pa.Table, spec: TagSpec) -> None:
    # Apache Hudi fails on such a row when it merges it with an older one; dropping it silently would be worse.
    column = rows.column(spec.ordering) if spec.ordering in spec.required else None
    row = first_null_row(column) if column is not None else None
    if row is not None:
        raise InvalidRequest(
            f"row {row}: the ordering column {spec.ordering} is null",
            expected="a value in every row: it decides which of two rows is the newer",
            found="null",
            next_step="correct the row, or make the table without an ordering column",
            row=row,
            field=spec.ordering,
        )

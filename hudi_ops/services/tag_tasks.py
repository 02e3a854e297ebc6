"""The first tasks of an ingest, run by any engine: read one source, tag its rows with their bucket, split them.

They run on executors: everything they need comes in their input, and what they made goes back as a value.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.engine.protocol import Chunk, Produced
from hudi_ops.errors import InvalidRequest
from hudi_ops.files.source import fit_rows, read_source
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.statistics import first_null_row
from hudi_ops.storage.protocol import FileInfo, Storage

GIVEN = "the rows given"
"""Where rows in memory come from, for errors."""


@dataclass(frozen=True)
class SourceTask:
    """One source to read and tag: a file of `storage`, or rows in memory. `ordinal` orders rows of different sources.

    `fill` says that columns which are not required may be missing, and are null then.
    """

    ordinal: int
    tagger: Tagger
    schema: pa.Schema
    required: tuple[str, ...]
    ordering: str | None = None
    storage: Storage | None = None
    file: FileInfo | None = None
    rows: pa.Table | None = None
    fill: bool = False


@dataclass(frozen=True)
class SourceSummary:
    """What a source held: rows in all, and rows of each (partition path, bucket)."""

    rows: int
    groups: tuple[tuple[str, int, int], ...]


def chunk_key(partition_path: str, bucket: int) -> str:
    """Key of a bucket's chunks."""
    return f"{bucket:08d}/{partition_path}"


def read_and_tag(task: SourceTask) -> Produced:
    """First task: rows of one source, split by the bucket they belong to.

    Raises:
        InvalidRequest: the source does not fit the table; names file, field and row.
    """
    if task.storage is None or task.file is None:
        given = task.rows if task.rows is not None else task.schema.empty_table()
        where, rows = GIVEN, fit_rows(given, task.schema, task.required, GIVEN, fill=task.fill)
    else:
        where = f"{task.storage.uri}/{task.file.path}"
        rows = read_source(task.storage, task.file, task.schema, task.required, fill=task.fill)
    _refuse_null_ordering(rows, task, where)
    try:
        parts = task.tagger.split(rows)
    except InvalidRequest as error:
        error.what = f"{where}: {error.what}"
        raise
    chunks = tuple(Chunk(chunk_key(path, bucket), task.ordinal, part) for path, bucket, part in parts)
    return Produced(SourceSummary(rows.num_rows, tuple((p, b, part.num_rows) for p, b, part in parts)), chunks)


def _refuse_null_ordering(rows: pa.Table, task: SourceTask, where: str) -> None:
    # Apache Hudi fails on such a row when it meets an older one; dropping it in silence would be worse.
    column = rows.column(task.ordering) if task.ordering in task.required else None
    row = first_null_row(column) if column is not None else None
    if row is not None:
        raise InvalidRequest(
            f"{where}: row {row}: the ordering column {task.ordering} is null",
            expected="a value in every row: it says which of two rows is the newer",
            found="null",
            next_step="correct the row, or make the table without an ordering column",
            row=row,
            field=task.ordering,
        )

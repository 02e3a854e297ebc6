"""Reader of Parquet sources; neither a file nor a row group is in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.sources.runs import Run, runs_of

INT96_UNIT = "us"
"""Unit at which times of 96 bits are read, as Spark reads them: in nanoseconds they would end in the year 2262."""

_BATCH_ROWS_MAX = 1 << 16
_BATCH_BYTES = 4 << 20
_READ_BYTES = 1 << 20


def open_parquet(source: pa.NativeFile) -> pq.ParquetFile:
    """Open a Parquet file; INT96 times, Spark's default, are read at microseconds."""
    # Pages are read when they are decoded; reading ahead would hold a whole row group's.
    return pq.ParquetFile(source, pre_buffer=False, buffer_size=_READ_BYTES, coerce_int96_timestamp_unit=INT96_UNIT)


def parquet_runs(source: pa.NativeFile, part: tuple[int, int], run_bytes: int) -> Iterator[Run]:
    """Yield the rows of the i-th of n parts of a file, given as `part` (i, n).

    Parts are about equal in bytes; each row group belongs to one, and parts follow the order of rows.
    """
    file = open_parquet(source)
    groups, first = groups_of_part(file.metadata, part)
    if not groups and part[0]:
        return
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    size_bytes = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    batch_rows = max(1, min(_BATCH_ROWS_MAX, rows * _BATCH_BYTES // max(1, size_bytes)))
    batches = file.iter_batches(batch_size=batch_rows, row_groups=groups) if rows else ()
    for offset, run in runs_of(batches, file.schema_arrow, run_bytes):
        yield first + offset, run


def damaged_column(source: pa.NativeFile) -> tuple[str, int] | None:
    """Return the first column that cannot be decoded, and the first row of its row group."""
    file, first = open_parquet(source), 0
    for group in range(file.num_row_groups):
        for name in file.schema_arrow.names:
            try:
                for _ in file.iter_batches(row_groups=[group], columns=[name]):
                    pass
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
                return name, first
        first += file.metadata.row_group(group).num_rows
    return None


def groups_of_part(metadata: pq.FileMetaData, part: tuple[int, int]) -> tuple[list[int], int]:
    """Return the row groups of a part, divided by size, and the number of its first row."""
    number, parts = part
    sizes = [max(1, metadata.row_group(group).total_byte_size) for group in range(metadata.num_row_groups)]
    total, before, first, rows, found = sum(sizes), 0, 0, 0, list[int]()
    for group, size in enumerate(sizes):
        if (2 * before + size) * parts // (2 * total) == number:
            first = first if found else rows
            found.append(group)
        before += size
        rows += metadata.row_group(group).num_rows
    return found, first

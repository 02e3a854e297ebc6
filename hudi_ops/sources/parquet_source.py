"""Reader of Parquet sources; neither a file nor a row group is in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.formats.parquet.encoded_columns import decoded_pieces, encoded_columns
from hudi_ops.formats.parquet.pages import large_value
from hudi_ops.sources.limits import ReadLimits, too_large
from hudi_ops.sources.runs import Run, runs_of

INT96_UNIT = "us"
"""Unit at which times of 96 bits are read, as Spark reads them: in nanoseconds they would end in the year 2262."""

_BATCH_ROWS_MAX = 1 << 16
_BATCH_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_SAMPLED_ROWS = 16


def open_parquet(
    source: pa.NativeFile, metadata: pq.FileMetaData | None = None, encoded: Sequence[str] = ()
) -> pq.ParquetFile:
    """Open a Parquet file; INT96 times, Spark's default, are read at microseconds.

    `metadata`: its footer, if it was read before. `encoded`: columns that are read as dictionaries.
    """
    # Pages are read when they are decoded; reading ahead would hold a whole row group's.
    return pq.ParquetFile(
        source,
        metadata=metadata,
        read_dictionary=list(encoded),
        pre_buffer=False,
        buffer_size=_READ_BYTES,
        coerce_int96_timestamp_unit=INT96_UNIT,
    )


def parquet_runs(source: pa.NativeFile, part: tuple[int, int], limits: ReadLimits) -> Iterator[Run]:
    """Yield the rows of the i-th of n parts of a file, given as `part` (i, n).

    Parts are about equal in bytes; each row group belongs to one, and parts follow the order of rows. Texts that a file holds
    once, in a dictionary, are decoded only for as many rows at a time as fit into a run.

    Raises:
        InvalidRequest: a value is larger than the limit. It is not decoded.
    """
    file = open_parquet(source)
    groups, first = groups_of_part(file.metadata, part)
    if not groups and part[0]:
        return
    _refuse_large_value(source, file, groups, first, limits)
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    schema, batches = file.schema_arrow, iter(())
    if rows:
        size_bytes = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        batch_rows = min(_BATCH_ROWS_MAX, rows * _BATCH_BYTES // max(1, size_bytes), _nested_rows(file, groups, limits))
        encoded = open_parquet(source, file.metadata, encoded_columns(file, groups))
        found = encoded.iter_batches(batch_size=max(1, batch_rows), row_groups=groups)
        batches = (piece for batch in found for piece in decoded_pieces(batch, schema, limits.run_bytes))
    for offset, run in runs_of(batches, schema, limits.run_bytes):
        yield first + offset, run


def _refuse_large_value(
    source: pa.NativeFile, file: pq.ParquetFile, groups: Sequence[int], first: int, limits: ReadLimits
) -> None:
    for group in groups:
        chunks = file.metadata.row_group(group)
        for place in range(chunks.num_columns):
            leaf = file.schema.column(place)
            levels = (leaf.max_definition_level > 0) + (leaf.max_repetition_level > 0)
            found = large_value(source, chunks.column(place), limits.value_bytes, levels)
            if found is not None:
                # The values of a list are not counted by rows.
                row = first + (0 if leaf.max_repetition_level else found.row)
                is_exact = found.is_exact and not leaf.max_repetition_level
                raise too_large(limits.where, leaf.path.partition(".")[0], row, limits.value_bytes, is_exact=is_exact)
        first += chunks.num_rows


def _nested_rows(file: pq.ParquetFile, groups: Sequence[int], limits: ReadLimits) -> int:
    """Return how many rows of nested columns fit into a run, by samples."""
    names = [field.name for field in file.schema_arrow if pa.types.is_nested(field.type)]
    most = _BATCH_ROWS_MAX
    for group in groups if names else ():
        head = next(file.iter_batches(_SAMPLED_ROWS, row_groups=[group], columns=names), None)
        if head is not None and head.num_rows:
            most = min(most, limits.run_bytes * head.num_rows // max(1, head.nbytes))
    return most


def damaged_column(source: pa.NativeFile) -> tuple[str, int] | None:
    """Return the first column that cannot be decoded, and the first row of its row group."""
    file, first = open_parquet(source), 0
    encoded = open_parquet(source, file.metadata, encoded_columns(file, range(file.num_row_groups)))
    for group in range(file.num_row_groups):
        for name in file.schema_arrow.names:
            try:
                for _ in encoded.iter_batches(row_groups=[group], columns=[name]):
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

"""Split a stream of batches into bounded runs, the unit of reading, checking, routing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

RUN_BYTES = 32 << 20
"""Arrow bytes of one run. Several threads hold a few runs each; the written files do not depend on the ends of runs."""

Run: TypeAlias = tuple[int, pa.Table]
"""Number of the first row in its source, from 0, and the rows."""


def runs_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema, run_bytes: int = RUN_BYTES) -> Iterator[Run]:
    """Join small batches and slice large ones, to about `run_bytes`; a larger row is a run.

    A stream without rows gives one run without rows, for its columns.
    """
    held: list[pa.RecordBatch] = []
    first, held_bytes = 0, 0
    is_empty = True
    for batch in batches:
        for part in _slices(batch, run_bytes):
            size_bytes = part.nbytes
            if held and held_bytes + size_bytes > run_bytes:
                rows = pa.Table.from_batches(held, schema)
                yield first, rows
                first, held, held_bytes, is_empty = first + rows.num_rows, [], 0, False
            held.append(part)
            held_bytes += size_bytes
    if held or is_empty:
        yield first, pa.Table.from_batches(held, schema)


def concat_tables(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables of one schema without gaps.

    The list is emptied, so that memory is released column by column.
    """
    whole = pa.concat_tables(tables)
    schema, columns = whole.schema, whole.columns
    tables.clear()
    del whole
    arrays = []
    for _ in range(len(columns)):
        column = columns.pop(0)
        try:
            arrays.append(
                pa.table({"": column}).combine_chunks().column(0)
            )  # text of 2 GiB and more: in several pieces
        except pa.ArrowInvalid:
            arrays.append(column)  # nested text of such a size is not changed
        del column
    return pa.Table.from_arrays(arrays, schema=schema)


def picked(rows: pa.Table, numbers: pa.Array) -> pa.Table:
    """Return the rows with these ascending numbers.

    Arrow's take joins the pieces of a column first, and fails where they hold 2 GiB of text together; a filter does not.
    """
    if all(column.num_chunks <= 1 for column in rows.columns):
        return rows.take(numbers)
    mask = np.zeros(rows.num_rows, bool)
    mask[np.asarray(numbers)] = True
    return rows.filter(pa.array(mask))


def _slices(batch: pa.RecordBatch, run_bytes: int) -> Iterator[pa.RecordBatch]:
    size_bytes = batch.nbytes
    if size_bytes <= run_bytes or batch.num_rows < 2:
        if batch.num_rows:
            yield batch
        return
    step = max(1, batch.num_rows * run_bytes // size_bytes)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)

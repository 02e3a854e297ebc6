"""Choice of dictionary columns, by the replaced file or by a sample of the values."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SAMPLE_ROWS = 2048
PAGE_BYTES_MAX = 1 << 20
"""Arrow's limit for a dictionary page; beyond it the writer falls back to plain values, having paid for both."""

_TAKEN_BYTES_MAX = 1 << 30
"""Arrow's take joins the pieces of a column first, and fails where they hold 2 GiB of text together; a filter does not."""

GROWTH_MAX = 2.0
"""Growth of a file beyond which its columns are sampled again: few values may have become many, and the reverse."""

_OUR_WRITER = "parquet-cpp-arrow"


def dictionary_columns(rows: pa.Table, plain: Collection[str], previous: pq.FileMetaData | None = None) -> list[str]:
    """Return the columns that are worth a dictionary.

    Args:
        rows: the rows to write; columns that are dictionary-encoded already stay so.
        previous: footer of the file that `rows` replace. If this library wrote it and its size is similar, it tells the choice for
            the same column then; a new choice for every rewrite of a small file would cost a tenth of it (measured).
    """
    known = _chosen_before(previous) if previous is not None and _is_telling(previous, rows.num_rows) else {}
    chosen = []
    for field in rows.schema:
        if field.name in plain:
            continue
        if pa.types.is_dictionary(field.type):
            chosen.append(field.name)
            continue
        # Nested leaves stay plain: pyarrow needs their full Parquet paths, and a sample of them says little.
        if pa.types.is_nested(field.type) or pa.types.is_boolean(field.type) or rows.num_rows == 0:
            continue
        if known[field.name] if field.name in known else pays(rows.column(field.name)):
            chosen.append(field.name)
    return chosen


def pays(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary pays off: at most one distinct value for two rows.

    The number of distinct values is estimated from how many of a sample spread over the column occur once and twice (Chao).
    """
    count = len(column)
    if count < 16:
        return True
    if column.nbytes > PAGE_BYTES_MAX * count:
        return False  # not one value would fit
    sample = column if count <= SAMPLE_ROWS else _sample(column)
    seen = pc.value_counts(sample.combine_chunks()).field("counts").to_numpy(zero_copy_only=False)
    distinct = float(len(seen))
    if count > SAMPLE_ROWS:
        if len(seen) == SAMPLE_ROWS:
            return False
        once, twice = int(np.count_nonzero(seen == 1)), int(np.count_nonzero(seen == 2))
        distinct += once * (once - 1) / (2 * (twice + 1))
    return distinct * 2 <= count and distinct * (sample.nbytes / len(sample)) <= PAGE_BYTES_MAX


def _sample(column: pa.ChunkedArray) -> pa.ChunkedArray:
    rows = np.linspace(0, len(column) - 1, SAMPLE_ROWS).astype(np.int64)
    if column.nbytes < _TAKEN_BYTES_MAX:
        return column.take(pa.array(rows))
    mask = np.zeros(len(column), bool)
    mask[rows] = True
    return column.filter(pa.array(mask))


def _is_telling(previous: pq.FileMetaData, rows: int) -> bool:
    return (
        previous.num_rows >= 16
        and str(previous.created_by).startswith(_OUR_WRITER)
        and previous.num_rows <= rows * GROWTH_MAX
        and rows <= previous.num_rows * GROWTH_MAX
    )


def _chosen_before(previous: pq.FileMetaData) -> dict[str, bool]:
    if previous.num_row_groups == 0:
        return {}
    group = previous.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.has_dictionary_page for chunk in chunks}

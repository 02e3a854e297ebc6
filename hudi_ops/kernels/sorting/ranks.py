"""Ranks of a column's values: the number of rows whose value is smaller.

Equal values of any type have equal ranks, also where values are skewed. So every column of a curve spreads over the same
range, and half of the rows are below its middle.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_ops.kernels.sorting.positions import Words, is_new, orderable, positions


def ranks(column: pa.Array | pa.ChunkedArray) -> Words:
    """Return for each row the number of rows with a smaller value.

    Nulls are smallest, NaN is greatest.

    Raises:
        InvalidRequest: a nested type, which has no order.
    """
    values = orderable(column)
    order = positions(values)
    first = np.where(is_new(values, order), np.arange(len(order)), 0)
    found = np.empty(len(order), np.uint64)
    found[order] = np.maximum.accumulate(first)
    return found


def ranks_among(column: pa.Array | pa.ChunkedArray, sample: pa.Array | pa.ChunkedArray) -> Words:
    """Return for each row the number of values of a sample that are not greater.

    Values in ascending order never have descending ranks, and equal values have equal ones.

    Raises:
        InvalidRequest: a nested type, which has no order.
    """
    parts = [part.chunks if isinstance(part, pa.ChunkedArray) else [part] for part in (sample, column)]
    values = orderable(pa.chunked_array([*parts[0], *parts[1]], column.type))
    order = positions(values)
    found = np.empty(len(order), np.uint64)
    # The sample comes first, and so before equal values of the column.
    found[order] = np.cumsum(order < len(sample))
    return found[len(sample) :]

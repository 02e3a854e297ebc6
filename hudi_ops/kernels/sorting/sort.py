"""Sort rows, along columns or along a curve through the ranks of their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_ops.kernels.sorting.curves import curve_keys
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.positions import Positions, Words, by_words, is_new, orderable, positions


def sort_indices(rows: pa.Table, order: SortOrder) -> Positions:
    """Return the positions of rows in an order; equal rows keep their order.

    Raises:
        InvalidRequest: a sort column has a nested type.
    """
    if order.curve == "none":
        return np.arange(rows.num_rows)
    if order.is_curve:
        return by_words(curve_keys(order.curve, [ranks(rows.column(name)) for name in order.columns], rows.num_rows))
    return _linear([orderable(rows.column(name)) for name in order.columns])


def _linear(columns: list[pa.Array]) -> Positions:
    order = positions(columns[-1])
    for values in reversed(columns[:-1]):
        order = order[positions(values.take(pa.array(order)))]
    return order


def ranks(column: pa.Array | pa.ChunkedArray) -> Words:
    """Return for each row the number of rows with a smaller value.

    Nulls are smallest, NaN is greatest. Equal values of any type have equal ranks, also where values are skewed. So every column of
    a curve spreads over the same range, and half of the rows are below its middle.

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

"""Sort rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_ops.kernels.sorting.curves import curve_keys
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.positions import Positions, by_words, orderable, positions
from hudi_ops.kernels.sorting.ranks import ranks


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

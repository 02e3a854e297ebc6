"""Cut points that split rows into buckets of about equal numbers, by a sample.

A value that takes more than one bucket gets a bucket of its own, whose rows are all equal and need no sorting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.positions import Positions, is_new, orderable
from hudi_ops.kernels.sorting.sort import sort_indices

_SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""Factor that scatters consecutive numbers: a sample with a fixed distance could follow a pattern in the rows."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cut points; the columns of the tables are those of the order.

    Attributes:
        before: rows at which a bucket begins.
        after: rows behind which a bucket begins.
        equal: numbers of the buckets whose rows are all equal.
    """

    order: SortOrder
    before: pa.Table
    after: pa.Table
    equal: frozenset[int]

    @property
    def count(self) -> int:
        """Number of buckets."""
        return int(self.before.num_rows + self.after.num_rows + 1)

    def buckets(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """Return the number of each row's bucket; `rows` have the columns of the order."""
        first, last = self.before.num_rows, self.before.num_rows + rows.num_rows
        order = sort_indices(pa.concat_tables([self.before, rows, self.after]), self.order)
        found = np.empty(len(order), np.int64)
        # Equal rows keep their order: behind the cuts before them, and in front of those after them.
        found[order] = np.cumsum((order < first) | (order >= last))
        return found[first:last]


def choose_cuts(sample: pa.Table, order: SortOrder, count: int) -> Cuts:
    """Return cut points for about `count` buckets; `sample` has the columns of a linear order."""
    rows = sample.num_rows
    places = np.unique(np.arange(1, count) * rows // count) if rows else np.zeros(0, np.int64)
    picked = sample.take(pa.array(sort_indices(sample, order)[places]))
    in_order = np.arange(picked.num_rows)
    differs = np.zeros(picked.num_rows, bool)
    for name in order.columns:
        differs |= is_new(orderable(picked.column(name)), in_order)
    begins = np.flatnonzero(differs)
    is_heavy = np.diff(np.append(begins, len(places))) > 1
    # Behind a heavy value is a second cut, so that later buckets have higher numbers.
    numbers = np.arange(1, len(begins) + 1) + np.cumsum(is_heavy) - is_heavy
    return Cuts(
        order,
        picked.take(pa.array(begins)),
        picked.take(pa.array(begins[is_heavy])),
        frozenset(numbers[is_heavy].tolist()),
    )


def sampled_positions(first: int, count: int, distance: int) -> Positions:
    """Return the positions of a piece's rows that belong to a sample.

    The piece has `count` rows and begins with row `first` of all rows. One row of each `distance` is
    chosen, for any division into pieces.
    """
    strides = np.arange(first // distance, (first + count - 1) // distance + 1, dtype=np.uint64)
    offsets = (strides * _SCATTER >> np.uint64(32)) % np.uint64(distance)
    places = (strides * np.uint64(distance) + offsets).astype(np.int64) - first
    return places[(places >= 0) & (places < count)]


def ends_of_shares(rows: npt.ArrayLike, sizes: npt.ArrayLike, count: int) -> list[int]:
    """Return the row behind the last one of each of `count` shares of about equal size.

    `rows` and `sizes` are those of adjacent blocks; within a block all rows count as equally large.
    """
    ends, held = np.cumsum(np.append(0, rows)), np.cumsum(np.append(0, sizes)).astype(float)
    if not held[-1]:
        ends, held = np.array([0, ends[-1]]), np.array([0.0, 1.0])
    found = np.rint(np.interp(held[-1] * np.arange(1, count + 1) / count, held, ends))
    return [int(end) for end in found]

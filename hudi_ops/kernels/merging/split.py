"""Split a batch into the rows of each file group by one stable radix sort of a small code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hudi_ops.errors import Internal


@dataclass(frozen=True, eq=False)
class GroupSlice:
    """Rows of one file group in a batch.

    Attributes:
        code: index of the partition path in the batch's dictionary.
        rows: row numbers in the batch, ascending.
    """

    code: int
    bucket: int
    rows: npt.NDArray[np.int64]


def split_groups(codes: npt.NDArray[np.integer], buckets: npt.NDArray[np.integer]) -> list[GroupSlice]:
    """Return ascending (partition code, bucket) pairs with their rows; rows keep their order.

    Raises:
        Internal: the arrays differ in length or hold negative numbers.
    """
    if len(codes) != len(buckets):
        raise Internal(
            "Partition codes and buckets differ in length.", expected=str(len(codes)), found=str(len(buckets))
        )
    if len(codes) == 0:
        return []
    if int(codes.min()) < 0 or int(buckets.min()) < 0:
        raise Internal("A partition code or a bucket is negative.", found=f"{codes.min()}, {buckets.min()}")
    width = int(buckets.max()) + 1
    combined = codes.astype(np.int64) * width + buckets
    order = _stable_order(combined)
    ordered = combined[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    groups = []
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ordered)], strict=True):
        code, bucket = divmod(int(ordered[begin]), width)
        groups.append(GroupSlice(code, bucket, order[begin:end]))
    return groups


def _stable_order(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a stable argsort, 16 bits at a time, which numpy sorts by the faster radix."""
    order = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    largest = int(values.max())
    shift = 16
    while largest >> shift:
        digits = ((values >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order.astype(np.int64, copy=False)

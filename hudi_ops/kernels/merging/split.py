"""Split a batch into the rows of each file group by one stable radix sort of a small code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.errors import Internal

_BLOCK_BYTES_MAX = 1 << 30


@dataclass(frozen=True, eq=False)
class GroupSlice:
    """Rows of one file group in a batch.

    Attributes:
        code: index of the partition path in the batch's dictionary.
        rows: row numbers in the batch, ascending.
    """

    code: int
    bucket: int
    rows: npt.NDArray[np.integer]


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


def split_rows(rows: pa.Table, groups: Sequence[GroupSlice]) -> tuple[list[pa.Table], int]:
    """Return the rows of each group, and the Arrow bytes of all of them.

    The bytes of thousands of small parts, added up one by one, would take longer than the split.
    """
    if len(groups) == 1 and len(groups[0].rows) == rows.num_rows:
        return [rows], rows.nbytes
    parts: list[pa.Table] = []
    size_bytes = 0
    rows = rows.combine_chunks()
    for block in _blocks(groups, rows):
        # One take for many groups, then slices without a copy: a take per group would search every chunk each time.
        ordered = rows.take(pa.array(np.concatenate([group.rows for group in block])))
        size_bytes += ordered.nbytes
        at = 0
        for group in block:
            parts.append(ordered.slice(at, len(group.rows)))
            at += len(group.rows)
    return parts, size_bytes


def _blocks(groups: Sequence[GroupSlice], rows: pa.Table) -> Iterator[list[GroupSlice]]:
    """Yield runs of groups whose rows fit into one array: texts of at most 2 GiB."""
    rows_max = max(1, rows.num_rows * _BLOCK_BYTES_MAX // max(1, rows.nbytes))
    block: list[GroupSlice] = []
    count = 0
    for group in groups:
        if block and count + len(group.rows) > rows_max:
            yield block
            block, count = [], 0
        block.append(group)
        count += len(group.rows)
    if block:
        yield block


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

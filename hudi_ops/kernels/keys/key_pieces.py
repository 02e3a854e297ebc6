"""Split record keys `f:v,f:v` into fields and values by Apache Hudi's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Unsupported

BLOCK_ROWS = 1 << 16
"""Rows per step: the bytes of a block stay in the processor's cache, and copies of it stay small."""

_COLON, _COMMA = ord(":"), ord(",")


def plain_strings(values: pa.Array) -> pa.Array:
    """Convert `values` to a `string` array."""
    return values if values.type == pa.string() else values.cast(pa.string())


def raw_bytes(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of a string array without nulls, and its offsets, beginning at 0."""
    # Slices of large arrays may begin behind 2 GiB, where a cast refuses them.
    is_large = pa.types.is_large_string(values.type)
    values = values if is_large else plain_strings(values)
    _, offsets_buffer, bytes_buffer = values.buffers()
    if len(values) == 0 or bytes_buffer is None:
        return np.empty(0, np.uint8), np.zeros(len(values) + 1, np.int64)
    width = np.int64 if is_large else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(bytes_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets.astype(np.int64) - int(offsets[0])


@dataclass(frozen=True, eq=False)
class _Pieces:
    """`name:value` pieces, ascending: key of each, and where it begins, splits and ends."""

    owners: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    is_open: npt.NDArray[np.bool_]
    """A colon in the value of the key's last piece: there Apache Hudi's parser cannot skip a field."""


def _pieces(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> _Pieces:
    """Split keys at each comma that a colon follows before the next comma.

    Each key holds a comma and a colon.
    """
    rows = len(offsets) - 1
    marks = np.flatnonzero((data == _COMMA) | (data == _COLON))
    is_colon = data[marks] == _COLON
    row_ends = np.searchsorted(marks, offsets[1:])
    mark_rows = np.repeat(np.arange(rows), np.diff(row_ends, prepend=0))
    colons = np.flatnonzero(is_colon)
    first_colons = colons[np.flatnonzero(np.diff(mark_rows[colons], prepend=-1))]
    cuts = np.flatnonzero(~is_colon[:-1] & is_colon[1:] & (mark_rows[:-1] == mark_rows[1:]))
    # Commas before the first colon belong to the first field's name.
    cuts = cuts[cuts > first_colons[mark_rows[cuts]]]
    owners = np.repeat(np.arange(rows), 1 + np.bincount(mark_rows[cuts], minlength=rows))
    is_first = np.diff(owners, prepend=-1) != 0
    is_last = np.diff(owners, append=-1) != 0
    begins, ends, split_marks = (np.empty(len(owners), np.int64) for _ in range(3))
    begins[is_first], begins[~is_first] = offsets[:-1], marks[cuts] + 1
    ends[is_last], ends[~is_last] = offsets[1:], marks[cuts]
    split_marks[is_first], split_marks[~is_first] = first_colons, cuts + 1
    after = split_marks + 1
    is_open = is_last & (after < row_ends[owners]) & np.append(is_colon, False)[after]
    return _Pieces(owners, begins, marks[split_marks], ends, is_open)


def parsed_values(keys: pa.Array, wanted: list[str]) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return the number of hash values of each key (at least one), and all values in turn.

    Each key holds a comma and a colon; empty `wanted` means every field. Source: Apache Hudi 1.1.1,
    KeyGenUtils.extractRecordKeysByFields.

    Raises:
        Unsupported: a key on which Apache Hudi's own parser never ends.
    """
    counts, values = [], []
    for start in range(0, len(keys), BLOCK_ROWS):
        block = keys.slice(start, BLOCK_ROWS)
        block_counts, block_values = _parsed_block(block, wanted)
        counts.append(block_counts)
        values.append(block_values)
    return np.concatenate(counts), pa.concat_arrays(values)


def _parsed_block(keys: pa.Array, wanted: list[str]) -> tuple[npt.NDArray[np.int64], pa.Array]:
    data, offsets = raw_bytes(keys)
    found = _pieces(data, offsets)
    owners, begins, ends = found.owners, found.splits + 1, found.ends
    silent = np.empty(0, np.int64)
    if wanted:
        names = _every_other(data, found.begins, found.splits)
        hits = np.asarray(pc.is_in(names, value_set=pa.array(wanted, pa.string())))
        endless = np.flatnonzero(~hits & found.is_open)
        if len(endless):
            _refuse_endless(keys[int(owners[endless[0]])].as_py(), names[int(endless[0])].as_py(), wanted)
        if not hits.all():
            owners, begins, ends = owners[hits], begins[hits], ends[hits]
            silent = np.flatnonzero(np.bincount(owners, minlength=len(keys)) == 0)
    values = _every_other(data, begins, ends)
    values = pc.if_else(pc.is_in(values, value_set=pa.array(["__null__", "__empty__"])), "", values)
    if len(silent):  # None of the hash fields occurs: the whole key is the one value.
        order = np.argsort(np.concatenate((owners, silent)), kind="stable")
        owners = np.concatenate((owners, silent))[order]
        values = pa.concat_arrays([values, keys.take(pa.array(silent))]).take(pa.array(order))
    return np.bincount(owners, minlength=len(keys)), values


def _refuse_endless(key: str, field: str, wanted: list[str]) -> NoReturn:
    raise Unsupported(
        f"Apache Hudi's parser never ends on the record key {key!r}: it cannot find the hash fields.",
        expected=f"no colon in the last key field, or that field among the hash fields {', '.join(wanted)}",
        found=f"a colon in the value of {field!r}",
        next_step="Name the last key field in hoodie.bucket.index.hash.field too, or drop that setting.",
        record_key=key,
    )


def _every_other(data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> pa.Array:
    """Return the strings data[begin:end], which ascend with gaps between them."""
    offsets = np.empty(2 * len(begins) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = begins, ends, len(data)
    both = pa.StringArray.from_buffers(2 * len(begins), pa.py_buffer(offsets), pa.py_buffer(data))
    return both.take(pa.array(np.arange(0, 2 * len(begins), 2)))

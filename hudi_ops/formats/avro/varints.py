"""Avro's variable-length integers and texts, for a whole vector of positions at once."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PADDING: Final = 16
"""Bytes behind the content that may be read, but are never used."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_TOPS: Final = np.uint64(0x8080808080808080)
_ONE: Final = np.uint64(1)
_SEVEN: Final = np.uint64(7)


def padded(content: bytes | pa.Buffer) -> Bytes:
    """Copy the content and append `PADDING` zeros."""
    held = np.frombuffer(content, np.uint8)
    data = np.zeros(len(held) + PADDING, np.uint8)
    data[: len(held)] = held
    return data


def fixed_at(data: Bytes, at: Longs, dtype: str) -> npt.NDArray[np.generic]:
    """Read the fixed-width values that begin at these positions, aligned or not."""
    width = np.dtype(dtype).itemsize
    overlapping: npt.NDArray[np.generic] = np.ndarray((len(data) - width + 1,), dtype, data, strides=(1,))
    return overlapping[at]


def read_varints(data: Bytes, at: Longs) -> tuple[Words, Longs]:
    """Read unsigned integers of 7 bits a byte, lowest first.

    Args:
        at: where each begins, within the content.

    Returns:
        The values, and the positions behind them. An unmoved position means that there is no integer of 64 bits; one behind
        the content means that the integer was cut off.
    """
    first = data[at]
    if not len(first) or first.max() < 0x80:
        return first.astype(np.uint64), at + 1
    # Eight bytes as one word: the lowest byte without its top bit is the last one of the integer.
    words = fixed_at(data, at, "<u8").astype(np.uint64, copy=False)
    ends = ~words & _TOPS
    lowest = ends & (~ends + _ONE)
    words &= (lowest << _ONE) - _ONE  # without an end: every bit stays
    after = at + (np.bitwise_count((lowest << _ONE) - _ONE).astype(np.int64) >> 3)
    words &= ~_TOPS
    words = (words & np.uint64(0x007F007F007F007F)) | ((words & np.uint64(0x7F007F007F007F00)) >> _ONE)
    words = (words & np.uint64(0x00003FFF00003FFF)) | ((words & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    words = (words & np.uint64(0x000000000FFFFFFF)) | ((words & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
    (longer,) = np.nonzero(ends == 0)
    if len(longer):
        ninth, tenth = data[at[longer] + 8], data[at[longer] + 9]
        is_nine = ninth < 0x80
        values = words[longer] | ((ninth & np.uint8(0x7F)).astype(np.uint64) << np.uint64(56))
        words[longer] = np.where(is_nine, values, values | (tenth.astype(np.uint64) << np.uint64(63)))
        after[longer] = at[longer] + np.where(is_nine, 9, np.where(tenth <= 1, 10, 0))
    return words, after


def unzigzag(values: Words) -> Longs:
    """Decode signed integers from Avro's order 0, -1, 1, -2."""
    return ((values >> _ONE) ^ (~(values & _ONE) + _ONE)).view(np.int64)


def zigzag(values: Longs) -> Words:
    """Encode signed integers in Avro's order 0, -1, 1, -2."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def varint_rows(values: Words) -> tuple[Bytes, Longs]:
    """Encode integers in 7 bits a byte: a matrix row for each, and the used length of each row."""
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    lengths = np.ones(len(values), np.int64)
    rows = np.empty((len(values), width), np.uint8)
    rest = values
    for place in range(width):
        rows[:, place] = rest
        rest = rest >> _SEVEN
        if place + 1 < width:
            has_more = rest != 0
            lengths += has_more
            rows[:, place] &= 0x7F
            rows[:, place] |= has_more.view(np.uint8) << np.uint8(7)
    return rows, lengths


def pieces(rows: Bytes, lengths: Longs | None = None) -> pa.BinaryArray:
    """Return the first `lengths` bytes (or all) of each row of a matrix as an Arrow array."""
    count, width = rows.shape
    if lengths is None:
        return binary(np.arange(0, count * width + 1, width) if width else np.zeros(count + 1), rows)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return binary(offsets, rows[np.arange(width) < lengths[:, None]])


def binary(offsets: npt.NDArray[np.number], data: Bytes | pa.Buffer) -> pa.BinaryArray:
    """Make an Arrow array of bytes from offsets (one more than values) and data."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def spans(data: Bytes, starts: Longs, lengths: Longs) -> pa.BinaryArray:
    """Return the bytes at these positions, which ascend without overlap; gaps are left out."""
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + lengths
    offsets[-1] = offsets[-2] if len(starts) else 0
    both = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * len(starts), 2, dtype=np.int32)))


def as_text(values: pa.BinaryArray) -> tuple[pa.StringArray, int | None]:
    """View bytes as text; also return the position of the first that is not UTF-8, or None."""
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
    return text, first_invalid(text)


def first_invalid(values: pa.Array) -> int | None:
    """Return the position of the first text that is not UTF-8, or decimal that is too long."""
    if _is_valid(values):
        return None
    low, high = 0, len(values)  # the first bad one lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_valid(values.slice(low, middle - low)) else (low, middle)
    return low


def _is_valid(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True

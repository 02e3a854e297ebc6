"""Conversion of decimals between Avro (two's complement, highest byte first) and Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_ops.formats.avro.varints import Bytes, Longs, binary, first_invalid


def decimals_of(data: Bytes, begin: Longs, lengths: Longs, kind: pa.DataType) -> tuple[pa.Array, int | None]:
    """Read decimals; also return the position of the first without bytes or too long, or None."""
    width = kind.bit_width // 8
    rows = np.zeros((len(begin), width), np.uint8)
    sign = np.where(data[begin] & 0x80, np.uint8(0xFF), np.uint8(0))
    last = begin + lengths - 1
    widest = int(lengths.max(initial=0))
    shortest = int(lengths.min(initial=widest))
    for place in range(width):
        if place < shortest:
            rows[:, place] = data[last - place]
        elif place < widest:
            rows[:, place] = np.where(place < lengths, data[np.maximum(last - place, 0)], sign)
        else:
            rows[:, place] = sign
    is_good = lengths > 0
    if shortest >= 1 and widest > width:
        # A longer one is valid if the excess bytes repeat the sign.
        is_good &= (lengths <= width) | ((rows[:, -1] ^ sign) < 0x80)
        for place in range(width, min(widest, width + 64)):
            is_good &= (place >= lengths) | (data[np.maximum(last - place, 0)] == sign)
        is_good &= lengths <= width + 64
    values = pa.Array.from_buffers(kind, len(begin), [None, pa.py_buffer(rows)])
    if not is_good.all():
        return values, int(np.argmin(is_good))
    return values, first_invalid(values)


def fixed_rows(values: pa.Array, size_bytes: int) -> tuple[Bytes, int | None]:
    """Encode decimals as rows of a matrix; also return the first misfit, or None."""
    rows = _rows(values)
    width = rows.shape[1]
    if size_bytes >= width:
        sign = np.where(rows[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
        return np.concatenate([np.repeat(sign, size_bytes - width, axis=1), rows], axis=1), None
    kept = rows[:, width - size_bytes :]
    sign = np.where(kept[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    is_bad = (rows[:, : width - size_bytes] != sign).any(axis=1)
    if values.null_count:
        is_bad &= values.is_valid().to_numpy(zero_copy_only=False)
    return kept, int(np.argmax(is_bad)) if is_bad.any() else None


def minimal_pieces(values: pa.Array) -> pa.BinaryArray:
    """Encode decimals in as few bytes as they take, as Java writes them; nulls stay null."""
    rows = _rows(values)
    count, width = rows.shape
    sign = np.where(rows[:, 0] & 0x80, np.uint8(0xFF), np.uint8(0))
    is_idle = np.ones(count, bool)
    begin = np.zeros(count, np.int64)
    for place in range(width - 1):
        # A byte is redundant if it and all bytes before it repeat the sign that the next byte shows.
        is_idle &= (rows[:, place] == sign) & ((rows[:, place + 1] ^ sign) < 0x80)
        begin += is_idle
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(width - begin, out=offsets[1:])
    found = binary(offsets, rows[np.arange(width) >= begin[:, None]])
    if values.null_count:
        mask = values.is_null().to_numpy(zero_copy_only=False)
        return found.take(pa.array(np.arange(count), mask=mask))
    return found


def _rows(values: pa.Array) -> Bytes:
    """Return a row of bytes for each decimal, highest first."""
    width = values.type.bit_width // 8
    held = np.frombuffer(values.buffers()[1], np.uint8, len(values) * width, values.offset * width)
    return held.reshape(len(values), width)[:, ::-1]

"""Contents of HFile blocks: keys with values, and first keys and positions in the index."""

from __future__ import annotations

import io
import operator
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.avro.varints import PADDING, Bytes, Longs, fixed_at, pieces, spans
from hudi_ops.formats.hfile.frame import HEADER_BYTES, fail

KEY_SUFFIX: Final = b"\x00" + struct.pack(">q", 2**63 - 1) + b"\x04"
"""Bytes after the row of each key: no family, the latest time, and the type `put`."""
_ROW_LENGTH: Final = struct.Struct(">H")
KEY_BYTES: Final = _ROW_LENGTH.size + len(KEY_SUFFIX)
"""Bytes of a key beside its row."""
_HEAD_BYTES: Final = 8
ENTRY_BYTES: Final = _HEAD_BYTES + KEY_BYTES + 1
"""Bytes of an entry beside row and value; the last one is the number of a change, always 0."""
_PLACE: Final = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class Entries:
    """Positions of the entries of data blocks: rows (that is, record keys) and values."""

    data: Bytes
    row_at: Longs
    row_bytes: Longs
    value_at: Longs
    value_bytes: Longs
    behind: Longs
    """For each block, the number of entries up to its end."""

    def __len__(self) -> int:
        return len(self.row_at)

    def keys(self) -> pa.BinaryArray:
        """Return the rows."""
        return spans(self.data, self.row_at, self.row_bytes)

    def values(self, wanted: np.ndarray | None = None) -> pa.BinaryArray:
        """Return all values, or those at the wanted positions, which ascend."""
        if wanted is None:
            return spans(self.data, self.value_at, self.value_bytes)
        return spans(self.data, self.value_at[wanted], self.value_bytes[wanted])


def split_entries(payloads: Sequence[bytes], offsets: Sequence[int], path: str) -> Entries:
    """Find the entries of data blocks, none of them empty (docs/format §13.3).

    Raises:
        Corrupt: an entry does not follow the format, or the entries do not fill their block.
    """
    raw = b"".join([b"\x00", *payloads, bytes(PADDING)])
    ends = _entry_ends(raw)
    data = np.frombuffer(raw, np.uint8)[1:]
    size = len(data) - PADDING
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    ends = ends[starts < size]
    starts = starts[starts < size]
    key_bytes = fixed_at(data, starts, ">i4").astype(np.int64)
    value_bytes = fixed_at(data, starts + 4, ">i4").astype(np.int64)
    row_bytes = fixed_at(data, starts + _HEAD_BYTES, ">u2").astype(np.int64)
    # Builds of Apache Hudi 1.1 before its release left out the bytes after the row, which no reader uses.
    is_full = key_bytes == row_bytes + KEY_BYTES
    is_bad = (value_bytes < 0) | (ends > size) | ~(is_full | (key_bytes == row_bytes + _ROW_LENGTH.size))
    blocks = np.cumsum([len(payload) for payload in payloads])
    if not is_bad.any():
        suffix_at = starts + (_HEAD_BYTES + _ROW_LENGTH.size) + row_bytes
        is_bad = is_full & (data[suffix_at] != KEY_SUFFIX[0])
        is_bad |= is_full & (data[suffix_at + (len(KEY_SUFFIX) - 1)] != KEY_SUFFIX[-1])
        is_bad |= data[ends - 1] != 0
        last = np.searchsorted(ends, blocks)
        if not is_bad.any() and (ends[last] == blocks).all():
            row_at = starts + (_HEAD_BYTES + _ROW_LENGTH.size)
            return Entries(data, row_at, row_bytes, starts + _HEAD_BYTES + key_bytes, value_bytes, last + 1)
    # The first entry with any fault: positions after it are meaningless.
    is_bad |= (data[np.minimum(ends, size) - 1] != 0) | (ends > blocks[np.searchsorted(blocks, starts, side="right")])
    start = int(starts[np.argmax(is_bad)])
    block = int(np.searchsorted(blocks, start, side="right"))
    within = start - (int(blocks[block - 1]) if block else 0)
    fail(
        path,
        offsets[block],
        f"no entry {within} bytes into the block",
        "lengths that fit, one row, something put, and 0",
    )


def _entry_ends(raw: bytes) -> Longs:
    """Return where each entry ends, followed from length to length.

    It is one pass in C, through the position of a stream. Each step reads the byte before the entry (0, the last of the entry
    before) and two lengths of four bytes. As one number, modulo 2³² - 1, that is their sum: the distance to the last byte of
    the entry.
    """
    stream = io.BytesIO(raw)
    heads = map(int.from_bytes, iter(partial(stream.read, _HEAD_BYTES + 1), b""))
    steps = map(operator.mod, heads, repeat(2**32 - 1))
    return np.fromiter(map(stream.seek, steps, repeat(io.SEEK_CUR)), np.int64)


def join_entries(keys: pa.BinaryArray, values: pa.BinaryArray, row_bytes: Longs, value_bytes: Longs) -> memoryview:
    """Join the bytes of entries (docs/format §13.3)."""
    count = len(keys)
    heads = np.empty((count, _HEAD_BYTES + _ROW_LENGTH.size), np.uint8)
    heads[:, :4] = (row_bytes + KEY_BYTES).astype(">i4").view(np.uint8).reshape(count, 4)
    heads[:, 4:8] = value_bytes.astype(">i4").view(np.uint8).reshape(count, 4)
    heads[:, 8:] = row_bytes.astype(">u2").view(np.uint8).reshape(count, 2)
    constants = pa.array([KEY_SUFFIX, b"\x00"], pa.binary())
    # One gather from all parts: several times faster than joining strings.
    parts = pa.concat_arrays([pieces(heads), keys, values, constants])
    row = np.arange(count, dtype=np.int32)
    order = np.empty((count, 5), np.int32)
    order[:, 0], order[:, 1], order[:, 2] = row, row + count, 3 * count
    order[:, 3], order[:, 4] = row + 2 * count, 3 * count + 1
    buffer = parts.take(pa.array(order.ravel())).buffers()[2]
    return memoryview(buffer)


@dataclass(frozen=True, slots=True)
class DataBlock:
    """Data block as the index describes it: no key in it is less than `key`."""

    key: bytes
    offset: int
    size_bytes: int

    @property
    def end(self) -> int:
        """Offset behind it."""
        return self.offset + self.size_bytes


def encode_index(blocks: Sequence[DataBlock]) -> bytes:
    """Encode the payload of the root index (docs/format §13.4)."""
    parts = []
    for block in blocks:
        length = _hadoop_varint(len(block.key) + KEY_BYTES)
        parts += [_PLACE.pack(block.offset, block.size_bytes), length, index_key(block.key)]
    return b"".join(parts)


def index_key(row: bytes) -> bytes:
    """Encode a key for index and file info, in the form of an entry."""
    return _ROW_LENGTH.pack(len(row)) + row + KEY_SUFFIX


def row_of(key: bytes, offset: int, path: str) -> bytes:
    """Return the row of a key from index or file info; Hudi 1.1 omits the bytes after it."""
    (length,) = _ROW_LENGTH.unpack_from(key) if len(key) >= _ROW_LENGTH.size else (-1,)
    end = _ROW_LENGTH.size + length
    if length < 0 or len(key) - end not in {0, len(KEY_SUFFIX)}:
        fail(path, offset, f"a key of {len(key)} bytes with a row of {length}", "both of one length")
    return key[_ROW_LENGTH.size : end]


def decode_index(payload: bytes, count: int, offset: int, path: str) -> list[DataBlock]:
    """Read the payload of the root index (docs/format §13.4).

    Raises:
        Corrupt: it does not follow the format, the blocks overlap, or their keys do not ascend.
    """
    blocks: list[DataBlock] = []
    at = free = 0
    for number in range(count):
        if at + _PLACE.size >= len(payload):
            fail(path, offset, f"{number} entries in the index", f"{count} data blocks")
        begin, size_bytes = _PLACE.unpack_from(payload, at)
        length, at = _read_hadoop_varint(payload, at + _PLACE.size, offset, path)
        if not 0 <= length <= len(payload) - at:
            fail(path, offset, f"a key of {length} bytes in the index", f"at most {len(payload) - at} bytes")
        if begin < free or not HEADER_BYTES < size_bytes <= offset - begin:
            fail(path, offset, f"a block of {size_bytes} bytes at {begin}", f"one between {free} and {offset}")
        row = row_of(payload[at : at + length], offset, path)
        if blocks and row <= blocks[-1].key:
            fail(path, offset, f"{row!r} after {blocks[-1].key!r} in the index", "keys that ascend")
        blocks.append(DataBlock(row, begin, size_bytes))
        at, free = at + length, begin + size_bytes
    if at != len(payload):
        fail(path, offset, f"{len(payload) - at} bytes after {count} entries of the index", "none")
    return blocks


def _hadoop_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    body = value.to_bytes((value.bit_length() + 7) // 8)
    return bytes([0x90 - len(body)]) + body


def _read_hadoop_varint(data: bytes, at: int, offset: int, path: str) -> tuple[int, int]:
    first = data[at]
    if first < 0x80:
        return first, at + 1
    width = 0x90 - first
    if not 1 <= width <= 4:
        # The writer of Hudi 1.1.1 makes these of long keys, too; neither Hudi nor the `hudi` package can read them.
        fail(path, offset, f"a length that begins with byte {first}", "a Hadoop integer of at most four bytes")
    return int.from_bytes(data[at + 1 : at + 1 + width]), at + 1 + width


def is_ascending(keys: pa.BinaryArray | pa.LargeBinaryArray, *, strictly: bool) -> bool:
    """Return whether the keys ascend by unsigned bytes."""
    if len(keys) < 2:
        return True
    compare = pc.less if strictly else pc.less_equal
    return bool(pc.all(compare(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py())

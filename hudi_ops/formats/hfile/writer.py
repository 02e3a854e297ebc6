"""HFiles for all Hudi readers: blocks of 64 KiB, one index level, file info, trailer."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.formats.avro.varints import Longs
from hudi_ops.formats.hfile import trailer
from hudi_ops.formats.hfile.entries import (
    ENTRY_BYTES,
    KEY_BYTES,
    DataBlock,
    encode_index,
    index_key,
    is_ascending,
    join_entries,
)
from hudi_ops.formats.hfile.frame import DATA, FILE_INFO, HEADER_BYTES, INDEX, PAYLOAD_BYTES_MAX, encode_hfile_block
from hudi_ops.formats.large_arrays import as_bytes, byte_lengths, piece

BLOCK_BYTES: Final = 1 << 16
"""Bytes of a data block before compression, one entry at least. In much larger blocks readers up to 1.1 lose entries."""
LEVEL: Final = 1
"""Level of gzip. A million entries of a record index: 0.9 CPU seconds and 33 MB at level 1, 1.7 and 30 MB at level 6 (measured).
"""
_ROW_BYTES_MAX: Final = 2**15 - 1
_CHUNK_BYTES: Final = 1 << 25


def write_hfile(
    keys: pa.Array, values: pa.Array, *, schema: str | None, block_bytes: int = BLOCK_BYTES, level: int = LEVEL
) -> bytes:
    """Encode a whole HFile; equal arguments give equal bytes.

    Args:
        keys: record keys, text or bytes, strictly ascending by unsigned bytes.
        values: bytes, one for each key; as a dictionary where they repeat.
        schema: Avro JSON of the values for a base file, which also names its least and greatest key; None in a log block.
        block_bytes: of a data block before compression.

    Raises:
        Internal: nulls, or keys that do not ascend.
        InvalidRequest: a key or a value is too long.

    Source: docs/format §13.
    """
    keys = as_bytes(keys)
    row_bytes, value_bytes = _checked(keys, values)
    body = _Body(level)
    blocks: list[DataBlock] = []
    ends = np.cumsum(row_bytes + value_bytes + ENTRY_BYTES)
    bounds = _block_bounds(ends, block_bytes)
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    at = 0
    while at < len(bounds) - 1:
        # As many blocks at a time as take some megabytes.
        behind = int(np.searchsorted(starts[bounds], starts[bounds[at]] + _CHUNK_BYTES, side="right")) - 1
        behind = max(behind, at + 1)
        low, high = int(bounds[at]), int(bounds[behind])
        count = high - low
        entries = piece(keys, low, count), piece(values, low, count)
        joined = join_entries(*entries, row_bytes[low:high], value_bytes[low:high])
        edges = (starts[bounds[at : behind + 1]] - starts[low]).tolist()
        for number, (begin, end) in enumerate(pairwise(edges), at):
            offset, size_bytes = body.add(DATA, joined[begin:end])
            blocks.append(DataBlock(keys[int(bounds[number])].as_py(), offset, size_bytes))
        at = behind
    return _finish(body, blocks, _info(keys, row_bytes, value_bytes, schema), len(keys))


def _checked(keys: pa.Array, values: pa.Array) -> tuple[Longs, Longs]:
    """Return the lengths of keys and values after checking them.

    Raises:
        Internal: nulls, or keys that do not ascend.
        InvalidRequest: a key or a value is too long.
    """
    if keys.null_count or values.null_count or len(keys) != len(values) or not is_ascending(keys, strictly=True):
        raise Internal(
            "The entries of an HFile are not in order",
            expected="keys that ascend, without null, and a value for each",
            found=f"{len(keys)} keys and {len(values)} values, {keys.null_count} and {values.null_count} of them null",
            next_step="report it",
        )
    row_bytes, value_bytes = byte_lengths(keys), byte_lengths(values)
    longest = int(row_bytes.max(initial=0))
    largest = int(value_bytes.max(initial=0))
    if longest > _ROW_BYTES_MAX or largest > PAYLOAD_BYTES_MAX - _ROW_BYTES_MAX - ENTRY_BYTES:
        raise InvalidRequest(
            "A record key or its value is too long for the metadata table",
            expected=f"keys of at most {_ROW_BYTES_MAX} bytes",
            found=f"a key of {longest} bytes, a value of {largest} bytes",
            next_step="use shorter record keys, or drop the index that holds them",
        )
    return row_bytes, value_bytes


def _block_bounds(ends: Longs, block_bytes: int) -> Longs:
    """Return the first entry of each block, and the number of all entries."""
    bounds, begin = [0], 0
    while bounds[-1] < len(ends):
        behind = int(np.searchsorted(ends, begin + block_bytes, side="right"))
        bounds.append(max(behind, bounds[-1] + 1))
        begin = int(ends[bounds[-1] - 1])
    return np.array(bounds)


def _info(keys: pa.Array, row_bytes: Longs, value_bytes: Longs, schema: str | None) -> dict[str, bytes]:
    count = max(1, len(keys))
    info = {
        trailer.KEY_VALUE_VERSION: struct.pack(">i", 1),
        trailer.MAX_MEMSTORE_TS: bytes(8),
        trailer.AVG_KEY_LEN: struct.pack(">i", int(row_bytes.sum() + KEY_BYTES * len(keys)) // count),
        trailer.AVG_VALUE_LEN: struct.pack(">i", int(value_bytes.sum()) // count),
        trailer.CREATE_TIME: bytes(8),  # as in HBase's writer: the same entries make the same file
    }
    # All three are empty in an empty file, as in Apache Hudi.
    first, last = (keys[0].as_py(), keys[-1].as_py()) if len(keys) else (b"", b"")
    info[trailer.LAST_KEY] = index_key(last) if len(keys) else b""
    if schema is not None:
        info |= {trailer.SCHEMA: schema.encode(), trailer.MIN_RECORD_KEY: first, trailer.MAX_RECORD_KEY: last}
    return info


def _finish(body: _Body, blocks: list[DataBlock], info: dict[str, bytes], entries: int) -> bytes:
    index = encode_index(blocks)
    index_at, _ = body.add(INDEX, index)
    body.add(INDEX, b"")  # index of meta blocks: every reader requires it
    info_at, _ = body.add(FILE_INFO, trailer.encode_info(info))
    end = trailer.Trailer(
        file_info=info_at,
        load_on_open=index_at,
        index_bytes=len(index),
        total_bytes=body.unpacked_bytes - HEADER_BYTES - len(index) + trailer.TRAILER_BYTES,  # counted as HBase does
        data_blocks=len(blocks),
        entries=entries,
        first_block=blocks[0].offset if blocks else -1,
        last_block=blocks[-1].offset if blocks else 0,
    )
    return b"".join([*body.parts, end.encode()])


class _Body:
    """Blocks written so far."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._last: dict[bytes, int] = {}
        self._size_bytes = 0
        self.parts: list[bytes] = []
        self.unpacked_bytes = 0

    def add(self, kind: bytes, payload: bytes | memoryview) -> tuple[int, int]:
        """Append a block and return its offset and size."""
        offset = self._size_bytes
        block = encode_hfile_block(kind, payload, self._last.get(kind, -1), self._level)
        self._last[kind] = offset
        self._size_bytes += len(block)
        self.unpacked_bytes += HEADER_BYTES + len(payload)
        self.parts.append(block)
        return offset, len(block)

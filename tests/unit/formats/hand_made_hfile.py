"""HFiles put together byte by byte, in the ways of every writer and in ways of none; shares no code with the product."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SUFFIX = bytes.fromhex("007fffffffffffffff04")
GZ, NONE = 1, 2


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field_of(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def hadoop_varint(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    width = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - width]) + value.to_bytes(width)


def entry(row: bytes, value: bytes, *, suffix: bytes = SUFFIX, change: bytes = b"\x00") -> bytes:
    key = struct.pack(">H", len(row)) + row + suffix
    return struct.pack(">ii", len(key), len(value)) + key + value + change


@dataclass
class HandMade:
    """An HFile; every field has what a whole file has.

    Attributes:
        blocks: payloads of the data blocks.
        index_rows: first keys of the blocks, as the index has them.
        index_suffix: behind them; Hudi 1.1.1 writes none.
        more_index: further bytes of the index.
        trailer: fields of the trailer to change or, with None, to leave out.
        info: entries of the file info to change or to leave out.
    """

    blocks: Sequence[bytes]
    index_rows: Sequence[bytes]
    entries: int
    codec: int = GZ
    index_suffix: bytes = SUFFIX
    more_index: bytes = b""
    checksum: tuple[int, int] = (0, 16384)
    version: bytes = b"\x03\x00\x00\x03"
    trailer: Mapping[int, int | bytes | None] = field(default_factory=dict)
    info: Mapping[str, bytes | None] = field(default_factory=dict)
    gap: bytes = b""
    """Between the data blocks."""

    def frame(self, magic: bytes, payload: bytes) -> bytes:
        packed = gzip.compress(payload, mtime=0) if self.codec == GZ else payload
        kind, chunk = self.checksum
        size = 33 + len(packed)
        checksums = bytes(-(-size // chunk) * 4)
        head = struct.pack(">iiqBii", len(packed) + len(checksums), len(payload), -1, kind, chunk, size)
        return magic + head + packed + checksums

    def bytes(self) -> bytes:
        out, index = b"", b""
        for row, payload in zip(self.index_rows, self.blocks, strict=True):
            block = self.frame(b"DATABLK*", payload)
            key = struct.pack(">H", len(row)) + row + self.index_suffix
            index += struct.pack(">qi", len(out), len(block)) + hadoop_varint(len(key)) + key
            out += block + self.gap
        index_at = len(out)
        out += self.frame(b"IDXROOT2", index + self.more_index) + self.frame(b"IDXROOT2", b"")
        info: dict[str, Any] = {"KEY_VALUE_VERSION": struct.pack(">i", 1), "MAX_MEMSTORE_TS_KEY": bytes(8), **self.info}
        pairs = [field_of(1, k.encode()) + field_of(2, v) for k, v in info.items() if v is not None]
        message = b"".join(field_of(1, pair) for pair in pairs)
        info_at = len(out)
        out += self.frame(b"FILEINF2", b"PBUF" + varint(len(message)) + message)
        numbers: dict[int, Any] = {1: info_at, 2: index_at, 5: len(self.blocks), 7: self.entries, 8: 1, 12: self.codec}
        numbers |= self.trailer
        body = b"".join(field_of(number, value) for number, value in numbers.items() if value is not None)
        return out + (b'TRABLK"$' + varint(len(body)) + body).ljust(4092, b"\x00") + self.version


def hand_made(
    rows: Sequence[tuple[bytes, bytes]], per_block: int = 2, *, suffix: bytes = SUFFIX, **changes: Any
) -> HandMade:
    """A whole file of these keys and values, `per_block` in a block; `suffix` is behind the rows of its entries."""
    groups = [rows[at : at + per_block] for at in range(0, len(rows), per_block)]
    blocks = [b"".join(entry(*each, suffix=suffix) for each in group) for group in groups]
    given = {"blocks": blocks, "index_rows": [group[0][0] for group in groups], "entries": len(rows), **changes}
    return HandMade(**given)

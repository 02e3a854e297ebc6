"""Hudi's bloom filter over record keys, in the footer of a base file.

Written filters are SIMPLE and sized for the file's own keys; filters of both kinds that Hudi knows are read, probed, added to
and written back byte for byte.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.formats.parquet import key_hashes

SIMPLE: Final = "SIMPLE"
"""Type code of a filter of one bit array."""

DYNAMIC_V0: Final = "DYNAMIC_V0"
"""Type code of a filter that grows by whole bit arrays, Hudi's default."""

_SPARSE = 16
"""Bits of a filter for each bit that is set, from which on single bits are set instead of unpacking all."""
_HEADER: Final = struct.Struct(">iibi")
HEADER_BYTES: Final = _HEADER.size
_GROWTH: Final = struct.Struct(">iii")
_VERSION: Final = -1
_MURMUR: Final = 1
_MAX_BITS: Final = 2**31 - 8
_MAX_HASHES: Final = 1024

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class BloomFilter:
    """A bloom filter over the UTF-8 bytes of record keys; never changed in place.

    Attributes:
        bits: bits a row.
        hashes: bits a key sets in its row.
        rows: packed bit arrays, bit i at byte i // 8 under the mask 1 << i % 8; one for SIMPLE.
        type_code: `SIMPLE` or `DYNAMIC_V0`.
        row_capacity: keys a row takes before the filter grows; 0 for SIMPLE.
        last_row_keys: keys in the last row; 0 for SIMPLE.

    Source: docs/format §7.
    """

    bits: int
    hashes: int
    rows: tuple[Bits, ...]
    type_code: str = SIMPLE
    row_capacity: int = 0
    last_row_keys: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BloomFilter) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    @classmethod
    def build(cls, keys: pa.Array | pa.ChunkedArray, *, capacity: int, fpp: float = 1e-3) -> BloomFilter:
        """Make a SIMPLE filter of `keys`, with false-positive rate `fpp` at `capacity` keys.

        `keys` is a string array without nulls; `capacity` is at least their number, more if others will be added.

        Raises:
            InvalidRequest: the rate is not between 0 and 1, or a key is null.
        """
        if not 0.0 < fpp < 1.0:
            raise InvalidRequest(
                f"{fpp} is not a false-positive rate",
                expected="more than 0 and less than 1",
                next_step="set hoodie.index.bloom.fpp to a rate such as 0.001",
            )
        bits = bits_for(capacity, fpp)
        hashes = min(math.ceil(-math.log2(fpp)), _MAX_HASHES)
        empty = np.zeros((bits + 7) // 8, np.uint8)
        return cls(bits, hashes, (empty,)).with_keys(keys)

    @property
    def count(self) -> int:
        """Number of keys the filter is sized for.

        Exact for DYNAMIC_V0. SIMPLE stores no such number: this is the largest number of keys for which its hashes are not
        too many, a few in a thousand below the `capacity` it was built with at the default rate.
        """
        if self.type_code == DYNAMIC_V0:
            return self.row_capacity * len(self.rows)
        return round(self.bits * math.log(2) / self.hashes)

    def with_keys(self, keys: pa.Array | pa.ChunkedArray) -> BloomFilter:
        """Add keys.

        A DYNAMIC_V0 filter grows by a row whenever its last row is full, as Hudi's does; a SIMPLE one keeps its size,
        and answers yes more often than it should beyond `count` keys.

        Raises:
            InvalidRequest: a key is null.
        """
        chunks = list(key_hashes.text_chunks(keys))
        if self.type_code == SIMPLE:
            return replace(self, rows=(self._added(self.rows[0], chunks),)) if chunks else self
        grown = self
        for chunk in chunks:
            start = 0
            while start < len(chunk):
                if grown.last_row_keys >= grown.row_capacity:
                    grown = replace(grown, rows=(*grown.rows, np.zeros_like(grown.rows[0])), last_row_keys=0)
                part = chunk.slice(start, grown.row_capacity - grown.last_row_keys)
                rows = (*grown.rows[:-1], self._added(grown.rows[-1], [part]))
                grown = replace(grown, rows=rows, last_row_keys=grown.last_row_keys + len(part))
                start += len(part)
        return grown

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Return n booleans for n keys without nulls: False is certain, True is probable.

        Raises:
            InvalidRequest: a key is null.
        """
        answers = [self._probed(chunk) for chunk in key_hashes.text_chunks(keys)]
        return np.concatenate(answers) if answers else np.zeros(0, np.bool_)

    def encode(self) -> tuple[str, str]:
        """Encode the two footer values: the type code, and the filter's bytes in base64."""
        header = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        parts: list[Any] = [header, self.rows[0]]
        if self.type_code == DYNAMIC_V0:
            growth = _GROWTH.pack(self.row_capacity, self.last_row_keys, len(self.rows))
            parts = [header, growth, *(part for row in self.rows for part in (header, row))]
        return self.type_code, base64.b64encode(b"".join(parts)).decode("ascii")

    def _sparsely_added(self, row: Bits, chunks: Sequence[pa.Array]) -> Bits:
        """Add a few keys to a large row; memory follows from the keys, not from the row."""
        row = row.copy()
        for chunk in chunks:
            for _, positions in key_hashes.positions(chunk, self.bits, self.hashes):
                bits = np.sort(np.concatenate(positions))
                starts = np.flatnonzero(np.diff(bits >> np.uint32(3), prepend=np.uint32(2**32 - 1)))
                masks = np.left_shift(np.uint8(1), (bits & np.uint32(7)).astype(np.uint8), dtype=np.uint8)
                row[bits[starts] >> np.uint32(3)] |= np.bitwise_or.reduceat(masks, starts)
        return row

    def _added(self, row: Bits, chunks: Sequence[pa.Array]) -> Bits:
        if self.bits > _SPARSE * self.hashes * sum(map(len, chunks)):
            return self._sparsely_added(row, chunks)
        # One byte a bit while setting: scattered stores are far cheaper than scattered read-modify-writes.
        flags = np.unpackbits(row, bitorder="little")
        for chunk in chunks:
            for _, positions in key_hashes.positions(chunk, self.bits, self.hashes):
                for position in positions:
                    flags[position] = 1
        return np.packbits(flags, bitorder="little")

    def _probed(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        answer = np.empty(len(keys), np.bool_)
        for numbers, positions in key_hashes.positions(keys, self.bits, self.hashes):
            found = np.zeros(len(numbers), np.uint8)
            for row in self.rows:
                in_row = np.ones(len(numbers), np.uint8)
                for position in positions:
                    in_row &= row[position >> np.uint32(3)] >> (position & np.uint32(7)).astype(np.uint8)
                found |= in_row
            answer[numbers] = found
        return answer


def bits_for(capacity: int, fpp: float) -> int:
    """Return the bits of a new filter with false-positive rate `fpp` at `capacity` keys."""
    return min(math.ceil(max(capacity, 1) * -math.log(fpp) / math.log(2) ** 2), _MAX_BITS)


def decode_filter(type_code: str, text: str | bytes, path: str = "") -> BloomFilter:
    """Read a filter from its two footer values, type code and base64 text (docs/format §7).

    `encode` gives the same values again.

    Raises:
        Corrupt: unknown type code, not base64, or bytes that are no filter of that type.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Corrupt(**_damage(path, str(error), "base64")) from error
    if type_code == SIMPLE:
        bits, hashes = read_header(data, 0, path)
        if len(data) != _HEADER.size + _row_bytes(bits):
            raise Corrupt(**_damage(path, f"{len(data)} bytes for {bits} bits", "header and bit array"))
        return BloomFilter(bits, hashes, (np.frombuffer(data, np.uint8, offset=_HEADER.size),))
    if type_code == DYNAMIC_V0:
        return _decode_dynamic(data, path)
    raise Corrupt(**_damage(path, f"type code {type_code!r}", f"type code {SIMPLE} or {DYNAMIC_V0}"))


def _decode_dynamic(data: bytes, path: str) -> BloomFilter:
    bits, hashes = read_header(data, 0, path)
    start = _HEADER.size + _GROWTH.size
    if len(data) < start:
        raise Corrupt(**_damage(path, f"{len(data)} bytes", f"{start} bytes before the first row"))
    row_capacity, last_row_keys, count = _GROWTH.unpack_from(data, _HEADER.size)
    size_bytes = _HEADER.size + _row_bytes(bits)
    # Hudi counts on beyond a full row once the filter must not grow any more, so that number has no upper bound.
    if row_capacity < 1 or last_row_keys < 0 or count < 1 or len(data) - start != count * size_bytes:
        found = f"{count} rows of {bits} bits for {row_capacity} keys each in {len(data)} bytes"
        raise Corrupt(**_damage(path, found, "numbers that fit the length"))
    rows: list[Bits] = []
    for at in range(start, len(data), size_bytes):
        if read_header(data, at, path) != (bits, hashes):
            raise Corrupt(**_damage(path, f"a row of another size at offset {at}", "rows of one size"))
        rows.append(np.frombuffer(data, np.uint8, _row_bytes(bits), at + _HEADER.size))
    return BloomFilter(bits, hashes, tuple(rows), DYNAMIC_V0, row_capacity, last_row_keys)


def read_header(data: bytes, at: int, path: str) -> tuple[int, int]:
    """Return bits and hashes of the filter header at an offset.

    Raises:
        Corrupt: no header of a filter.
    """
    if len(data) - at < _HEADER.size:
        raise Corrupt(**_damage(path, f"{len(data) - at} bytes at offset {at}", f"a header of {_HEADER.size} bytes"))
    version, hashes, hash_type, bits = _HEADER.unpack_from(data, at)
    if version != _VERSION or hash_type != _MURMUR or not 1 <= hashes <= _MAX_HASHES or bits < 1:
        found = f"version {version}, hash type {hash_type}, {hashes} hashes, {bits} bits at offset {at}"
        raise Corrupt(**_damage(path, found, "version -1, hash type 1 (murmur), 1 to 1024 hashes, at least 1 bit"))
    return bits, hashes


def _row_bytes(bits: int) -> int:
    return (bits + 7) // 8


def _damage(path: str, found: str, expected: str) -> dict[str, Any]:
    return {
        "what": f"The bloom filter in {path or 'a footer'} is damaged",
        "expected": expected,
        "found": found,
        "next_step": "run `hudi-ops verify` on the table; rewrite the base file",
        "path": path,
    }

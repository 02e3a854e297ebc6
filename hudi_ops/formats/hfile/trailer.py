"""Protocol buffers of an HFile: the trailer at its end, and file info with writers' keys."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hudi_ops.errors import Unsupported
from hudi_ops.formats.hfile.frame import Codec, fail

TRAILER_BYTES: Final = 4096
_MAGIC: Final = b'TRABLK"$'
_INFO_MAGIC: Final = b"PBUF"
_VERSION: Final = struct.Struct(">I")
_MAJOR, _MINOR = 3, 3
_MAJOR_MASK: Final = 0xFFFFFF
_COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_VARINT_BYTES_MAX: Final = 10
_FIXED: Final = {1: 8, 5: 4}
"""Bytes of the wire types that have a fixed width."""

KEY_VALUE_VERSION: Final = "KEY_VALUE_VERSION"
MAX_MEMSTORE_TS: Final = "MAX_MEMSTORE_TS_KEY"
AVG_KEY_LEN: Final = "hfile.AVG_KEY_LEN"
AVG_VALUE_LEN: Final = "hfile.AVG_VALUE_LEN"
CREATE_TIME: Final = "hfile.CREATE_TIME_TS"
LAST_KEY: Final = "hfile.LASTKEY"
MIN_RECORD_KEY: Final = "minRecordKey"
MAX_RECORD_KEY: Final = "maxRecordKey"
SCHEMA: Final = "schema"


@dataclass(frozen=True, slots=True)
class Trailer:
    """Offsets of the file's parts, and their numbers (docs/format §13.5)."""

    file_info: int
    load_on_open: int
    index_bytes: int
    total_bytes: int
    data_blocks: int
    entries: int
    first_block: int
    last_block: int
    codec: Codec = Codec.GZ

    def encode(self) -> bytes:
        """Encode the last 4096 bytes of the file."""
        numbers = {
            1: self.file_info,
            2: self.load_on_open,
            3: self.index_bytes,
            4: self.total_bytes,
            5: self.data_blocks,
            6: 0,  # meta blocks
            7: self.entries,
            8: 1,  # levels of the index
            9: self.first_block,
            10: self.last_block,
        }
        fields = [_varint(number << 3) + _varint(value) for number, value in numbers.items()]
        fields += [_bytes_field(11, _COMPARATOR), _varint(12 << 3) + _varint(self.codec)]
        body = b"".join(fields)
        head = _MAGIC + _varint(len(body)) + body
        return head.ljust(TRAILER_BYTES - _VERSION.size, b"\x00") + _VERSION.pack(_MINOR << 24 | _MAJOR)


def decode_trailer(data: memoryview, offset: int, path: str) -> Trailer:
    """Read the trailer (docs/format §13.5).

    Args:
        data: the last 4096 bytes of the file.
        offset: their offset in the file, for errors and as the limit of the offsets that they name.

    Raises:
        Corrupt: it is not a trailer, or contradicts itself.
        Unsupported: another major version, codec, an index of several levels, or an encrypted file.
    """
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        fail(path, offset, f"a trailer that begins with {bytes(data[: len(_MAGIC)])!r}", repr(_MAGIC))
    (version,) = _VERSION.unpack_from(data, TRAILER_BYTES - _VERSION.size)
    if version & _MAJOR_MASK != _MAJOR:
        fail(path, offset, f"major version {version & _MAJOR_MASK}", f"version {_MAJOR}", Unsupported)
    body = _message(data[: TRAILER_BYTES - _VERSION.size], len(_MAGIC), offset, path)
    numbers: dict[int, int] = {}
    for number, value in _fields(body, offset, path):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 13 and len(value):
            fail(path, offset, "an encryption key", "a file that is not encrypted", Unsupported)
    codec = numbers.get(12, 0)
    if codec not in Codec._value2member_map_:
        fail(path, offset, f"a compression codec of number {codec}", "1 (GZ) or 2 (none)", Unsupported)
    levels = numbers.get(8, 0)
    if levels > 1:
        fail(path, offset, f"an index of {levels} levels", "one level", Unsupported)
    file_info, load_on_open = numbers.get(1, 0), numbers.get(2, 0)
    if not load_on_open < file_info < offset:
        fail(path, offset, f"index at {load_on_open}, file info at {file_info}", f"both in this order before {offset}")
    index_bytes, total_bytes, data_blocks, entries, first, last = (numbers.get(n, 0) for n in (3, 4, 5, 7, 9, 10))
    return Trailer(file_info, load_on_open, index_bytes, total_bytes, data_blocks, entries, first, last, Codec(codec))


def encode_info(info: Mapping[str, bytes]) -> bytes:
    """Encode the payload of the file info block, sorted by key (docs/format §13.5)."""
    pairs = [_bytes_field(1, key.encode()) + _bytes_field(2, info[key]) for key in sorted(info)]
    body = b"".join(_bytes_field(1, pair) for pair in pairs)
    return _INFO_MAGIC + _varint(len(body)) + body


def decode_info(payload: bytes, offset: int, path: str) -> dict[str, bytes]:
    """Read the payload of the file info block (docs/format §13.5).

    Raises:
        Corrupt: it does not follow the format.
        Unsupported: entries are of another version, or have numbers of changes after their values.
    """
    if payload[: len(_INFO_MAGIC)] != _INFO_MAGIC:
        fail(path, offset, f"file info that begins with {payload[:4]!r}", repr(_INFO_MAGIC))
    info: dict[str, bytes] = {}
    for number, pair in _fields(_message(memoryview(payload), len(_INFO_MAGIC), offset, path), offset, path):
        if number != 1 or isinstance(pair, int):
            continue
        named = {place: bytes(value) for place, value in _fields(pair, offset, path) if not isinstance(value, int)}
        try:
            info[named.get(1, b"").decode()] = named.get(2, b"")
        except UnicodeDecodeError as error:
            fail(path, offset, f"a key of file info: {error}", "UTF-8")
    version = info.get(KEY_VALUE_VERSION)
    if version is not None and int.from_bytes(version) != 1:
        fail(path, offset, f"entries of version {int.from_bytes(version)}", "version 1", Unsupported)
    if any(info.get(MAX_MEMSTORE_TS, b"")):
        fail(path, offset, "numbers of changes after the values", "none: 0 after each", Unsupported)
    return info


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _read_varint(data: memoryview, at: int, offset: int, path: str) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    fail(path, offset, f"an integer at byte {at} that does not end", "one of at most 10 bytes")


def _message(data: memoryview, at: int, offset: int, path: str) -> memoryview:
    length, at = _read_varint(data, at, offset, path)
    if length > len(data) - at:
        fail(path, offset, f"a message of {length} bytes", f"at most {len(data) - at} bytes")
    return data[at : at + length]


def _fields(data: memoryview, offset: int, path: str) -> Iterator[tuple[int, int | memoryview]]:
    """Yield numbers and values; fixed-width values, which no message has, as their bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at, offset, path)
        kind = tag & 7
        if kind == 0:
            value, at = _read_varint(data, at, offset, path)
            yield tag >> 3, value
            continue
        if kind not in {2, *_FIXED}:
            fail(path, offset, f"a field of wire type {kind}", "one of 0, 1, 2 and 5")
        length, at = (_FIXED[kind], at) if kind in _FIXED else _read_varint(data, at, offset, path)
        if length > len(data) - at:
            fail(path, offset, f"a field of {length} bytes", f"at most {len(data) - at} bytes")
        yield tag >> 3, data[at : at + length]
        at += length

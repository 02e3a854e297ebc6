"""Blocks of an HFile: a header of 33 bytes, a payload, and checksums."""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Final, NoReturn

from hudi_ops.errors import Corrupt, HudiOpsError

DATA: Final = b"DATABLK*"
INDEX: Final = b"IDXROOT2"
FILE_INFO: Final = b"FILEINF2"

_HEADER: Final = struct.Struct(">8siiqBii")
HEADER_BYTES: Final = _HEADER.size
_GZIP: Final = 31
"""Window bits of zlib for the gzip form, which Java's codec GZ writes."""
_NO_CHECKSUM: Final = 0
_CHECKSUM_CHUNK: Final = 16384
"""Bytes covered by one checksum. HBase's reader divides by it, so it is never 0."""
_CHECKSUM_BYTES: Final = 4
PAYLOAD_BYTES_MAX: Final = 1 << 28
_INFLATION_MAX: Final = 1032
"""Upper bound of the bytes that one byte of deflate expands to."""


class Codec(IntEnum):
    """Compression of payloads by its number in the trailer; all HFile readers know both."""

    GZ = 1
    NONE = 2


def encode_hfile_block(kind: bytes, payload: bytes | memoryview, previous: int, level: int) -> bytes:
    """Encode one block, compressed by GZ (docs/format §13.2).

    `previous` is the offset of the block of this kind before it, -1 for the first. Equal arguments give equal bytes.
    """
    packed = zlib.compress(payload, level, _GZIP)
    data_bytes = HEADER_BYTES + len(packed)
    checksums = bytes(-(-data_bytes // _CHECKSUM_CHUNK) * _CHECKSUM_BYTES)
    on_disk = len(packed) + len(checksums)
    head = _HEADER.pack(kind, on_disk, len(payload), previous, _NO_CHECKSUM, _CHECKSUM_CHUNK, data_bytes)
    return b"".join([head, packed, checksums])


def decode_hfile_block(data: memoryview, offset: int, kind: bytes, codec: Codec, path: str) -> tuple[bytes, int]:
    """Return the payload and size of the block that begins these bytes (docs/format §13.2).

    Raises:
        Corrupt: the block does not follow the format, runs past the data, or its payload contradicts its header.
    """
    if len(data) < HEADER_BYTES:
        fail(path, offset, f"{len(data)} bytes", f"a block's header of {HEADER_BYTES} bytes")
    magic, on_disk, unpacked, _, _, _, data_bytes = _HEADER.unpack_from(data)
    if magic != kind:
        fail(path, offset, f"a block that begins with {magic!r}", repr(kind))
    if not 0 <= on_disk <= len(data) - HEADER_BYTES:
        fail(path, offset, f"a block of {on_disk} bytes", f"at most {len(data) - HEADER_BYTES}")
    if not HEADER_BYTES <= data_bytes <= HEADER_BYTES + on_disk:
        fail(path, offset, f"a payload that ends at byte {data_bytes}", f"one within {HEADER_BYTES + on_disk} bytes")
    packed = data[HEADER_BYTES:data_bytes]
    if not 0 <= unpacked <= min(PAYLOAD_BYTES_MAX, len(packed) * _INFLATION_MAX):
        fail(
            path,
            offset,
            f"{unpacked} bytes in a payload of {len(packed)} bytes",
            "at most the bytes that it can expand to",
        )
    payload = _inflate(packed, unpacked, offset, path) if codec is Codec.GZ else bytes(packed)
    if len(payload) != unpacked:
        fail(path, offset, f"{len(payload)} bytes in the payload", f"{unpacked} bytes")
    return payload, HEADER_BYTES + on_disk


def _inflate(packed: memoryview, unpacked: int, offset: int, path: str) -> bytes:
    inflater = zlib.decompressobj(_GZIP)
    try:
        payload = inflater.decompress(
            packed, unpacked + 1
        )  # One byte more: so the end is reached, and the checksum compared.
    except zlib.error as error:
        fail(path, offset, str(error), "gzip")
    if not inflater.eof or inflater.unused_data:
        fail(path, offset, "a payload that is longer or shorter", f"gzip of {unpacked} bytes")
    return payload


def fail(path: str, offset: int, found: str, expected: str, error: type[HudiOpsError] = Corrupt) -> NoReturn:
    """Refuse a file because of the bytes at an offset."""
    is_damage = error is Corrupt
    raise error(
        f"The HFile {path} {'is damaged' if is_damage else 'is not understood'} at offset {offset}",
        expected=expected,
        found=found,
        next_step="run `hudi-ops verify`; drop the metadata table and build it again: all of it follows from the data "
        "files"
        if is_damage
        else "read the table with the Apache Hudi that wrote it; if no Apache Hudi wrote it, the file is damaged",
        path=path,
        offset=offset,
    )

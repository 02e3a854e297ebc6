"""Framing of log files: positions of blocks, headers, damaged stretches; no contents."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NoReturn

import pyarrow as pa

from hudi_ops.errors import Corrupt, HudiOpsError, Unsupported

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
_SIZE: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">ii")
_COUNT: Final = struct.Struct(">i")
_PROLOGUE_BYTES: Final = len(MAGIC) + _SIZE.size
_SMALLEST_BLOCK: Final = 2 * _HEAD.size + 2 * _SIZE.size
"""Version and type, two empty maps, content length and reverse pointer."""
_NEAR_BYTES: Final = 16 << 10
_DOUBTFUL_BYTES: Final = 32
"""Bytes read at the end of a block that begins in a damaged stretch, where many false blocks may point anywhere."""
_SCAN_BYTES: Final = 1 << 20


class BlockKind(IntEnum):
    """Type of a block, by number on disk; CORRUPT is a damaged stretch, never written."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Key of a block header, by its number on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """Position of a block.

    Of a damaged stretch (CORRUPT) only offset and size are known; its content is the whole stretch.
    """

    kind: BlockKind
    headers: Mapping[HeaderKey, str]
    offset: int
    size_bytes: int
    content_offset: int
    content_bytes: int


def scan_blocks(source: pa.NativeFile, path: str) -> list[BlockSpan]:
    """Find the blocks and damaged stretches of a log file, in file order (docs/format §6.8).

    They cover the file. A block is damaged, as for Apache Hudi, when it runs past the end, when its last eight bytes do not repeat
    its size, or when neither the end nor another block follows it: half an append of a writer that died. Such a stretch ends at the
    next magic; adjacent stretches are one.

    Raises:
        Corrupt: the file does not begin with a block, or a block that is whole does not follow the format.
        Unsupported: a block has an unknown type, header or version.
    """
    window = _Window(source, path)
    spans: list[BlockSpan] = []
    at = 0
    while at < window.size_bytes:
        if at == 0 and window.size_bytes >= len(MAGIC) and window.at(0, len(MAGIC)) != MAGIC:
            _fail(path, 0, "other bytes in its place", "a block's magic #HUDI#")
        is_after_damage = bool(spans) and spans[-1].kind is BlockKind.CORRUPT
        end = _end_of_block(window, at, _DOUBTFUL_BYTES if is_after_damage else _NEAR_BYTES)
        if end is None:
            next_at = window.find_magic(at + len(MAGIC))
            _add_damage(spans, at, next_at)
            at = next_at
        else:
            spans.append(_read_block(window, at, end))
            window.move_on()
            at = end
    return spans


def encode_block(kind: BlockKind, headers: Mapping[HeaderKey, str], content: bytes | pa.Buffer) -> bytes:
    """Encode one block of any kind but CORRUPT (docs/format §6.8).

    Headers are written in the order of their numbers; equal arguments give equal bytes.
    """
    entries = []
    for key in sorted(headers):
        value = headers[key].encode()
        entries.append(_HEAD.pack(key, len(value)) + value)
    head = _HEAD.pack(FORMAT_VERSION, kind) + _COUNT.pack(len(entries)) + b"".join(entries) + _SIZE.pack(len(content))
    size_bytes = len(head) + len(content) + _COUNT.size + _SIZE.size
    tail = _COUNT.pack(0) + _SIZE.pack(size_bytes + len(MAGIC))
    return b"".join([MAGIC, _SIZE.pack(size_bytes), head, memoryview(content), tail])


def _end_of_block(window: _Window, at: int, ahead_bytes: int) -> int | None:
    """Return the offset behind a block, or None for half a block, checked as Hudi does."""
    if at + _PROLOGUE_BYTES > window.size_bytes:
        return None
    (size_bytes,) = _SIZE.unpack_from(window.at(at, _PROLOGUE_BYTES), len(MAGIC))
    end = at + _PROLOGUE_BYTES + size_bytes
    if size_bytes < _SMALLEST_BLOCK or end > window.size_bytes:
        return None
    behind = min(len(MAGIC), window.size_bytes - end)
    tail = window.ahead(end - _SIZE.size, _SIZE.size + behind, ahead_bytes)
    if _SIZE.unpack_from(tail)[0] != size_bytes + len(MAGIC):
        return None
    # Apache Hudi takes fewer bytes than a magic for the end: a writer died after the first bytes of its append.
    return end if behind < len(MAGIC) or tail[_SIZE.size :] == MAGIC else None


def _read_block(window: _Window, at: int, end: int) -> BlockSpan:
    path = window.path
    version, number = _HEAD.unpack(window.at(at + _PROLOGUE_BYTES, _HEAD.size))
    if version != FORMAT_VERSION:
        _fail(path, at, f"log format version {version}", f"version {FORMAT_VERSION}", Unsupported)
    if number not in BlockKind._value2member_map_:
        _fail(path, at, f"a block of type {number}", f"a type up to {max(BlockKind).value}", Unsupported)
    if number == BlockKind.CORRUPT:
        _fail(path, at, "a block of type 2, which is never written", "another type")
    last = end - _SIZE.size
    headers, content_offset = _read_headers(window, at, at + _PROLOGUE_BYTES + _HEAD.size, last)
    if content_offset + _SIZE.size > last:
        _fail(path, at, "headers that run past the block's end", "headers within the block")
    (content_bytes,) = _SIZE.unpack(window.at(content_offset, _SIZE.size))
    content_offset += _SIZE.size
    if not 0 <= content_bytes <= last - content_offset:
        _fail(path, at, f"a content of {content_bytes} bytes", f"at most {last - content_offset} bytes")
    _, footer_end = _read_headers(window, at, content_offset + content_bytes, last)
    if footer_end != last:
        _fail(path, at, f"{last - footer_end} bytes between footer and end", "none")
    if HeaderKey.INSTANT_TIME not in headers:
        # Apache Hudi fails on it or skips it, depending on the reader; rows would be missing silently.
        _fail(path, at, "no header INSTANT_TIME", "the instant of the writer")
    return BlockSpan(BlockKind(number), MappingProxyType(headers), at, end - at, content_offset, content_bytes)


def _read_headers(window: _Window, block_at: int, at: int, last: int) -> tuple[dict[HeaderKey, str], int]:
    """Return the map at `at` and the offset behind it, which must not exceed `last`."""
    path, headers = window.path, dict[HeaderKey, str]()
    if at + _COUNT.size > last:
        _fail(path, block_at, "a map of headers that runs past the block's end", "one within the block")
    (count,) = _COUNT.unpack(window.at(at, _COUNT.size))
    at += _COUNT.size
    if count < 0:
        _fail(path, block_at, f"{count} headers", "none or more")
    for _ in range(count):
        if at + _HEAD.size > last:
            _fail(path, block_at, f"{count} headers that run past the block's end", "headers within the block")
        number, length = _HEAD.unpack(window.at(at, _HEAD.size))
        at += _HEAD.size
        if number not in HeaderKey._value2member_map_:
            _fail(path, block_at, f"a header of number {number}", f"numbers up to {max(HeaderKey).value}", Unsupported)
        key = HeaderKey(number)
        if key in headers or not 0 <= length <= last - at:
            found = "it twice" if key in headers else f"{length} bytes"
            _fail(path, block_at, f"header {key.name}: {found}", "each header once, within the block")
        try:
            headers[key] = window.at(at, length).decode()
        except UnicodeDecodeError as error:
            _fail(path, block_at, f"header {key.name}: {error}", "UTF-8")
        at += length
    return headers, at


def _add_damage(spans: list[BlockSpan], start: int, end: int) -> None:
    if spans and spans[-1].kind is BlockKind.CORRUPT:
        start = spans.pop().offset
    spans.append(BlockSpan(BlockKind.CORRUPT, MappingProxyType({}), start, end - start, start, end - start))


class _Window:
    """Two pieces of the file in memory: around the block that is read, and around its end.

    Offsets only grow, so nothing is read twice, however many false beginnings there are.
    """

    def __init__(self, source: pa.NativeFile, path: str) -> None:
        self._source = source
        self.path = path
        self.size_bytes = int(source.size())
        self._near = (0, b"")
        self._ahead = (0, b"")

    def at(self, offset: int, length: int) -> bytes:
        held = self._held(offset, length)
        if held is None:
            self._near = offset, self._read(offset, max(length, _NEAR_BYTES))
            held = self._near[1][:length]
        return held

    def ahead(self, offset: int, length: int, piece_bytes: int) -> bytes:
        held = self._held(offset, length)
        if held is None:
            start = offset - _COUNT.size  # with the footer, which comes before it
            self._ahead = start, self._read(start, piece_bytes)
            held = self._ahead[1][offset - start : offset - start + length]
        return held

    def _held(self, offset: int, length: int) -> bytes | None:
        for start, piece in (self._near, self._ahead):
            if start <= offset and offset + length <= start + len(piece):
                return piece[offset - start : offset - start + length]
        return None

    def move_on(self) -> None:
        """Use the piece at the end of the block as the piece of the next block."""
        if self._ahead[0] > self._near[0]:
            self._near = self._ahead

    def find_magic(self, offset: int) -> int:
        """Return the offset of the next magic at or behind `offset`, or the file's size."""
        while offset + len(MAGIC) <= self.size_bytes:
            start, held = self._near
            if not (start <= offset and offset + len(MAGIC) <= start + len(held)):
                self._near = start, held = offset, self._read(offset, _SCAN_BYTES)
            found = held.find(MAGIC, offset - start)
            if found >= 0:
                return start + found
            offset = start + len(held) - len(MAGIC) + 1
        return self.size_bytes

    def _read(self, offset: int, length: int) -> bytes:
        length = min(length, self.size_bytes - offset)
        read: bytes = self._source.read_at(length, offset)
        if len(read) != length:
            _fail(self.path, offset, f"{len(read)} bytes", f"{length} bytes: the file has become shorter")
        return read


def _fail(path: str, offset: int, found: str, expected: str, error: type[HudiOpsError] = Corrupt) -> NoReturn:
    is_damage = error is Corrupt
    raise error(
        f"The log file {path} {'is damaged' if is_damage else 'is not understood'} at offset {offset}",
        expected=expected,
        found=found,
        next_step="run `hudi-ops verify`; restore the file from a copy"
        if is_damage
        else "read the table with the Apache Hudi that wrote it; if no Apache Hudi wrote it, the file is damaged",
        path=path,
        offset=offset,
    )

"""Find a value of a Parquet chunk above a limit, without decoding its page.

Arrow decompresses a page as a whole, so a value that must not be in memory has to be found before. Only pages above the limit
are looked into; they are decompressed in blocks, and only the lengths of their values are read. Arrow decompresses Snappy and LZ4
only as a whole, and the delta encodings keep lengths apart from values: of such pages, a very large one counts as a large value.

Source: the Parquet format, `PageHeader` in parquet.thrift; the Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_STREAMED: Final = {"UNCOMPRESSED": None, "ZSTD": "zstd", "GZIP": "gzip", "BROTLI": "brotli"}
"""Codecs of pages that can be read in blocks, with Arrow's names."""
_CLOSED_BYTES_MAX = 8 << 20
"""Bytes of a page that are decompressed without a look into it. Writers end pages at 1 MiB."""
_HEADER_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
_INDICES: Final = {
    (kind, code) for kind in (_DATA_PAGE, _DATA_PAGE_V2) for code in (_PLAIN_DICTIONARY, _RLE_DICTIONARY)
}
"""Kinds and encodings of pages that hold indices into the dictionary."""
_TEXTS: Final = {
    (_DATA_PAGE, _PLAIN),
    (_DATA_PAGE_V2, _PLAIN),
    (_DICTIONARY_PAGE, _PLAIN),
    (_DICTIONARY_PAGE, _PLAIN_DICTIONARY),
}
"""Kinds and encodings of pages whose values begin with their length."""


@dataclass(frozen=True)
class LargeValue:
    """Value above the limit.

    Attributes:
        row: its row in the row group, from 0; the smallest possible one where `is_exact` is false.
        size_bytes: its size; of its page, if the page cannot be looked into.
    """

    row: int
    size_bytes: int
    is_exact: bool


@dataclass(frozen=True)
class _Page:
    kind: int
    offset: int
    size_bytes: int
    whole_bytes: int
    """Bytes after decompression."""
    values: int
    encoding: int
    levels_bytes: int
    """Uncompressed levels before the values, in a page of version 2."""
    is_compressed: bool
    first: int
    """Values of the chunk before this page."""


def large_value(
    source: pa.NativeFile, chunk: pq.ColumnChunkMetaData, limit_bytes: int, levels: int
) -> LargeValue | None:
    """Return the first text or bytes of a chunk that exceed the limit, or None.

    `levels` is 0 for a column without nulls, 1 for one with, 2 for one within lists. A page that cannot be looked into counts as
    one value, if it is larger than the limit and 8 MiB.

    Raises:
        OSError: the storage did not deliver it.
        ArrowInvalid: the chunk is damaged.
    """
    if chunk.physical_type != "BYTE_ARRAY" or chunk.total_uncompressed_size <= limit_bytes:
        return None
    has_nulls = levels > 1 or (levels == 1 and (chunk.statistics is None or chunk.statistics.null_count != 0))
    for page in _pages(source, chunk):
        if page.whole_bytes <= limit_bytes or page.kind not in {_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2}:
            continue
        codec = chunk.compression if page.is_compressed else "UNCOMPRESSED"
        form = (page.kind, page.encoding)
        if form in _TEXTS and codec in _STREAMED:
            if (found := _long_text(_blocks(source, page, codec), page, limit_bytes, levels)) is not None:
                number, size_bytes = found
                is_first = page.kind != _DICTIONARY_PAGE or number == 0
                return LargeValue(page.first + number, size_bytes, is_first and not has_nulls)
        elif form not in _INDICES and page.whole_bytes > _CLOSED_BYTES_MAX:
            return LargeValue(page.first, page.whole_bytes, is_exact=False)
    return None


def _pages(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Iterator[_Page]:
    offset = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        offset = min(offset, chunk.dictionary_page_offset)
    end, first = offset + chunk.total_compressed_size, 0
    while offset < end:
        header, length = _header(source.read_at(min(_HEADER_BYTES, end - offset), offset))
        kind, whole_bytes, size_bytes = header.get(1, -1), header.get(2, 0), header.get(3, 0)
        known: dict[int, Any] = header.get({_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}.get(kind, 0), {})
        is_second = kind == _DATA_PAGE_V2
        levels = known.get(5, 0) + known.get(6, 0) if is_second else 0
        values = known.get(1, 0)
        if min(whole_bytes, size_bytes, values) < 0:
            raise pa.ArrowInvalid("a page has a negative size")
        yield _Page(
            kind,
            offset + length,
            size_bytes,
            whole_bytes,
            values,
            known.get(4 if is_second else 2, -1),
            levels,
            not is_second or bool(known.get(7, True)),
            first,
        )
        if kind != _DICTIONARY_PAGE:
            first += values
        offset += length + size_bytes


def _blocks(source: pa.NativeFile, page: _Page, codec: str) -> Iterator[bytes]:
    """Yield the values of a page, decompressed in blocks."""
    start, size_bytes = page.offset + page.levels_bytes, page.size_bytes - page.levels_bytes
    body: pa.NativeFile = pa.PythonFile(_Stretch(source, start, size_bytes), mode="r")
    if (streamed := _STREAMED[codec]) is not None:
        body = pa.CompressedInputStream(body, streamed)
    while block := body.read(_BLOCK_BYTES):
        yield block


class _Stretch:
    """Stretch of a file, as a stream."""

    closed = False

    def __init__(self, source: pa.NativeFile, start: int, size_bytes: int) -> None:
        self._source, self._at, self._end = source, start, start + size_bytes

    def read(self, size: int | None = None) -> bytes:
        left = self._end - self._at
        body: bytes = self._source.read_at(min(left, _BLOCK_BYTES if size is None or size < 0 else size), self._at)
        self._at += len(body)
        return body

    def close(self) -> None:
        """Leave the file open: it belongs to the caller."""


def _long_text(blocks: Iterator[bytes], page: _Page, limit_bytes: int, levels: int) -> tuple[int, int] | None:
    """Return number and size of the first value above the limit in the values of a page."""
    # Levels of a page of version 1 have the form of values: their length, then their bytes.
    number = -levels if page.kind == _DATA_PAGE else 0
    held, skip = b"", 0
    for block in blocks:
        if skip >= len(held):
            held, skip = block, skip - len(held)
        else:
            held, skip = held[skip:] + block, 0
        while skip + 4 <= len(held):
            size_bytes = int.from_bytes(held[skip : skip + 4], "little")
            if size_bytes > page.whole_bytes:
                return None  # the page is damaged: its reader says how
            if size_bytes > limit_bytes and number >= 0:
                return number, size_bytes
            skip, number = skip + 4 + size_bytes, number + 1
    return None


def _header(data: bytes) -> tuple[dict[int, Any], int]:
    """Return the fields of a page's header by number, and its length.

    Raises:
        ArrowInvalid: it is damaged.
    """
    try:
        return _struct(data, 0)
    except (IndexError, KeyError) as error:
        raise pa.ArrowInvalid("a page has no header that can be read") from error


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head, at = data[at], at + 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        fields[number], at = _field(data, at, head & 15)


def _field(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return a value of the compact protocol, of a kind that `PageHeader` has."""
    if kind in {1, 2}:
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in {4, 5, 6}:
        return _zigzag(data, at)
    if kind == 8:
        length, at = varint(data, at)
        return None, at + length
    return {12: _struct}[kind](data, at)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of the compact protocol, and where it ends."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at

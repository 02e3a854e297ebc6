"""Footer of a base file whose bloom filter Arrow never holds.

Arrow holds each value of a footer twice while a file is open, and six times while it writes it. The filter has 3.6 bytes for each
key, so that of a large file would take more memory than its rows, of which only a batch is held.
"""

from __future__ import annotations

import os
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.formats.parquet.bloom import BloomFilter, decode_filter
from hudi_ops.formats.parquet.footer import BLOOM, bloom_of, type_code_of
from hudi_ops.formats.parquet.pages import varint

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
"""Length of the footer, and the magic bytes."""
_SMALL_BYTES: Final = 1 << 20
"""Smaller filters stay in the footer."""
_TEXT: Final = b"\x18"
"""Begin of a field of text that follows a field, in the compact protocol of Thrift."""
_KEY: Final = _TEXT + bytes([len(BLOOM)]) + BLOOM.encode() + _TEXT


class LargeFooter:
    """Footer of a Parquet file on `source`; the filter is read when it is asked for.

    Source: the Parquet format, `FileMetaData` in parquet.thrift; docs/format §7.

    Raises:
        OSError: the storage did not deliver it.
        ArrowInvalid: not a Parquet file.
    """

    def __init__(self, source: pa.NativeFile, path: str) -> None:
        self._source, self._path = source, path
        footer = self._footer()
        begin, end = _place(footer)
        if begin == end:
            self.parquet: pq.FileMetaData = pq.read_metadata(source)
            """Parquet's part; a large filter in it is empty."""
            return
        key_end = footer.rfind(_KEY) + len(_KEY)
        body = b"".join([footer[:key_end], b"\0", footer[end:]])
        del footer
        whole = b"".join([_MAGIC, body, len(body).to_bytes(4, "little"), _MAGIC])
        self.parquet = pq.read_metadata(pa.BufferReader(whole))

    def bloom(self) -> BloomFilter | None:
        """Return the filter over the record keys, if the file has one.

        Raises:
            Corrupt: it is damaged.
        """
        footer = self._footer()
        begin, end = _place(footer)
        if begin == end:
            return bloom_of(self.parquet.metadata, self._path)
        text = footer[begin:end]
        del footer
        return decode_filter(type_code_of(self.parquet.metadata, self._path), text, self._path)

    def _footer(self) -> bytes:
        size_bytes = self._source.size()
        tail = self._source.read_at(_TAIL_BYTES, max(0, size_bytes - _TAIL_BYTES))
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > size_bytes - _TAIL_BYTES:
            return b""  # Arrow says what is wrong with it
        body: bytes = self._source.read_at(length, size_bytes - _TAIL_BYTES - length)
        return body


def add_filter(file: IO[bytes], text: str) -> None:
    """Put the text of a filter into the footer of a written file, which has an empty one.

    The bytes are those that Arrow would have written.

    Raises:
        OSError: the disk did not accept it.
    """
    file.seek(-_TAIL_BYTES, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    begin = file.seek(-_TAIL_BYTES - length, os.SEEK_END)
    footer = file.read(length)
    key_end = footer.rindex(_KEY) + len(_KEY)
    size, left = bytearray(), len(text)
    while left >= 0x80:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    size.append(left)
    file.seek(begin + key_end)
    file.writelines([bytes(size), text.encode("ascii"), footer[key_end + 1 :]])
    file.writelines([(length + len(size) - 1 + len(text)).to_bytes(4, "little"), _MAGIC])


def _place(footer: bytes) -> tuple[int, int]:
    """Return begin and end of a large filter's text in a footer; equal if there is none."""
    found = footer.rfind(_KEY)
    if found < 0:
        return 0, 0
    try:
        length, begin = varint(footer, found + len(_KEY))
    except IndexError:
        return 0, 0
    end = begin + length
    is_large = length >= _SMALL_BYTES and footer[end : end + 1] == b"\0"
    return (begin, end) if is_large else (0, 0)

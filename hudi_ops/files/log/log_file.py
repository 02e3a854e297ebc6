"""Log files: their blocks read as Arrow, and the encoding of new ones."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.errors import Corrupt, Internal, InvalidRequest, Unavailable, Unsupported
from hudi_ops.files.base.base_file import MODERN_CALENDAR, ROW_GROUP_ROWS, WriterSettings, parquet_writer
from hudi_ops.files.base.dictionary_columns import dictionary_columns
from hudi_ops.formats.avro.nodes import record_of
from hudi_ops.formats.avro.rows import AvroRows, encode_rows
from hudi_ops.formats.avro.schema import to_arrow
from hudi_ops.formats.log.blocks import BlockKind, BlockSpan, HeaderKey, encode_block, scan_blocks
from hudi_ops.formats.log.deletes import Deletes, decode_deletes, encode_deletes
from hudi_ops.formats.parquet.encoded_columns import decoded_pieces, encoded_columns
from hudi_ops.storage.protocol import Storage

__all__ = ["BlockKind", "Deletes", "HeaderKey", "LogBlock", "LogFileReader", "encode_log_file"]

WHOLE_BYTES: Final = 8 << 20
"""Files and contents of blocks up to this size are read in one request; of larger ones only requested parts."""

BATCH_ROWS: Final = 1 << 16
BATCH_BYTES: Final = 8 << 20
"""Bound of a batch, in rows and in bytes of its columns before compression."""

_BROKEN: Final = (pa.ArrowException, OSError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Whole block; `number` is its position among the whole blocks."""

    number: int
    kind: BlockKind
    instant: str
    headers: Mapping[HeaderKey, str]
    offset: int
    content_offset: int
    content_bytes: int

    @property
    def is_data(self) -> bool:
        """Whether it holds rows."""
        return self.kind not in {BlockKind.COMMAND, BlockKind.DELETE}


class LogFileReader:
    """Open log file: framing is read at once, contents on demand. Not safe between threads.

    Raises:
        Corrupt: not a log file, or a block that is whole does not follow the format; half blocks are counted and skipped.
        Unsupported: a block has an unknown type, header or version.
        NotFound: it is gone: cleaned while this reader worked.
        Unavailable: the storage did not deliver it.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._path = path
        self._source = storage.open_input(path)
        with self._reading():
            self._size_bytes = int(self._source.size())
            if self._size_bytes <= WHOLE_BYTES:
                self._source = pa.BufferReader(self._source.read_buffer(self._size_bytes))
            spans = scan_blocks(self._source, path)
        self._damage = tuple(span for span in spans if span.kind is BlockKind.CORRUPT)
        whole = (span for span in spans if span.kind is not BlockKind.CORRUPT)
        self._blocks = tuple(_block(number, span) for number, span in enumerate(whole))
        self._footers: dict[int, pq.FileMetaData] = {}

    @property
    def path(self) -> str:
        """Path below the table's root."""
        return self._path

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self._size_bytes

    @property
    def blocks(self) -> tuple[LogBlock, ...]:
        """Whole blocks, in file order."""
        return self._blocks

    @property
    def damage(self) -> tuple[BlockSpan, ...]:
        """Stretches that are not whole blocks, by Apache Hudi's rules, in file order."""
        return self._damage

    @property
    def corrupt_blocks(self) -> int:
        """Number of such stretches."""
        return len(self._damage)

    def schema(self, block: LogBlock) -> pa.Schema:
        """Return the columns of a data block, typed as Arrow reads its schema.

        Raises:
            Corrupt: schema or content cannot be read.
            Unsupported: rows of this kind of block are not read.
            Unavailable: the storage did not deliver it.
        """
        self._check_rows(block)
        if block.kind is BlockKind.AVRO_DATA:
            return to_arrow(self._avro_schema(block), self._path)
        with self._reading(block):
            return self._parquet(block).schema_arrow

    def rows(self, block: LogBlock, columns: Sequence[str] | None = None) -> pa.Table:
        """Read wanted columns of a data block (None: all), without those that the block lacks.

        Raises:
            Corrupt: the content does not follow the format.
            Unsupported: rows of this kind of block are not read.
            Unavailable: the storage did not deliver it.
        """
        self._check_rows(block)
        if block.kind is BlockKind.AVRO_DATA:
            rows = self._avro(block)
            return rows.table(columns)
        with self._reading(block):
            file = self._parquet(block)
            wanted = _wanted(file.schema_arrow, columns)
            found = file.read(columns=wanted)
            return found if wanted is None else found.select(wanted)

    def batches(
        self, block: LogBlock, columns: Sequence[str] | None = None, batch_bytes: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a data block in batches; columns and errors as in `rows`.

        Memory does not grow with the rows of a Parquet block. `batch_bytes` is the approximate size of a batch; None:
        `BATCH_BYTES`. With a size, the calling thread decodes alone, since allocators keep what each thread had.

        Raises:
            Corrupt: the content does not follow the format.
            Unsupported: rows of this kind of block are not read.
            Unavailable: the storage did not deliver it.
        """
        self._check_rows(block)
        size_bytes = min(BATCH_BYTES, batch_bytes or BATCH_BYTES)
        if block.kind is BlockKind.AVRO_DATA:
            rows = self._avro(block)
            yield from rows.batches(_batch_rows(len(rows), block.content_bytes, size_bytes), columns)
            return
        with self._reading(block):
            file = self._parquet(block)
            wanted = _wanted(file.schema_arrow, columns)
            schema, groups = file.schema_arrow, range(file.num_row_groups)
            block_bytes = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            size = _batch_rows(file.metadata.num_rows, block_bytes, size_bytes)
            if encoded := encoded_columns(file, groups):
                file = self._parquet(block, encoded)
            for batch in file.iter_batches(size, columns=wanted, use_threads=batch_bytes is None):
                plain = pa.schema([schema.field(name) for name in batch.schema.names])
                for piece in decoded_pieces(batch, plain, size_bytes):
                    yield piece if wanted is None else piece.select(wanted)

    def parquet(self, block: LogBlock) -> pq.ParquetFile | None:
        """Open a Parquet block as a file, with its footer read; None for a block of another kind.

        Raises:
            Corrupt: the content does not follow the format.
            Unsupported: rows of this kind of block are not read.
            Unavailable: the storage did not deliver it.
        """
        self._check_rows(block)
        if block.kind is not BlockKind.PARQUET_DATA:
            return None
        with self._reading(block):
            return self._parquet(block)

    def deletes(self, block: LogBlock) -> list[Deletes]:
        """Read a DELETE block: a result for each run of ordering values of one type, in order.

        Raises:
            Corrupt: the content does not follow the format.
            Unsupported: an older version of the block, or several ordering fields.
            Unavailable: the storage did not deliver it.
            Internal: it is another block.
        """
        if block.kind is not BlockKind.DELETE:
            raise Internal(f"Deletes were requested from a block of type {block.kind.name}", found=self._path)
        return decode_deletes(self._content(block), self._path)

    def _avro(self, block: LogBlock) -> AvroRows:
        return AvroRows(self._content(block), self._avro_schema(block), self._path)

    def _avro_schema(self, block: LogBlock) -> str:
        if HeaderKey.SCHEMA not in block.headers:
            raise self._damage_of(block, "none", "a header SCHEMA, without which Avro cannot be read")
        return block.headers[HeaderKey.SCHEMA]

    def _parquet(self, block: LogBlock, encoded: Sequence[str] = ()) -> pq.ParquetFile:
        if isinstance(self._source, pa.BufferReader) or block.content_bytes <= WHOLE_BYTES:
            source = pa.BufferReader(self._content(block))
        else:
            source = pa.PythonFile(_Section(self._source, block.content_offset, block.content_bytes), mode="r")
        known = self._footers.get(block.number)
        file = pq.ParquetFile(source, metadata=known, read_dictionary=list(encoded), page_checksum_verification=True)
        if known is None:
            self._check_names(block, file.schema_arrow.names)
            self._footers[block.number] = file.metadata
        return file

    def _check_names(self, block: LogBlock, names: list[str]) -> None:
        """Refuse a block without some columns of its schema.

        Pages have checksums, names have none: values of a damaged name would be missing.
        """
        if HeaderKey.SCHEMA not in block.headers:
            return
        strange = sorted(set(names) - set(record_of(block.headers[HeaderKey.SCHEMA], self._path).names))
        if strange:
            raise self._damage_of(block, f"other columns: {', '.join(strange)}", "the columns of the header's schema")

    def _content(self, block: LogBlock) -> pa.Buffer:
        with self._reading(block):
            self._source.seek(block.content_offset)
            content = self._source.read_buffer(block.content_bytes)
            if len(content) != block.content_bytes:
                raise OSError(f"{len(content)} bytes instead of {block.content_bytes}")
            return content

    def _check_rows(self, block: LogBlock) -> None:
        if not block.is_data:
            raise Internal(f"Rows were requested from a block of type {block.kind.name}", found=self._path)
        found = ""
        if block.kind not in {BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA}:
            found = f"a block of type {block.kind.name}"
        elif block.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true":
            found = "a block with only some of the columns (IS_PARTIAL)"
        if found:
            raise Unsupported(
                f"The log file {self._path} holds rows that this library cannot read, at offset {block.offset}",
                expected="whole rows in Avro or Parquet",
                found=found,
                next_step="compact the table with Apache Hudi, then read it again",
                path=self._path,
                offset=block.offset,
            )

    @contextmanager
    def _reading(self, block: LogBlock | None = None) -> Iterator[None]:
        """Convert Arrow's errors.

        Raises:
            Unavailable: the disk or the store failed: such an error carries a number.
            Corrupt: the bytes are broken.
        """
        try:
            yield
        except _BROKEN as error:
            if getattr(error, "errno", None) is not None:
                raise Unavailable(
                    f"{self._path} could not be read: {error}", next_step="check the storage, then try again"
                ) from error
            raise self._damage_of(block, str(error), "a block whose content can be read") from error

    def _damage_of(self, block: LogBlock | None, found: str, expected: str) -> Corrupt:
        offset = block.offset if block else 0
        return Corrupt(
            f"The log file {self._path} is damaged at offset {offset}",
            expected=expected,
            found=found,
            next_step="run `hudi-ops verify`; restore the file from a copy",
            path=self._path,
            offset=offset,
        )


def encode_log_file(
    rows: pa.Table | None,
    deletes: Sequence[Deletes],
    *,
    instant: str,
    partition_path: str,
    avro_schema: str,
    data_format: Literal["parquet", "avro"],
    settings: WriterSettings,
    dictionaries: Sequence[str] | None = None,
) -> pa.Buffer:
    """Encode a log file (docs/format §6.8).

    It has one data block if there are rows, then a DELETE block for each `Deletes` that has keys.

    Args:
        rows: all columns of `avro_schema`, in any order; dictionary-encoded ones are written with the type of their values.
        deletes: with ordering values of one type each: the `hudi` package refuses blocks that mix them.
        avro_schema: of the rows, meta columns included; see `stored_avro_schema`.
        dictionaries: columns that get a dictionary in Parquet; None: a sample decides.

    Raises:
        InvalidRequest: rows and schema do not fit each other, or a delete has no key.
        Unsupported: a delete carries an ordering value of an unsupported type.
    """
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: avro_schema}
    blocks = []
    if rows is not None and rows.num_rows:
        names = _names_in(avro_schema)
        if sorted(names) != sorted(rows.column_names):
            raise InvalidRequest(
                "The rows of a log block do not have the columns of its schema",
                expected=", ".join(names),
                found=", ".join(rows.column_names),
                next_step="give all columns of the table, meta columns included",
            )
        rows = rows.select(names)
        if data_format == "avro":
            blocks.append(encode_block(BlockKind.AVRO_DATA, headers, encode_rows(rows, avro_schema)))
        else:
            blocks.append(encode_block(BlockKind.PARQUET_DATA, headers, _encode_parquet(rows, settings, dictionaries)))
    blocks += [
        encode_block(BlockKind.DELETE, headers, encode_deletes(each, partition_path))
        for each in deletes
        if len(each.keys)
    ]
    return pa.py_buffer(blocks[0] if len(blocks) == 1 else b"".join(blocks))


@lru_cache(maxsize=16)
def _names_in(avro_schema: str) -> list[str]:
    names: list[str] = to_arrow(avro_schema).names
    return names


def dictionaries_of(rows: pa.Table, settings: WriterSettings) -> list[str]:
    """Return the columns that get a dictionary in a log file, by a sample of the rows."""
    return dictionary_columns(rows, settings.without_dictionary)


def _encode_parquet(rows: pa.Table, settings: WriterSettings, dictionaries: Sequence[str] | None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    chosen = dictionaries_of(rows, settings) if dictionaries is None else [*dictionaries]
    schema = rows.schema.remove_metadata()
    with parquet_writer(sink, schema, settings, chosen, write_page_checksum=True) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        writer.add_key_value_metadata(MODERN_CALENDAR)
    return sink.getvalue()


def _block(number: int, span: BlockSpan) -> LogBlock:
    instant = span.headers[HeaderKey.INSTANT_TIME]
    return LogBlock(number, span.kind, instant, span.headers, span.offset, span.content_offset, span.content_bytes)


def _batch_rows(rows: int, size_bytes: int, batch_bytes: int) -> int:
    return max(1, min(BATCH_ROWS, rows * batch_bytes // max(1, size_bytes)))


def _wanted(schema: pa.Schema, columns: Sequence[str] | None) -> list[str] | None:
    held = set(schema.names)
    return None if columns is None else [name for name in columns if name in held]


class _Section(io.RawIOBase):
    """Stretch of a file, as a file."""

    def __init__(self, source: pa.NativeFile, offset: int, size_bytes: int) -> None:
        super().__init__()
        self._source, self._offset, self._size_bytes, self._at = source, offset, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size_bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size_bytes - self._at)
        length = left if size is None or size < 0 else min(size, left)
        body: bytes = self._source.read_at(length, self._offset + self._at) if length else b""
        self._at += len(body)
        return body

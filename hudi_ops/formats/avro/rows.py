"""Conversion of AVRO_DATA blocks, version 3, to Arrow and back."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from hudi_ops.errors import Corrupt, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.formats.avro.decode import Decoder, Lanes
from hudi_ops.formats.avro.encode import Piece, encode_column, join, row_lengths
from hudi_ops.formats.avro.nodes import Node, record_of
from hudi_ops.formats.avro.varints import PADDING, pieces

VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
_LENGTH_BYTES: Final = 4
CHUNK_ROWS: Final = 1 << 16
"""Rows that are read or written at a time; between 16k and 1M it makes no difference (measured)."""

_CHUNK_BYTES: Final = 1 << 25
"""Bytes of records that are read or written at a time, one record at least: each item of a list takes several of them."""


class AvroRows:
    """Rows of one block (docs/format §6.9).

    Raises:
        Corrupt: the records do not fill the content, or the schema is invalid.
        Unsupported: an older version of the block.
    """

    def __init__(self, content: bytes | pa.Buffer, schema: str, path: str) -> None:
        self._path = path
        self._node = record_of(schema, path)
        self.schema = pa.schema(list(self._node.arrow))
        if len(content) < _HEAD.size:
            _fail(path, f"{len(content)} bytes", "version and number of records")
        version, count = _HEAD.unpack_from(content)
        if version != VERSION:
            _fail(path, f"version {version}", f"version {VERSION}", Unsupported)
        raw = b"".join([content, bytes(PADDING)])
        self._data = np.frombuffer(raw, np.uint8)
        self._ends = _record_ends(raw, count, path)

    def __len__(self) -> int:
        return len(self._ends)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows of wanted columns (None: all), without those that the schema lacks.

        Raises:
            Corrupt: a record does not follow the schema; names the record.
        """
        return pa.Table.from_batches(list(self.batches(CHUNK_ROWS, columns)) or [self._read(0, 0, columns)])

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `rows`; columns as in `table`.

        Raises:
            Corrupt: a record does not follow the schema; names the record.
        """
        start = 0
        while start < len(self):
            behind = self._begin(start) + _CHUNK_BYTES
            stop = min(start + rows, max(start + 1, int(np.searchsorted(self._ends, behind, side="right"))))
            yield self._read(start, stop, columns)
            start = stop

    def _begin(self, record: int) -> int:
        return int(self._ends[record - 1]) if record else _HEAD.size

    def _read(self, start: int, stop: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        base = self._begin(start)
        ends = self._ends[start:stop] - base
        begins = np.concatenate([np.zeros(1, np.int64), ends])[: len(ends)] + _LENGTH_BYTES
        data = self._data[base : self._begin(stop) + PADDING]
        lanes = Lanes(begins, ends, np.arange(start, stop))
        wanted = None if columns is None else frozenset(columns)
        names, arrays = Decoder(data, self._path).records(self._node, lanes, wanted)
        if not names:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), stop - start, [None]))
        found = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([self.schema.field(name) for name in names]))
        return found if columns is None else found.select([name for name in columns if name in names])


def _record_ends(raw: bytes, count: int, path: str) -> np.ndarray:
    """Return where each record ends, followed from length to length in one pass in C."""
    size = len(raw) - PADDING
    if not 0 <= count <= (size - _HEAD.size) // _LENGTH_BYTES:
        _fail(path, f"{count} records in {size} bytes", "at least 4 bytes a record")
    stream = io.BytesIO(raw)
    stream.seek(_HEAD.size)
    lengths = map(int.from_bytes, iter(partial(stream.read, _LENGTH_BYTES), b""))
    ends = np.fromiter(islice(map(stream.seek, lengths, repeat(io.SEEK_CUR)), count), np.int64)
    begins = np.concatenate([np.full(1, _HEAD.size), ends])[:count] + _LENGTH_BYTES
    is_bad = ends > size
    is_bad |= begins[: len(ends)] > size
    if len(ends) < count or is_bad.any():
        record = int(np.argmax(is_bad)) if is_bad.any() else len(ends)
        _fail(path, f"record {record} with a length that ends after the block", "a record within it")
    behind = int(ends[-1]) if count else _HEAD.size
    if behind != size:
        _fail(path, f"{size - behind} bytes after {count} records", "none")
    return ends


def encode_rows(rows: pa.Table, schema: str) -> bytes:
    """Encode the content of an AVRO_DATA block (docs/format §6.9).

    `rows` has a column for each field of the schema, by name; it is cast where the type differs. Equal arguments give equal bytes.

    Raises:
        InvalidRequest: a value does not fit its field, or a column is missing.
        Corrupt: the schema is invalid.
        Unsupported: a record in the schema contains itself.
    """
    node = record_of(schema, "a table's schema")
    given = set(rows.column_names)
    missing = [name for name in node.names if name not in given]
    if missing:
        raise InvalidRequest(
            "The rows lack columns of the log block's schema",
            expected=", ".join(node.names),
            found=f"no {', '.join(missing)}",
            next_step="give all columns of the table",
        )
    parts: list[bytes | pa.Buffer] = [_HEAD.pack(VERSION, rows.num_rows)]
    bytes_per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    size = max(1, min(CHUNK_ROWS, _CHUNK_BYTES // bytes_per_row))
    for start in range(0, rows.num_rows, size):
        parts += _encode_chunk(node, rows.slice(start, size))
    return b"".join(parts)


def _encode_chunk(node: Node, rows: pa.Table) -> list[pa.Buffer]:
    columns: list[Piece] = []
    for name, child in zip(node.names, node.children, strict=True):
        columns += encode_column(child, rows.column(name), name)
    lengths = row_lengths(columns, rows.num_rows)
    heads = pieces(lengths.astype(">i4").view(np.uint8).reshape(-1, _LENGTH_BYTES))
    records = join([heads, *columns], rows.num_rows)
    offsets = np.frombuffer(records.buffers()[1], np.int32)
    first, last = int(offsets[records.offset]), int(offsets[records.offset + len(records)])
    return [records.buffers()[2].slice(first, last - first)]


def _fail(path: str, found: str, expected: str, error: type[HudiOpsError] = Corrupt) -> NoReturn:
    raise error(
        f"An Avro block of {path} {'is damaged' if error is Corrupt else 'is not understood'}",
        expected=expected,
        found=found,
        next_step="run `hudi-ops verify`; restore the file from a copy"
        if error is Corrupt
        else "compact the table with the Apache Hudi that wrote the block",
        path=path,
    )

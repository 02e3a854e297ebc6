"""Writer of a base file from a stream of batches, in bounded memory.

It writes row group by row group, and the compressed bytes are on disk until they are put. Filter and key range are built as
the rows pass. Memory holds one row group, and the filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.config.columns import META_COLUMNS, RECORD_KEY
from hudi_ops.engine.memory import release_memory
from hudi_ops.engine.spilled_bytes import SpilledBytes
from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import Internal
from hudi_ops.files.base.base_file import (
    BLOOM_HEADROOM,
    MODERN_CALENDAR,
    ROW_GROUP_ROWS,
    WriterSettings,
    float_columns,
    parquet_writer,
    stored_avro_schema,
)
from hudi_ops.files.base.dictionary_columns import dictionary_columns
from hudi_ops.formats.avro.schema import vector_columns
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.formats.parquet.bloom import BloomFilter, bits_for
from hudi_ops.formats.parquet.footer import BLOOM, BaseFileFooter
from hudi_ops.formats.parquet.large_footer import add_filter
from hudi_ops.kernels.statistics import holds_nan, key_range

ROW_GROUP_BYTES = 128 * 1024 * 1024
"""Bytes of rows in memory that make a row group before their number does."""


@dataclass(frozen=True)
class ReplacedFile:
    """The base file that a new one replaces.

    Attributes:
        bloom: its filter, which the new file carries on; None: a new one is made. See `bloom_of`.
        known_keys: number of leading rows of the new file whose keys are in that filter.
        parquet: its Parquet footer, which tells which columns a dictionary suited.
    """

    bloom: BloomFilter | None = None
    known_keys: int = 0
    parquet: pq.FileMetaData | None = None


NOTHING_REPLACED = ReplacedFile()


class BaseFileWriter:
    """Writer of one base file.

    Equal batches give equal bytes. As a context manager it releases the disk.

    Args:
        schema: columns as they are stored, meta columns first.
        keys: expected number of rows; the filter is sized for them.
        replaced: the file that this one replaces.
        row_group_bytes: rows in memory of which a row group is made.
        folder: for the bytes on disk; None: the system's folder for temporary files.
    """

    def __init__(
        self,
        schema: pa.Schema,
        table_name: str,
        settings: WriterSettings,
        *,
        keys: int,
        replaced: ReplacedFile = NOTHING_REPLACED,
        row_group_bytes: int = ROW_GROUP_BYTES,
        folder: str | None = None,
    ) -> None:
        self._schema = schema.remove_metadata()
        self._table_name = table_name
        self._settings = settings
        self._previous = replaced.parquet
        self._row_group_bytes = row_group_bytes
        self._spilled = SpilledBytes(folder)
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self._holds_nan = dict.fromkeys(float_columns(schema), False)
        self._has_keys = RECORD_KEY in schema.names
        self._bloom: BloomFilter | None = None
        self._known_keys = replaced.known_keys
        if self._has_keys and replaced.bloom is not None and keys <= replaced.bloom.count:
            self._bloom = replaced.bloom
        elif self._has_keys:
            self._bloom = BloomFilter.build(pa.array([], pa.string()), capacity=_capacity(keys), fpp=settings.bloom_fpp)
            self._known_keys = 0
        self._range: tuple[str, str] | None = None
        self.rows = 0
        """Rows written so far."""

    def __enter__(self) -> Self:
        self._spilled.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.clear()
        if self._writer is not None:
            try:
                self._writer.close()
            except (OSError, pa.ArrowInvalid):
                self._writer = None  # a full disk refuses the last bytes of a file that is not needed any more
        self._spilled.__exit__(kind, error, trace)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in the schema's columns; a column may be dictionary-encoded.

        Raises:
            Unavailable: the disk did not accept them.
        """
        for batch in rows.to_batches(max_chunksize=ROW_GROUP_ROWS) if isinstance(rows, pa.Table) else [rows]:
            # A row group ends where it is full, not where a piece of rows ends: the file does not depend on the pieces.
            while batch.num_rows:
                part = batch.slice(0, ROW_GROUP_ROWS - self._held_rows)
                self._held.append(part)
                self._held_rows += part.num_rows
                self._held_bytes += part.nbytes
                if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= self._row_group_bytes:
                    self._write_group()
                batch = batch.slice(part.num_rows)

    def finish(self) -> pa.Buffer:
        """Return the file's bytes, which are on disk; valid until the context ends.

        Raises:
            Unavailable: the disk did not accept them.
            Internal: outside of the context.
        """
        if self._held or self._writer is None:
            self._write_group()
        if self._writer is None:
            raise Internal("a base file was finished without a writer")
        data = pa.schema([field for field in self._schema if field.name not in META_COLUMNS])
        footer = BaseFileFooter(
            bloom=self._bloom,
            min_key=self._range[0] if self._range else None,
            max_key=self._range[1] if self._range else None,
            avro_schema=stored_avro_schema(data, self._table_name, self._has_keys),
            nan_columns=tuple(name for name, holds in self._holds_nan.items() if holds) if self._holds_nan else None,
            vector_columns=vector_columns(data),
        )
        values = parquet_footer.encode_footer(footer)
        # Each form of a large filter takes its size in memory: at most two exist at a time.
        self._bloom = None
        del footer
        text = values.get(BLOOM, "")
        try:
            added = values | ({BLOOM: ""} if text else {}) | MODERN_CALENDAR | dict(self._settings.footer)
            self._writer.add_key_value_metadata(added)
            self._writer.close()
            self._writer = None
            release_memory()
            if text:
                self._spilled.change_end(lambda file: add_filter(file, text))
        except OSError as error:
            raise self._spilled.failure(error) from error
        return self._spilled.buffer()

    @property
    def filter_bytes(self) -> int:
        """Size of the filter over the record keys."""
        return sum(row.nbytes for row in self._bloom.rows) if self._bloom is not None else 0

    @property
    def view(self) -> memoryview:
        """The file's bytes after `finish`; see `SpilledBytes.view`."""
        return self._spilled.view

    def _write_group(self) -> None:
        check_stop()
        rows = pa.Table.from_batches([_plain(batch, self._schema) for batch in self._held], self._schema)
        self._held.clear()
        self._held_rows = self._held_bytes = 0
        if self._writer is None:
            self._writer = self._open(rows)
            self._previous = None  # a footer holds the filter of its file
        if not rows.num_rows:
            return
        if self._bloom is not None:
            keys = rows.column(RECORD_KEY)
            self._bloom = self._bloom.with_keys(keys.slice(max(0, min(len(keys), self._known_keys - self.rows))))
            ends = key_range(keys)
            known = [key_ends for key_ends in (self._range, ends) if key_ends is not None]
            self._range = (
                (min(key_ends[0] for key_ends in known), max(key_ends[1] for key_ends in known)) if known else None
            )
        self._holds_nan = {name: holds or holds_nan(rows.column(name)) for name, holds in self._holds_nan.items()}
        try:
            self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        except OSError as error:
            raise self._spilled.failure(error) from error
        self.rows += rows.num_rows
        del rows
        # Pages that the allocator keeps count as memory of the process.
        release_memory()

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        dictionaries = dictionary_columns(rows, self._settings.without_dictionary, self._previous)
        return parquet_writer(self._spilled.sink, self._schema, self._settings, dictionaries)


def new_filter_bytes(keys: int, fpp: float) -> int:
    """Return the size of the filter of a new file with a number of keys."""
    return bits_for(_capacity(keys), fpp) // 8


def _capacity(keys: int) -> int:
    return max(16, int(keys * BLOOM_HEADROOM))


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert every column to its stored type; dictionaries of batches may differ."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)

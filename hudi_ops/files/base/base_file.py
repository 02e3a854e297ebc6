"""Base files with Apache Hudi's footer; one request puts the whole file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.config.columns import COMMIT_SEQNO, META_COLUMNS, RECORD_KEY
from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import Corrupt, Unavailable
from hudi_ops.files.base.dictionary_columns import dictionary_columns
from hudi_ops.files.base.repeated_columns import plain_type, repeated_columns
from hudi_ops.files.base.widen import widen
from hudi_ops.formats.avro.schema import to_avro, vector_columns
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.formats.parquet.bloom import BloomFilter
from hudi_ops.formats.parquet.footer import BaseFileFooter
from hudi_ops.kernels.meta_columns import meta_schema
from hudi_ops.kernels.statistics import holds_nan, key_range
from hudi_ops.sources.parquet_source import INT96_UNIT
from hudi_ops.storage.protocol import Storage

BLOOM_HEADROOM = 1.5
"""Factor by which a new filter exceeds its keys, so that rewrites can carry it over and add to it."""

ROW_GROUP_ROWS = 1_000_000
_SAMPLED_ROWS = 1_000

MODERN_CALENDAR = {"org.apache.spark.version": "3.5.0"}
"""Tells Spark, and so Apache Hudi, that old dates are in the proleptic Gregorian calendar, as Arrow's are. Without this key
they refuse to read any date before 1582, such as the sentinel 0001-01-01; Hudi's own rewritten files carry it too."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of the Parquet writer; measured: dictionaries on unique columns cost most."""

    compression: str = "zstd"
    compression_level: int = 1
    bloom_fpp: float = 1e-3
    plain_columns: tuple[str, ...] = ()
    """Columns written without dictionary, besides the record key and the sequence number."""
    footer: tuple[tuple[str, str], ...] = ()
    """Further keys and values of the footer."""

    @property
    def without_dictionary(self) -> frozenset[str]:
        """Return all columns written without dictionary."""
        return frozenset({RECORD_KEY, COMMIT_SEQNO, *self.plain_columns})


BROKEN = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    OSError,
    UnicodeDecodeError,
)
"""Errors that Arrow raises for broken bytes of a Parquet file, and for a disk that fails; `raise_read_error` distinguishes them."""


class BaseFileReader:
    """Open base file.

    Args:
        keep_encoded: give columns of few values dictionary-encoded, as rewrites carry them over; see `repeated_columns`.

    Raises:
        Corrupt: not a Parquet file.
        NotFound: it is gone: cleaned while this reader worked.
    """

    def __init__(self, storage: Storage, path: str, *, keep_encoded: bool = False) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(storage.open_input(path), coerce_int96_timestamp_unit=INT96_UNIT)
            if keep_encoded and (names := repeated_columns(self._file)):
                known = {"metadata": self._file.metadata, "read_dictionary": names}
                self._file = pq.ParquetFile(storage.open_input(path), coerce_int96_timestamp_unit=INT96_UNIT, **known)
        except BROKEN as error:
            raise_read_error(path, error)
        self._schema: pa.Schema = self._file.schema_arrow  # pyarrow builds it anew at each access

    @property
    def path(self) -> str:
        """Path below the table's root."""
        return self._path

    @property
    def schema(self) -> pa.Schema:
        """Columns in the file."""
        return self._schema

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return int(self._file.metadata.num_rows)

    @property
    def parquet(self) -> pq.FileMetaData:
        """Parquet's own footer."""
        return self._file.metadata

    @property
    def footer(self) -> BaseFileFooter:
        """Bloom filter, key range and Avro schema, as far as the file has them."""
        return parquet_footer.decode_footer(self._file.metadata.metadata, self._path)

    def footer_value(self, key: str) -> str:
        """Return the text under a key of the footer; empty if there is none."""
        values: Mapping[bytes, bytes] = self._file.metadata.metadata or {}
        return values.get(key.encode(), b"").decode(errors="replace")

    def might_hold(self, keys: pa.ChunkedArray) -> bool:
        """Return whether any of these record keys may be in the file, by its footer alone."""
        return self.footer.might_hold(keys)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows of the named columns that the file has.

        Raises:
            Corrupt: a page cannot be decoded.
            Unavailable: the storage did not deliver it.
        """
        wanted = None if columns is None else self._held(columns)
        try:
            return self._file.read(columns=wanted)
        except BROKEN as error:
            raise_read_error(self._path, error)

    def head(self, rows: int, columns: Sequence[str]) -> pa.Table:
        """Read the first rows of the named columns that the file has.

        Raises:
            Corrupt: a page cannot be decoded.
            Unavailable: the storage did not deliver it.
        """
        wanted = self._held(columns)
        try:
            batch = next(self._file.iter_batches(batch_size=rows, columns=wanted), None)
        except BROKEN as error:
            raise_read_error(self._path, error)
        schema = pa.schema([self.schema.field(name) for name in wanted])
        return pa.Table.from_batches([batch]) if batch is not None else schema.empty_table()

    def unfolded_bytes(self, columns: Sequence[str]) -> float:
        """Estimate the memory of all rows of the named columns, by the first ones.

        It raises as `head` does.
        """
        head = self.head(_SAMPLED_ROWS, columns)
        return head.nbytes / head.num_rows * self.rows if head.num_rows else 0.0

    def _held(self, columns: Sequence[str]) -> list[str]:
        held = set(self._schema.names)
        return [name for name in columns if name in held]


def raise_read_error(path: str, error: Exception) -> NoReturn:
    """Raise the error for a file that Arrow could not read.

    Raises:
        Unavailable: the disk failed: such an `OSError` has a number; those that Arrow raises for broken bytes have none.
        Corrupt: the bytes are broken.
    """
    if getattr(error, "errno", None) is not None:
        raise Unavailable(f"{path} could not be read: {error}", next_step="check the disk, then try again") from error
    raise Corrupt(
        f"{path} is not a readable Parquet file: {error}",
        expected="a Parquet base file",
        next_step="run `hudi-ops verify`; restore the file from a copy",
    ) from error


def conform(rows: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """Convert rows of an older file to the table's present schema.

    Columns are matched by name; new ones are null, widened ones cast. A dictionary-encoded column stays so where its values
    have the right type.

    Raises:
        Corrupt: a column cannot be cast to the type in the table's schema.
    """
    columns, held = [], set(rows.column_names)
    for field in schema:
        if field.name not in held:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
            continue
        column = rows.column(field.name)
        try:
            columns.append(
                column if field.type in {column.type, plain_type(column.type)} else widen(column, field.type)
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Corrupt(
                f"{path}: column {field.name} does not fit the table's schema: {error}",
                expected=str(field.type),
                found=str(column.type),
            ) from error
    fields = [field.with_type(column.type) for field, column in zip(schema, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields, metadata=schema.metadata))


def with_meta(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a base file: meta columns, then the table's own."""
    return pa.schema([*meta_schema(), *schema])


def stored_schema(schema: pa.Schema, meta_fields: bool) -> pa.Schema:
    """Return the columns of a base file that this library writes (docs/format §6.2).

    Without `hoodie.populate.meta.fields` the five meta columns are left out, not null.
    """
    return with_meta(schema) if meta_fields else pa.schema(list(schema))


def stored_avro_schema(schema: pa.Schema, table_name: str, meta_fields: bool) -> str:
    """Return the Avro JSON for base file footers and log block headers (docs/format §4)."""
    record = to_avro(schema, table_name)
    if meta_fields:
        meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
        record = {**record, "fields": [*meta, *record["fields"]]}
    return json.dumps(record, separators=(",", ":"))


def float_columns(schema: pa.Schema) -> list[str]:
    """Return the top-level float columns.

    The footer of a base file names those of them that hold NaN (docs/format §14.7).
    """
    kinds = {field.name: plain_type(field.type) for field in schema}
    return [name for name, kind in kinds.items() if pa.types.is_float32(kind) or pa.types.is_float64(kind)]


def bloom_of(
    keys: pa.ChunkedArray, fpp: float, carried: BloomFilter | None, added: pa.ChunkedArray | None
) -> BloomFilter:
    """Return the bloom filter of a new file.

    Hashing every key again would cost as much as the write, so a rewrite adds the `added` keys to the `carried` filter of the
    replaced file; deleted keys stay in it and cause false positives, never false negatives.
    """
    if carried is not None and added is not None and len(keys) <= carried.count:
        return carried.with_keys(added) if len(added) else carried
    return BloomFilter.build(keys, capacity=max(16, int(len(keys) * BLOOM_HEADROOM)), fpp=fpp)


def parquet_writer(
    sink: Any, schema: pa.Schema, settings: WriterSettings, dictionaries: Sequence[str], **more: bool
) -> pq.ParquetWriter:
    """Open a Parquet writer as base files and log files need it.

    Args:
        dictionaries: columns that get a dictionary.
        more: further arguments of `ParquetWriter`.
    """
    return pq.ParquetWriter(
        sink,
        schema,
        compression=settings.compression,
        compression_level=settings.compression_level,
        use_dictionary=dictionaries,
        store_schema=False,
        coerce_timestamps=None,
        write_page_index=False,
        **more,
    )


def encode_base_file(
    rows: pa.Table,
    table_name: str,
    settings: WriterSettings,
    carried: BloomFilter | None = None,
    added_keys: pa.ChunkedArray | None = None,
    previous: pq.FileMetaData | None = None,
) -> pa.Buffer:
    """Encode a base file; equal input gives equal bytes.

    Args:
        rows: meta columns first, then the table's columns; a dictionary-encoded one is written with the type of its values.
            Without meta columns the footer has neither filter nor key range.
        added_keys: record keys that the replaced file did not have; needed with `carried`.
        previous: Parquet's footer of the file that this one replaces; it tells which columns a dictionary suited.
    """
    keys = rows.column(RECORD_KEY) if RECORD_KEY in rows.column_names else None
    bounds, floats = key_range(keys) if keys is not None else None, float_columns(rows.schema)
    data_schema = pa.schema([
        field.with_type(plain_type(field.type)) for field in rows.schema if field.name not in META_COLUMNS
    ])
    footer = BaseFileFooter(
        bloom=bloom_of(keys, settings.bloom_fpp, carried, added_keys) if keys is not None else None,
        min_key=bounds[0] if bounds else None,
        max_key=bounds[1] if bounds else None,
        avro_schema=stored_avro_schema(data_schema, table_name, keys is not None),
        nan_columns=tuple(name for name in floats if holds_nan(rows.column(name))) if floats else None,
        vector_columns=vector_columns(data_schema),
    )
    check_stop()
    sink = pa.BufferOutputStream()
    dictionaries = dictionary_columns(rows, settings.without_dictionary, previous)
    with parquet_writer(sink, rows.schema.remove_metadata(), settings, dictionaries) as writer:
        for first in range(0, max(1, rows.num_rows), ROW_GROUP_ROWS):
            check_stop()
            writer.write_table(rows.slice(first, ROW_GROUP_ROWS), row_group_size=ROW_GROUP_ROWS)
        writer.add_key_value_metadata(parquet_footer.encode_footer(footer) | MODERN_CALENDAR | dict(settings.footer))
    return sink.getvalue()

"""Reading source files (CSV, JSON lines, Parquet) in the table's schema. What does not fit is an error, never a null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from hudi_ops.errors import InvalidRequest, NotFound
from hudi_ops.files.casts import first_infinite, fit_column
from hudi_ops.storage.protocol import FileInfo, Storage

_READERS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
SUFFIXES = tuple(sorted(_READERS))
_BLOCK_BYTES_MAX = 2**31 - 1
_Reader: TypeAlias = Callable[[pa.Buffer, pa.Schema, int | None], pa.Table]


def source_format(name: str) -> str | None:
    """`csv`, `json` or `parquet` by the name's ending (`.gz` after the first two is understood); None for others."""
    lower = name.lower()
    plain = lower if lower.endswith(".parquet.gz") else lower.removesuffix(".gz")
    return _READERS.get("." + plain.rpartition(".")[2])


def read_source(storage: Storage, file: FileInfo, schema: pa.Schema, required: Sequence[str]) -> pa.Table:
    """One source file as a table with the columns of `schema`, in its order.

    Args:
        storage: where the source lies.
        file: as listed; a file that changed since is refused.
        schema: the table's columns, without meta columns.
        required: columns that must be there; others of `schema` may be missing only if this list leaves them out.

    Raises:
        InvalidRequest: the file cannot be parsed, has a column the table does not know, lacks a required one, holds a value that
            does not fit its column, or changed while it was read. Names the file and, where they can be told, field and row.
    """
    where = f"{storage.uri}/{file.path}"
    kind = source_format(file.name)
    body = pa.py_buffer(b"")
    try:
        if file.size_bytes == 0 and kind != "parquet":
            # Distributed writers leave empty part files where a partition had no rows.
            rows = schema.empty_table()
        elif kind == "parquet":
            rows = pq.read_table(storage.open_input(file.path))
        else:
            body = pa.py_buffer(storage.get(file.path))
            if file.name.lower().endswith(".gz"):
                body = pa.input_stream(body, compression="gzip").read_buffer()
            rows = _in_larger_blocks(_read_csv if kind == "csv" else _read_json, body, schema)
    except NotFound as error:
        raise InvalidRequest(**_changed(where, "deleted")) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"{where} cannot be parsed: {error}",
            expected=f"a {kind} file that fits the table's schema",
            next_step="correct the file, or take it out of the source folder",
            file=where,
        ) from error
    now = storage.head(file.path)
    if now is None or (now.size_bytes, now.modified_ms) != (file.size_bytes, file.modified_ms):
        raise InvalidRequest(**_changed(where, "changed"))
    fitted = fit_rows(rows, schema, required, where)
    if kind != "parquet":
        _refuse_overflow(fitted, body, kind, where)
    return fitted


def fit_rows(rows: pa.Table, schema: pa.Schema, required: Sequence[str], where: str) -> pa.Table:
    """Rows in the columns, order and types of `schema`; missing columns that are not required stay out.

    Raises:
        InvalidRequest: an unknown, missing or repeated column, or a value that does not fit.
    """
    unknown = [name for name in rows.column_names if name not in schema.names]
    if unknown:
        raise InvalidRequest(
            f"{where} has a column that the table does not: {unknown[0]}",
            expected=f"columns {', '.join(schema.names)}",
            found=", ".join(rows.column_names),
            next_step="leave the column out; adding columns to a table is a later release",
            file=where,
            field=unknown[0],
        )
    missing = [name for name in required if name not in rows.column_names]
    if missing or len(set(rows.column_names)) < rows.num_columns:
        raise InvalidRequest(
            f"{where} lacks column {missing[0]}" if missing else f"{where} has a column twice",
            expected=f"columns {', '.join(required)}",
            found=", ".join(rows.column_names),
            next_step="rows are replaced as a whole, so every column must be there",
            file=where,
            field=missing[0] if missing else "",
        )
    fields = [field for field in schema if field.name in rows.column_names]
    columns = [fit_column(rows.column(field.name), field, where) for field in fields]
    return pa.table(columns, schema=pa.schema(fields))


def as_rows(data: Any) -> pa.Table:
    """Rows that this process holds, as an Arrow table.

    Args:
        data: a `pyarrow.Table`, anything with the Arrow C stream interface, a data frame, or columns by name.

    Raises:
        InvalidRequest: it is none of these, or one of its columns mixes types.
    """
    try:
        return data if isinstance(data, pa.Table) else pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidRequest(
            f"the rows given are no Arrow data: {error}",
            expected="a pyarrow.Table, or anything with the Arrow C stream interface",
            found=f"{type(data).__module__}.{type(data).__qualname__}",
            next_step="make them a table, for example with pyarrow.Table.from_pylist or pyarrow.Table.from_pandas",
        ) from error


def _in_larger_blocks(read: _Reader, body: pa.Buffer, schema: pa.Schema) -> pa.Table:
    # A row larger than the readers' own blocks is no error of the source.
    try:
        return read(body, schema, None)
    except pa.ArrowInvalid as error:
        if "block size" not in str(error):
            raise
    return read(body, schema, min(body.size + 1, _BLOCK_BYTES_MAX))


def _refuse_overflow(rows: pa.Table, body: pa.Buffer, kind: str | None, where: str) -> None:
    """Both readers turn numbers that are too large into infinity.

    Raises:
        InvalidRequest: that happened.
    """
    for name in rows.column_names:
        path = first_infinite(rows.column(name), name)
        if path is None or (kind == "csv" and _spells_infinity(rows.column(name), body, name)):
            continue
        raise InvalidRequest(
            f"{where}: column {path} holds a number that is too large for the table",
            expected=f"values that fit {rows.schema.field(name).type}",
            found="a number that would become infinity",
            next_step="correct the source; values are never cut or turned into nulls",
            file=where,
            field=path,
        )


def _spells_infinity(column: pa.ChunkedArray, body: pa.Buffer, name: str) -> bool:
    options = pacsv.ConvertOptions(column_types={name: pa.string()}, include_columns=[name])
    texts = pacsv.read_csv(
        pa.BufferReader(body),
        read_options=pacsv.ReadOptions(block_size=min(body.size + 1, _BLOCK_BYTES_MAX)),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    ).column(name)
    infinite = texts.combine_chunks().filter(pc.is_inf(column.combine_chunks()))
    return bool(pc.all(pc.match_substring_regex(infinite, r"^\s*[+-]?inf(inity)?\s*$", ignore_case=True)).as_py())


def _read_csv(body: pa.Buffer, schema: pa.Schema, block_bytes: int | None) -> pa.Table:
    # Empty and unquoted is null, a quoted empty string is an empty string: the only reading that loses neither.
    options = pacsv.ConvertOptions(
        column_types={field.name: _csv_type(field) for field in schema},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        timestamp_parsers=[pacsv.ISO8601],
    )
    # Costs a little parallel parsing; without it a quoted line break is an error, but only in files of several blocks.
    lines = pacsv.ParseOptions(newlines_in_values=True)
    blocks = pacsv.ReadOptions(block_size=block_bytes)
    return pacsv.read_csv(pa.BufferReader(body), read_options=blocks, parse_options=lines, convert_options=options)


def _csv_type(field: pa.Field) -> pa.DataType:
    # Times are parsed later: the CSV reader refuses `2013-01-01T05:15:00` for a zoned column, text with a zone for a plain one,
    # and microseconds for milliseconds.
    if pa.types.is_timestamp(field.type):
        return pa.string()
    if pa.types.is_nested(field.type):
        raise InvalidRequest(
            f"column {field.name} cannot come from CSV", expected="a flat type", found=str(field.type), field=field.name
        )
    return field.type


def _read_json(body: pa.Buffer, schema: pa.Schema, block_bytes: int | None) -> pa.Table:
    # A field that a line lacks is null: writers in wide use, Spark among them, leave nulls out.
    options = pajson.ParseOptions(
        explicit_schema=pa.schema([(field.name, _json_type(field.type)) for field in schema]),
        unexpected_field_behavior="error",
    )
    blocks = pajson.ReadOptions(block_size=block_bytes)
    return pajson.read_json(pa.BufferReader(body), read_options=blocks, parse_options=options)


def _json_type(kind: pa.DataType) -> pa.DataType:
    # The JSON reader takes a date for a number of days only: ISO text becomes one by the cast later.
    if pa.types.is_date(kind):
        return pa.string()
    # Zeros after the milliseconds are no reason to refuse a time; the cast refuses other digits there.
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(at).name, _json_type(kind.field(at).type)) for at in range(kind.num_fields)])
    return kind


def _changed(where: str, how: str) -> dict[str, str]:
    return {
        "what": f"{where} was {how} while it was read",
        "expected": "files that stay as they are once they are in the source folder",
        "next_step": "write files elsewhere and move them in when they are whole; then run the ingest again",
        "file": where,
    }

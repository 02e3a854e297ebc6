"""Reading source files (CSV, JSON lines, Parquet) in the table's schema. What does not fit is an error, never a null."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
_JSON_INFINITY = re.compile(rb"[:,\[]\s*-?Inf")
_BLOCK_BYTES_MAX = 2**31 - 1
_EVOLVE = "let the table take new columns: evolve=True, --evolve on the command line"
R = TypeVar("R")


def source_format(name: str) -> str | None:
    """`csv`, `json` or `parquet` by the name's ending (`.gz` after the first two is understood); None for others."""
    lower = name.lower()
    plain = lower if lower.endswith(".parquet.gz") else lower.removesuffix(".gz")
    return _READERS.get("." + plain.rpartition(".")[2])


def read_source(
    storage: Storage, file: FileInfo, schema: pa.Schema, required: Sequence[str], *, fill: bool = False
) -> pa.Table:
    """One source file as a table with the columns of `schema`, in its order.

    Args:
        storage: where the source lies.
        file: as listed; a file that changed since is refused.
        schema: the table's columns, without meta columns.
        required: columns that must be there; others of `schema` may be missing only if this list leaves them out.
        fill: as in `fit_rows`.

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
            read_json = _read_json if not fill else _read_known_json
            rows = in_larger_blocks(_read_csv if kind == "csv" else read_json, body, schema)
    except NotFound as error:
        raise InvalidRequest(**changed_while_read(where, "deleted")) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"{where} cannot be parsed: {error}",
            expected=f"a {kind} file that fits the table's schema",
            next_step="correct the file, or take it out of the source folder"
            if "unexpected field" not in str(error)
            else f"leave the field out, or {_EVOLVE}",
            file=where,
        ) from error
    now = storage.head(file.path)
    if now is None or (now.size_bytes, now.modified_ms) != (file.size_bytes, file.modified_ms):
        raise InvalidRequest(**changed_while_read(where, "changed"))
    fitted = fit_rows(rows, schema, required, where, fill=fill)
    if kind != "parquet":
        _refuse_overflow(fitted, body, kind, where)
    return fitted


def fit_rows(rows: pa.Table, schema: pa.Schema, required: Sequence[str], where: str, *, fill: bool = False) -> pa.Table:
    """Rows in the columns, order and types of `schema`; missing columns that are not required stay out.

    Args:
        rows: as they were read or given.
        schema: the table's columns, without meta columns.
        required: columns that must be there.
        where: the file or other place that they come from, for errors.
        fill: missing columns that are not required, and nested fields, are null; unknown ones of type null are left out.

    Raises:
        InvalidRequest: an unknown, missing or repeated column, or a value that does not fit.
    """
    if fill:
        rows = _filled(rows, schema, required)
    unknown = [name for name in rows.column_names if name not in schema.names]
    if unknown:
        raise InvalidRequest(
            f"{where} has a column that the table does not: {unknown[0]}",
            expected=f"columns {', '.join(schema.names)}",
            found=", ".join(rows.column_names),
            next_step=f"leave the column out, or {_EVOLVE}",
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
    columns = [fit_column(rows.column(field.name), field, where, fill=fill) for field in fields]
    return pa.table(columns, schema=pa.schema(fields))


def _filled(rows: pa.Table, schema: pa.Schema, required: Sequence[str]) -> pa.Table:
    rows = rows.select([one.name for one in rows.schema if one.name in schema.names or not pa.types.is_null(one.type)])
    for field in schema:
        if field.name not in rows.column_names and field.name not in required:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


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


def in_larger_blocks(read: Callable[[pa.Buffer, pa.Schema, int | None], R], body: pa.Buffer, schema: pa.Schema) -> R:
    """What `read` makes of the text; a row larger than the readers' own blocks is no error of the source.

    Raises:
        ArrowInvalid: the text cannot be parsed.
    """
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
        if kind == "json" and _JSON_INFINITY.search(memoryview(body)):
            continue  # written in words, as Python and Spark do; a number that is too large beside it goes unnoticed
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
    # CSV has no nested values; a text in such a column is refused when it is fitted.
    return pa.string() if pa.types.is_nested(field.type) else field.type


def _read_json(body: pa.Buffer, schema: pa.Schema, block_bytes: int | None, unexpected: str = "error") -> pa.Table:
    # A field that a line lacks is null: writers in wide use, Spark among them, leave nulls out.
    options = pajson.ParseOptions(
        explicit_schema=pa.schema([(field.name, json_type(field.type)) for field in schema]),
        unexpected_field_behavior=unexpected,
    )
    blocks = pajson.ReadOptions(block_size=block_bytes)
    return pajson.read_json(pa.BufferReader(body), read_options=blocks, parse_options=options)


def _read_known_json(body: pa.Buffer, schema: pa.Schema, block_bytes: int | None) -> pa.Table:
    # The schema was made from this very file: what it lacks are fields that are null in every line.
    return _read_json(body, schema, block_bytes, "ignore")


def json_type(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow's JSON reader takes values of a table's type."""
    # The JSON reader takes a date for a number of days only: ISO text becomes one by the cast later.
    if pa.types.is_date(kind):
        return pa.string()
    # Zeros after the milliseconds are no reason to refuse a time; the cast refuses other digits there.
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(json_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(at).name, json_type(kind.field(at).type)) for at in range(kind.num_fields)])
    return kind


def changed_while_read(where: str, how: str) -> dict[str, str]:
    """The error's fields when a source file did not stay as it was."""
    return {
        "what": f"{where} was {how} while it was read",
        "expected": "files that stay as they are once they are in the source folder",
        "next_step": "write files elsewhere and move them in when they are whole; then run the ingest again",
        "file": where,
    }

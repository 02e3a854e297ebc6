"""Reader of CSV and JSON lines, which distinguishes overflowed numbers from infinities."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.infinities import first_infinite
from hudi_ops.sources.limits import VALUE_BYTES_MAX
from hudi_ops.sources.runs import Run, runs_of
from hudi_ops.sources.text.csv_quotes import HEXADECIMAL, CheckedBody, refuse_bad_quotes
from hudi_ops.sources.text.json_maps import MapsAsLists, has_map
from hudi_ops.sources.text.json_scan import NoNullLines, WholeLines
from hudi_ops.sources.text.large_texts import refuse_large_text

_BLOCKS_BYTES = (1 << 20, 1 << 24, 1 << 26, 1 << 28, 2**31 - 1)
"""Block sizes of the readers. A row larger than a block is no error of the source: the next size is tried."""

_BLOCKS_HELD = 8
"""Blocks that a reader holds at a time, with their rows: a larger one is tried only after a search for a value above the limit."""

_JSON_INFINITY = re.compile(rb"[:,\[]\s*-?Inf")
_OVERLAP_BYTES = 256


class TextSource:
    """One CSV or JSON lines file.

    `open_body` opens its uncompressed bytes from the start, again for each further look-up. `takes_unknown`: ignore JSON fields
    that the schema lacks: the schema was made from this file, so these fields are null in every line.
    """

    def __init__(
        self, open_body: Callable[[], pa.NativeFile], kind: str, schema: pa.Schema, *, takes_unknown: bool = False
    ) -> None:
        self._unexpected = "ignore" if takes_unknown else "error"
        self._open_body = open_body
        self._kind = kind
        self._schema = schema
        self._is_searched = False
        self._in_words: dict[str, bool] = {}

    def runs(self, run_bytes: int, value_bytes: int = VALUE_BYTES_MAX, where: str = "") -> Iterator[Run]:
        """Yield all rows, parsed as far as the reader does it.

        `where` names the file in the error for a value above `value_bytes`.

        Raises:
            ArrowInvalid: they cannot be parsed, or a quoted value of CSV is malformed.
            InvalidRequest: a value is larger than `value_bytes`.
        """
        done, is_small = 0, value_bytes == VALUE_BYTES_MAX
        for block_bytes in _BLOCKS_BYTES:
            if not is_small and _BLOCKS_BYTES[0] < block_bytes and block_bytes * _BLOCKS_HELD > value_bytes:
                refuse_large_text(self._open_body, self._kind, value_bytes, where)
                is_small = True
            try:
                for first, rows in self._runs(block_bytes, done, run_bytes):
                    yield first, rows
                    done = first + rows.num_rows
                return
            except pa.ArrowInvalid as error:
                self._explain_quotes()
                if "block size" not in str(error) or block_bytes == _BLOCKS_BYTES[-1]:
                    raise

    def _explain_quotes(self) -> None:
        """Raise an error that names a malformed quoted value, which Arrow's own error seldom does."""
        if self._kind == "csv":
            refuse_bad_quotes(self._open_body)

    def refuse_overflow(self, rows: pa.Table, where: str) -> None:
        """Refuse numbers that are too large, which both readers turn into infinity.

        Raises:
            InvalidRequest: a number became infinite.
        """
        for name in rows.column_names:
            found = first_infinite(rows.column(name), name)
            if found is None or self._is_in_words(name):
                continue
            path, row = found
            raise InvalidRequest(
                f"{where}, row {row}: column {path} holds a number that is too large for the table",
                expected=f"values that fit {rows.schema.field(name).type}",
                found="a number that would become infinity",
                next_step="correct the source; values are never cut or turned into nulls",
                file=where,
                field=path,
                row=row,
            )

    def _runs(self, block_bytes: int, skipped: int, run_bytes: int) -> Iterator[Run]:
        body = CheckedBody(self._open_body()) if self._kind == "csv" else None
        if body is not None:
            reader = _open_csv(body, self._schema, block_bytes)
        else:
            reader = _open_json(self._open_body(), self._schema, block_bytes, self._unexpected)
        with reader:
            for first, rows in runs_of(_after(reader, skipped), reader.schema, run_bytes):
                if body is not None and body.has_hexadecimal:
                    self._refuse_hexadecimal(reader.schema.names)
                yield skipped + first, rows

    def _is_in_words(self, name: str) -> bool:
        """Return whether a column writes infinities in words; the file is searched once."""
        # In JSON one such word anywhere is enough: a number that is too large beside it is not detected.
        key = name if self._kind == "csv" else ""
        if key not in self._in_words:
            self._in_words[key] = self._spells_infinity(name) if self._kind == "csv" else self._has_infinity()
        return self._in_words[key]

    def _spells_infinity(self, name: str) -> bool:
        """Return whether no number of a CSV column is too large; words for infinity do not count.

        Raises:
            ArrowInvalid: the file cannot be parsed, or a quoted value is malformed.
        """
        return not any(self._overflows(texts, name) for texts in self._texts(name))

    def _refuse_hexadecimal(self, names: list[str]) -> None:
        """Refuse hexadecimal in columns of whole numbers, which Arrow's reader converts.

        The file is searched once.

        Raises:
            ArrowInvalid: there is one.
        """
        whole = [field for field in self._schema if pa.types.is_integer(field.type) and field.name in names]
        for field in () if self._is_searched else whole:
            for texts in self._texts(field.name):
                found = texts.filter(pc.match_substring_regex(texts, HEXADECIMAL))
                if len(found):
                    place, value = f"In CSV column #{names.index(field.name)}", found[0].as_py().strip(" \t")
                    raise pa.ArrowInvalid(f"{place}: CSV conversion error to {field.type}: invalid value '{value}'")
        self._is_searched = True

    def _texts(self, name: str) -> Iterator[pa.Array]:
        """Yield the texts of a CSV column.

        Raises:
            ArrowInvalid: the file cannot be parsed, or a quoted value is malformed.
        """
        options = pacsv.ConvertOptions(
            column_types={name: pa.string()}, include_columns=[name], strings_can_be_null=True, null_values=[""]
        )
        for block_bytes in _BLOCKS_BYTES[1:]:
            try:
                with pacsv.open_csv(
                    pa.PythonFile(CheckedBody(self._open_body()), mode="r"),
                    read_options=pacsv.ReadOptions(block_size=block_bytes),
                    parse_options=pacsv.ParseOptions(newlines_in_values=True),
                    convert_options=options,
                ) as reader:
                    for batch in reader:
                        yield batch.column(0)
                    return
            except pa.ArrowInvalid as error:
                self._explain_quotes()
                if "block size" not in str(error):
                    raise

    def _overflows(self, texts: pa.Array, name: str) -> bool:
        is_word = pc.match_substring_regex(texts, r"^\s*[+-]?inf(inity)?\s*$", ignore_case=True)
        numbers = pc.utf8_trim_whitespace(texts.filter(pc.invert(is_word)))
        return bool(pc.any(pc.is_inf(numbers.cast(self._schema.field(name).type))).as_py())

    def _has_infinity(self) -> bool:
        tail = b""
        with self._open_body() as body:
            while block := body.read(_BLOCKS_BYTES[1]):
                if _JSON_INFINITY.search(tail + block):
                    return True
                tail = block[-_OVERLAP_BYTES:]
        return False


def _after(reader: Iterator[pa.RecordBatch], skipped: int) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        if skipped >= batch.num_rows:
            skipped -= batch.num_rows
            continue
        yield batch.slice(skipped)
        skipped = 0


def _open_csv(body: CheckedBody, schema: pa.Schema, block_bytes: int) -> pacsv.CSVStreamingReader:
    # Empty and unquoted is null, a quoted empty string is an empty string: the only reading that loses neither.
    options = pacsv.ConvertOptions(
        # Meta columns are ignored: of a type that their first values show, a later one might not be.
        column_types=dict.fromkeys(META_COLUMNS, pa.binary()) | {field.name: _csv_type(field) for field in schema},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        timestamp_parsers=[pacsv.ISO8601],
    )
    # Costs a little parallel parsing; without it a quoted line break is an error, but only in files of several blocks.
    lines = pacsv.ParseOptions(newlines_in_values=True)
    blocks = pacsv.ReadOptions(block_size=block_bytes)
    return pacsv.open_csv(
        pa.PythonFile(body, mode="r"), read_options=blocks, parse_options=lines, convert_options=options
    )


def _csv_type(field: pa.Field) -> pa.DataType:
    # Times are parsed later: the CSV reader refuses `2013-01-01T05:15:00` for a zoned column, text with a zone for a plain one,
    # and microseconds for milliseconds.
    if pa.types.is_timestamp(field.type):
        return pa.string()
    # CSV has no nested values; a text in such a column is refused when it is fitted.
    return pa.string() if pa.types.is_nested(field.type) else field.type


def _open_json(body: pa.NativeFile, schema: pa.Schema, block_bytes: int, unexpected: str) -> pajson.JSONStreamingReader:
    # A field that a line lacks is null: writers in wide use, Spark among them, leave nulls out.
    known = [(field.name, json_type(field.type)) for field in schema]
    options = pajson.ParseOptions(
        explicit_schema=pa.schema([*known, *((name, pa.string()) for name in META_COLUMNS)]),
        unexpected_field_behavior=unexpected,
    )
    objects: NoNullLines | WholeLines = NoNullLines(body)
    if any(has_map(field.type) for field in schema):
        objects = MapsAsLists(objects, schema)
    source = pa.PythonFile(objects, mode="r")
    return pajson.open_json(source, read_options=pajson.ReadOptions(block_size=block_bytes), parse_options=options)


def json_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow's JSON reader parses values of a table's type."""
    # The JSON reader takes a date for a number of days only: the cast parses ISO text later.
    if pa.types.is_date(kind):
        return pa.string()
    # Zeros after the milliseconds are no reason to refuse a time; the cast refuses other digits there.
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):  # `MapsAsLists` writes it so
        return pa.list_(pa.struct([("key", pa.string()), ("value", json_type(kind.item_type))]))
    if pa.types.is_list(kind):
        return pa.list_(json_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(at).name, json_type(kind.field(at).type)) for at in range(kind.num_fields)])
    return kind

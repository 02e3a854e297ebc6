"""Return the columns for a new table from a sample file.

Parquet and JSON lines show types; the values of CSV are examined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from hudi_ops.engine.memory import memory_limit_bytes
from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import without_nulls
from hudi_ops.sources.infinities import floating_fields
from hudi_ops.sources.limits import VALUE_BYTES_MAX
from hudi_ops.sources.refusal import SUFFIXES, UNREADABLE, open_text, source_format, unreadable
from hudi_ops.sources.source import without_meta_columns
from hudi_ops.sources.source_schema import SchemaTask, source_schema
from hudi_ops.sources.text.csv_quotes import CheckedBody
from hudi_ops.sources.text.text_source import TextSource
from hudi_ops.storage.open import open_source

_SAMPLE_BYTES = 16 << 20
_MEMORY_SHARE = 4
"""A value may take this part of the memory, as with an engine's default of `memory_bytes`."""
_CODE = r"^[ \t]*(?:[+-]?0[\dxX]|\+\d)"
"""Leading zeros, hexadecimal, or the plus of a telephone number: what a number would not keep. The reader strips blanks."""
_NANOSECONDS = r"\.\d{6}\d*[1-9]"
"""Digits behind the microseconds of a time."""
_LONG = r"^[ \t]*-?\d{16,}[ \t]*$"
"""Whole numbers that a double may not hold exactly."""
_LONG_IN_JSON = re.compile(rb"[:\[,]\s*(-?\d{16,})\s*(?=[,}\]])")
_EXACT_MAX = 2.0**53
"""A double holds every whole number below this one."""
NOTE = b"hudi_ops.note"
"""Key of the note in a schema's metadata."""
_READ_BYTES, _OVERLAP_BYTES, _SHOWN_MAX = 1 << 20, 512, 60
_is = pa.types


def is_file_name(text: str) -> bool:
    """Return whether a text ends as the name of a source file does."""
    return source_format(text) is not None


def sample_schema(file: str) -> pa.Schema:
    """Return the columns of a file, without Apache Hudi's meta columns.

    Types of CSV are those that all values of its first 16 MB have. Digits with leading zeros or a plus sign are text, and so are
    whole numbers that neither a bigint nor a double holds, hexadecimal digits, and columns with a quoted empty value. Timestamps
    in nanoseconds become microseconds; an ingest of Parquet refuses values that have other digits after them. Columns and nested
    fields of Parquet that have the type null are left out; then the schema's metadata has a note for users.

    Raises:
        InvalidRequest: there is no such file, it cannot be parsed, a column has no type, or one of JSON holds whole numbers that
            neither a bigint nor a double holds.
    """
    if source_format(file) is None:
        raise InvalidRequest(**_refused(file, "is not CSV, JSON lines or Parquet", file))
    storage, name = open_source(file)
    info = storage.head(name) if name is not None else None
    if info is None:
        raise InvalidRequest(**_refused(file, "is a folder", "a folder"))
    if info.size_bytes == 0:
        raise InvalidRequest(**_refused(file, "is empty, so it shows no columns", "no bytes"))
    task = SchemaTask(storage, info, pa.schema([]), min(VALUE_BYTES_MAX, memory_limit_bytes() // _MEMORY_SHARE))
    found = source_schema(task)  # parses the file; its errors explain what cannot be parsed
    if not found.names:
        raise InvalidRequest(**_refused(file, "shows no columns", "no column"))
    _refuse_unnamed(file, found)
    if source_format(info.name) == "csv":
        found = _csv_types(task, found)
    elif source_format(info.name) != "parquet":
        _refuse_long_numbers(task, found)
    fields = [field.with_type(_stored(field.type)) for field in without_meta_columns(found)]
    note = None
    if source_format(info.name) == "parquet":
        kept = [field for field in map(without_nulls, fields) if field is not None]
        changed = [field.name for field in fields if field not in kept]
        note = {NOTE: f"left out, having nulls only: {', '.join(changed)}"} if changed else None
        fields = kept
    untyped = next((field.name for field in fields if _has_null_type(field.type)), None)
    if untyped is not None:
        raise InvalidRequest(
            f"{file} does not show the type of column {untyped}: it has no value",
            expected="at least one value in every column",
            found="nulls only",
            next_step='give the columns as text, as in "id string, fare double"',
            file=file,
            field=untyped,
        )
    return pa.schema(fields, note)


def _csv_types(task: SchemaTask, names: pa.Schema) -> pa.Schema:
    """Return the types that all values of the first block have.

    Raises:
        InvalidRequest: it cannot be parsed.
    """
    lines = pacsv.ParseOptions(newlines_in_values=True)
    blocks = pacsv.ReadOptions(block_size=_SAMPLE_BYTES)
    as_texts = pa.schema([(name, pa.string()) for name in names.names])
    texts = pacsv.ConvertOptions(column_types=as_texts, strings_can_be_null=True, null_values=[""])
    # As an ingest reads them: a quoted empty value is a text, so its column is one.
    inferred = pacsv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    try:
        with _checked(task) as body:
            with_types = pacsv.open_csv(body, blocks, lines, inferred).schema
        with _checked(task) as body:
            rows = next(iter(pacsv.open_csv(body, blocks, lines, texts)), None)
    except UNREADABLE as error:
        refusal = unreadable(error, task.storage, task.file, as_texts, takes_unknown=True)
        raise refusal from error
    coded = set() if rows is None else {one.name for one in with_types if _is_code(one.type, rows.column(one.name))}
    return pa.schema([
        pa.field(one.name, pa.string()) if one.name in coded or _is.is_null(one.type) or _is.is_time(one.type) else one
        for one in with_types
    ])


def _checked(task: SchemaTask) -> pa.PythonFile:
    return pa.PythonFile(CheckedBody(open_text(task.storage, task.file)), mode="r")


def _refuse_long_numbers(task: SchemaTask, columns: pa.Schema) -> None:
    """Refuse whole numbers of JSON whose digits a double would change.

    A text column is no way out: the reader of JSON refuses numbers for it.

    Raises:
        InvalidRequest: names the field with such a number.
    """
    large = _large_doubles(task, columns)
    if not large:
        return
    for digits in _long_numbers(task):
        path = large.get(float(digits))
        if path is not None:
            raise InvalidRequest(
                f"{path} of {task.where} holds a whole number that neither a bigint nor a double holds exactly",
                expected="numbers that keep all their digits in the table",
                found=digits if len(digits) <= _SHOWN_MAX else f"{digits[:_SHOWN_MAX]}…",
                next_step="put its values in quotes, or give the columns as text, with decimal(38, 0) for it",
                file=task.where,
                field=path,
            )


def _large_doubles(task: SchemaTask, columns: pa.Schema) -> dict[float, str]:
    """Return each double too large for exact whole numbers, with the path of its field."""
    found: dict[float, str] = {}
    rows_of = TextSource(lambda: open_text(task.storage, task.file), "json", columns, takes_unknown=True)
    for _, rows in rows_of.runs(_SAMPLE_BYTES):
        for name in rows.column_names:
            for path, floats in floating_fields(rows.column(name), name):
                large = pc.unique(floats.filter(pc.greater_equal(pc.abs(floats), _EXACT_MAX)))
                found |= dict.fromkeys(large.to_pylist(), path)
    return found


def _long_numbers(task: SchemaTask) -> Iterator[str]:
    tail = b""
    with open_text(task.storage, task.file) as body:
        while block := body.read(_READ_BYTES):
            for number in _LONG_IN_JSON.finditer(tail + block):
                yield number[1].decode()
            tail = block[-_OVERLAP_BYTES:]


def _is_code(kind: pa.DataType, texts: pa.Array) -> bool:
    """Return whether a number or time of this type would not keep the digits of every value."""
    if _is.is_timestamp(kind) and kind.unit == "ns":
        return bool(pc.any(pc.match_substring_regex(texts, _NANOSECONDS)).as_py())
    patterns = f"{_CODE}|{_LONG}" if _is.is_floating(kind) else _CODE
    return bool(pc.any(pc.match_substring_regex(texts, patterns)).as_py())


def _refuse_unnamed(file: str, columns: pa.Schema) -> None:
    names = [name.lower() for name in columns.names]
    counts = Counter(names)
    if "" in names:
        what = f"column number {names.index('') + 1} of {file} has no name"
    elif twice := next((name for name in columns.names if counts[name.lower()] > 1), None):
        what = f"{file} names column {twice} twice"
    else:
        return
    raise InvalidRequest(
        what,
        expected="a name for each column, and each name once",
        found=", ".join(columns.names),
        next_step="correct the file",
        file=file,
    )


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the type for a table: times of a text file come in other units."""
    if _is.is_timestamp(kind) and kind.unit != "ms":
        return pa.timestamp("us", kind.tz)
    return kind


def _has_null_type(kind: pa.DataType) -> bool:
    inner: Iterable[pa.DataType] = (kind.field(at).type for at in range(kind.num_fields))
    return bool(_is.is_null(kind)) or any(map(_has_null_type, inner))


def _refused(file: str, what: str, found: str) -> dict[str, str]:
    return {
        "what": f"{file} {what}",
        "expected": f"a file with rows, whose name ends in {', '.join(SUFFIXES)}",
        "found": found,
        "next_step": 'name a sample file, or give the columns as text, as in "id string, fare double"',
        "file": file,
    }

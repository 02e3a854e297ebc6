"""Find line, column and value of an error of the CSV reader, which seldom names them itself."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from hudi_ops.formats.arrow_types import type_text
from hudi_ops.sources.text.mistake import Mistake, shown
from hudi_ops.sources.text.text_source import TextSource

_COLUMN = re.compile(r"In CSV column #(\d+): ")
_WIDTH = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_QUOTE = re.compile(r"^line (\d+): (.*quote.*)", re.S)
_UNDECODED = re.compile("[\udc80-\udcff]")
_VALUE_MAX = 1 << 30
"""Bytes of one value that are read again."""
_TRIED_CHARACTERS = 1 << 24
"""Characters of the rows that are converted at once when the value that does not fit is looked for."""
_RUN_BYTES = 1 << 30


class _Row(NamedTuple):
    """A row that is not blank: the line on which it ends, its values, and its text."""

    line: int
    values: list[str]
    text: str


def csv_mistake(error: Exception, open_body: Callable[[], pa.NativeFile], schema: pa.Schema) -> Mistake | None:
    """Return the mistake behind an error of the CSV reader; None: the error is of another form.

    The file is read again, row by row, up to the first line with the mistake: only a failed ingest pays for it. `schema`: columns
    that the file is read as.
    """
    text = str(error)
    if _is_utf16(open_body):
        return Mistake(1, "the file is UTF-16", "text in UTF-8")
    if column := _COLUMN.search(text):
        return _in_column(int(column[1]), open_body, schema)
    if quote := _QUOTE.search(text):
        return Mistake(int(quote[1]), quote[2], "quoted values that a quote closes")
    if width := _WIDTH.search(text):
        count = int(width[1])
        row = _first(open_body, lambda row: len(row.values) != count)
        values = "1 value" if width[2] == "1" else f"{width[2]} values"
        return Mistake(row and row.line, f"the line has {values}", f"{count} values, one for each column")
    return None


def line_of_row(open_body: Callable[[], pa.NativeFile], row: int) -> tuple[int, dict[str, str]] | None:
    """Return the last line of a row (from 0), and its values by column; None: not found again."""
    with closing(_rows(open_body)) as rows:
        names, found = next(rows, None), next(islice(rows, row, None), None)
    if names is None or found is None:
        return None
    return found.line, dict(zip(names.values, found.values, strict=False))


def _in_column(at: int, open_body: Callable[[], pa.NativeFile], schema: pa.Schema) -> Mistake | None:
    """Return the mistake in a column with a value that the reader could not convert.

    The values are converted once more to find it: not every text of the reader names it.
    """
    with closing(_rows(open_body)) as rows:
        header = next(rows, None)
    if header is None or at >= len(header.values):
        return None
    field = header.values[at]
    if field not in schema.names:
        expected = f"columns {', '.join(schema.names)}"
        return Mistake(1, f"the table has no column {field}", expected, field, is_unknown=True)
    row = _first_refused(open_body, schema.field(field))
    if row is None:
        return None
    found, column = row.values[at].strip(" \t"), f"column {field}"
    if _UNDECODED.search(found):
        return Mistake(row.line, f"{column} holds bytes that are not UTF-8", f"text in UTF-8 in {column}", field)
    expected = f"a value of type {type_text(schema.field(field).type)} in {column}"
    return Mistake(row.line, f"{column} cannot take {shown(found)!r}", expected, field, shown(found))


def _is_utf16(open_body: Callable[[], pa.NativeFile]) -> bool:
    try:
        with open_body() as body:
            return body.read(2) in {b"\xff\xfe", b"\xfe\xff"}
    except (OSError, pa.ArrowException):  # for example a damaged compressed file: the first error is more precise
        return False


def _first_refused(open_body: Callable[[], pa.NativeFile], field: pa.Field) -> _Row | None:
    """Return the first row whose value of a column the reader does not take as its type."""
    with closing(_rows(open_body)) as rows:
        header = next(rows)
        names = header.values
        columns = pa.schema([field if name == field.name else pa.field(name, pa.binary()) for name in names])
        for some in _chunks(row for row in rows if len(row.values) == len(names)):
            if _is_read(header, some, columns):
                continue
            first, count = 0, len(some)
            while count > 1:
                half = count // 2
                is_good = _is_read(header, some[first : first + half], columns)
                first, count = (first + half, count - half) if is_good else (first, half)
            return some[first]
    return None


def _is_read(header: _Row, rows: Sequence[_Row], columns: pa.Schema) -> bool:
    body = "".join([header.text, *(row.text for row in rows)]).encode("utf-8", "surrogateescape")
    try:
        for _ in TextSource(lambda: pa.BufferReader(body), "csv", columns).runs(_RUN_BYTES):
            pass
    except pa.ArrowInvalid:
        return False
    return True


def _chunks(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    held, size = list[_Row](), 0
    for row in rows:
        held.append(row)
        size += len(row.text)
        if size > _TRIED_CHARACTERS:
            yield held
            held, size = [], 0
    if held:
        yield held


def _first(open_body: Callable[[], pa.NativeFile], is_it: Callable[[_Row], bool]) -> _Row | None:
    """Return the first row behind the names that `is_it` accepts."""
    with closing(_rows(open_body)) as rows:
        return next(filter(is_it, islice(rows, 1, None)), None)


def _rows(open_body: Callable[[], pa.NativeFile]) -> Generator[_Row, None, None]:
    """Yield the names, then the rows, up to a value that is larger than the limit."""
    limit = csv.field_size_limit(_VALUE_MAX)
    try:
        with (
            open_body() as body,
            io.TextIOWrapper(body, encoding="utf-8-sig", errors="surrogateescape", newline="") as lines,
        ):
            read: list[str] = []
            rows = csv.reader(_remembered(lines, read))
            for values in rows:
                if values:
                    yield _Row(rows.line_num, values, "".join(read))
                read.clear()
    except csv.Error:
        return
    finally:
        csv.field_size_limit(limit)


def _remembered(lines: Iterable[str], read: list[str]) -> Iterator[str]:
    for line in lines:
        read.append(line)
        yield line

"""Find line and column of an error of the CSV reader, which seldom names them itself."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from hudi_ops.sources.text.mistake import Mistake, shown

_VALUES = (
    re.compile(
        r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (?P<kind>.+?): invalid value '(?P<found>.*)'",
        re.S,
    ),
    re.compile(
        r"In CSV column #(\d+): (?:Row #\d+: )?Error converting '(?P<found>.*)' to (?P<kind>decimal\d+\(.+?\))", re.S
    ),
    re.compile(
        r"In CSV column #(\d+): (?:Row #\d+: )?The string '(?P<found>.*)' is not a valid (?P<kind>decimal)", re.S
    ),
)
_NOT_UTF8 = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to string: invalid UTF8 data")
_WIDTH = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_QUOTE = re.compile(r"^line (\d+): (.*quote.*)", re.S)
_UNDECODED = re.compile("[\udc80-\udcff]")
_VALUE_MAX = 1 << 30
"""Bytes of one value that are read again."""


def csv_mistake(error: Exception, open_body: Callable[[], pa.NativeFile]) -> Mistake | None:
    """Return the mistake behind an error of the CSV reader; None: the error is of another form.

    The file is read again, row by row, up to the first line with the mistake: only a failed ingest pays for it.
    """
    text = str(error)
    if _is_utf16(open_body):
        return Mistake(1, "the file is UTF-16", "text in UTF-8")
    if value := next(filter(None, (pattern.search(text) for pattern in _VALUES)), None):
        at, kind, found = int(value[1]), re.sub(r"^decimal\d+", "decimal", value["kind"]), value["found"]
        line, names = _first(open_body, lambda row, raw: len(row) > at and _is_value(row[at], found, raw))
        column, field = _named(names, at)
        what, expected = f"{column} cannot take {shown(found)!r}", f"a value of type {kind} in {column}"
        return Mistake(line, what, expected, field, shown(found))
    if value := _NOT_UTF8.search(text):
        at = int(value[1])
        line, names = _first(open_body, lambda row, raw: len(row) > at and bool(_UNDECODED.search(row[at])))
        column, field = _named(names, at)
        return Mistake(line, f"{column} holds bytes that are not UTF-8", f"text in UTF-8 in {column}", field)
    if quote := _QUOTE.search(text):
        return Mistake(int(quote[1]), quote[2], "quoted values that a quote closes")
    if width := _WIDTH.search(text):
        count = int(width[1])
        line, _ = _first(open_body, lambda row, raw: bool(row) and len(row) != count)
        values = "1 value" if width[2] == "1" else f"{width[2]} values"
        return Mistake(line, f"the line has {values}", f"{count} values, one for each column")
    return None


def line_of_row(open_body: Callable[[], pa.NativeFile], row: int) -> tuple[int, dict[str, str]] | None:
    """Return the last line of a row (from 0), and its values by column; None: not found again."""
    rows = itertools.count()
    values: list[str] = []

    def is_it(read: list[str], raw: str) -> bool:
        if read and next(rows) == row:
            values.extend(read)
            return True
        return False

    line, names = _first(open_body, is_it)
    return None if line is None else (line, dict(zip(names, values, strict=False)))


def _is_utf16(open_body: Callable[[], pa.NativeFile]) -> bool:
    try:
        with open_body() as body:
            return body.read(2) in {b"\xff\xfe", b"\xfe\xff"}
    except (OSError, pa.ArrowException):  # for example a damaged compressed file: the first error is more precise
        return False


def _is_value(read: str, found: str, raw: str) -> bool:
    """Return whether a field is the value that Arrow refused.

    Arrow strips blanks, and refuses no empty value but a quoted one.
    """
    return read.strip(" \t") == found and (bool(found) or '""' in raw)


def _named(names: list[str], at: int) -> tuple[str, str | None]:
    field = names[at] if at < len(names) else None
    return f"column {field}" if field is not None else f"column number {at + 1}", field


def _first(
    open_body: Callable[[], pa.NativeFile], is_it: Callable[[list[str], str], bool]
) -> tuple[int | None, list[str]]:
    """Return the line on which the first row ends that `is_it` accepts, and the column names.

    `is_it` gets the values of a row and its text.
    """
    limit = csv.field_size_limit(_VALUE_MAX)
    try:
        with (
            open_body() as body,
            io.TextIOWrapper(body, encoding="utf-8-sig", errors="surrogateescape", newline="") as lines,
        ):
            read: list[str] = []
            rows = csv.reader(_remembered(lines, read))
            names = next(rows, [])
            read.clear()
            for row in rows:
                if is_it(row, "".join(read)):
                    return rows.line_num, names
                read.clear()
            return None, names
    except csv.Error:  # for example a value larger than the limit
        return None, []
    finally:
        csv.field_size_limit(limit)


def _remembered(lines: Iterable[str], read: list[str]) -> Iterator[str]:
    for line in lines:
        read.append(line)
        yield line

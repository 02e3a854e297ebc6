"""Find line and column of what the CSV reader refuses; its own errors seldom name them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): invalid value '(.*)'", re.DOTALL
)
_WIDTH = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_SHOWN_MAX = 60


class CsvMistake(NamedTuple):
    """What is wrong in a CSV file.

    Attributes:
        line: number of the line in the file, from 1; None: not found again.
        what: the mistake, without file and line.
        expected: what the line should hold.
        field: the column, where one is concerned.
    """

    line: int | None
    what: str
    expected: str
    field: str | None = None


def csv_mistake(error: pa.ArrowException, open_body: Callable[[], pa.NativeFile]) -> CsvMistake | None:
    """Return what an error of the CSV reader is about, or None for an error of another form.

    The file is read again up to the first such line, row by row: only a failed ingest pays for it.
    """
    text = str(error)
    if value := _VALUE.search(text):
        at, kind, found = int(value[1]), value[2], value[3]
        line, names = _first(open_body, lambda row: len(row) > at and row[at] == found)
        field = names[at] if at < len(names) else None
        column = f"column {field}" if field is not None else f"column number {at + 1}"
        shown = found if len(found) <= _SHOWN_MAX else f"{found[:_SHOWN_MAX]}…"
        return CsvMistake(line, f"{column} cannot take {shown!r}", f"a value of type {kind} in {column}", field)
    if width := _WIDTH.search(text):
        count = int(width[1])
        line, _ = _first(open_body, lambda row: bool(row) and len(row) != count)
        return CsvMistake(line, f"the line has {width[2]} values", f"{count} values, one for each column")
    return None


def _first(open_body: Callable[[], pa.NativeFile], is_it: Callable[[list[str]], bool]) -> tuple[int | None, list[str]]:
    """Return the line on which the first such row ends, and the names of the columns."""
    with open_body() as body, io.TextIOWrapper(body, encoding="utf-8-sig", errors="replace", newline="") as lines:
        rows = csv.reader(lines)
        try:
            names = next(rows, [])
            return next((rows.line_num for row in rows if is_it(row)), None), names
        except csv.Error:  # such as a value larger than this reader takes
            return None, []

"""Output of the commands: JSON lines for programs; tables and progress for people."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pyarrow as pa

BROKEN_PIPE_EXIT_CODE = 141
"""128 + SIGPIPE: what a shell shows for any program whose reader went away."""

_CELL_WIDTH_MAX = 36
_ROWS_AT_A_TIME = 4096
_NOT_TEXT = (None, "NaN", "Infinity", "-Infinity")
# A value may hold control characters, which a terminal executes.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {9: "\\t", 10: "\\n", 13: "\\r"}


def write(text: str) -> None:
    """Print one text to the standard output, now.

    Raises:
        Exit: the reader of the output is gone; this is quiet.
    """
    write_part(text + "\n")


def write_part(text: str) -> None:
    """Print a part of a line to the standard output, now.

    Raises:
        Exit: the reader of the output is gone; this is quiet.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter ends, and loudly.
        _discard_output()
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from None


def write_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line."""
    write(to_json(value))


def to_json(value: Mapping[str, Any]) -> str:
    """Return one JSON object on one line; values without a type in JSON become text."""
    return json.dumps(plain(value), allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value in JSON's types.

    Dates and decimals become text, bytes base64, NaN and infinities their names.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
    return str(value)


def plain_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield rows as JSON objects, in batches, so that a large table is never held in memory."""
    for batch in batches:
        names = batch.schema.names
        for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
            columns = [_plain_column(column) for column in batch.slice(start, _ROWS_AT_A_TIME).columns]
            yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def write_lines(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as JSON lines, some at a time."""
    for some in _some(rows):
        write_part("".join(to_json(row) + "\n" for row in some))


def write_json_with_rows(head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one JSON object on one line, with `rows` as its last value, printed row by row.

    If an error stops the rows, the line is ended first, so that the error is printed on a line of its own.
    """
    write_part(to_json(head).removesuffix("}") + ', "rows": [')
    between, end = "", ""
    try:
        for some in _some(rows):
            write_part(between + ", ".join(map(to_json, some)))
            between = ", "
        end = "]}"
    finally:
        write_part(end + "\n")


def _some(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    rest = iter(rows)
    while some := list(islice(rest, _ROWS_AT_A_TIME)):
        yield some


def _plain_column(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        try:
            return [plain(value) for value in column.to_pylist()]
        except (OverflowError, ValueError):
            return [_plain_time(value) for value in column]
    values: list[Any] = (
        column.to_pylist(maps_as_pydicts="lossy") if pa.types.is_map(column.type) else column.to_pylist()
    )
    is_plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_boolean(column.type)
    return values if is_plain else [plain(value) for value in values]


def _plain_time(value: pa.Scalar) -> Any:
    try:
        return plain(value.as_py())
    except (OverflowError, ValueError):  # Python knows the years 1 to 9999 only
        import pyarrow as pa

        unit = getattr(value.type, "unit", None)
        unzoned = value if pa.types.is_date(value.type) else value.cast(pa.timestamp(unit))
        return str(unzoned.cast(pa.string()).as_py()).replace(" ", "T", 1)


def is_terminal() -> bool:
    """Whether people read the standard output as it comes."""
    return sys.stdout.isatty()


def write_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table for people; columns that do not fit the terminal are named below it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    width = Console().width if is_terminal() else 1 << 16
    shown = _fitting([max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(columns)], width)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for at in range(shown):
        is_number = bool(rows) and all(isinstance(row[at], (int, float)) or row[at] in _NOT_TEXT for row in rows)
        table.add_column(Text(columns[at]), no_wrap=True, overflow="ellipsis", justify="right" if is_number else "left")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row[:shown]))
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    write("\n".join(line.rstrip() for line in captured.get().splitlines()))
    if hidden := columns[shown:]:
        write(f"… and {len(hidden)} more columns: {', '.join(hidden)}")


def write_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values below each other; empty values are left out."""
    said = {name: value for name, value in facts.items() if value not in (None, "", (), [])}
    width = max((len(name) for name in said), default=0)
    for name, value in said.items():
        write(
            f"{name.ljust(width)}  {_cell(value) if not isinstance(value, (list, tuple)) else ', '.join(map(_cell, value))}"
        )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `1,200 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sized(size_bytes: int) -> str:
    """Bytes for people: `812 bytes`, `3.4 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return counted(size_bytes, "byte")


def _fitting(widths: Sequence[int], width: int) -> int:
    used = 0
    for at, wanted in enumerate(widths):
        used += min(wanted, _CELL_WIDTH_MAX) + 2
        if at and used > width:
            return at
    return len(widths)


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    text = json.dumps(plain(value)) if isinstance(value, (dict, list, tuple)) else str(plain(value))
    return text.translate(_CONTROL)


def _discard_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

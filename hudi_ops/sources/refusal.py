"""Say why a source file was refused: file, line, column, value, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from hudi_ops.errors import HudiOpsError, InvalidRequest, Unavailable
from hudi_ops.sources.parquet_source import damaged_column
from hudi_ops.sources.text import csv_errors, json_errors
from hudi_ops.sources.text.mistake import Mistake, shown
from hudi_ops.storage.protocol import FileInfo, Storage

EVOLVE = "let the table take new columns: evolve=True, --evolve on the command line"
UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError)
"""Errors of a reader of source files."""

_READERS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
SUFFIXES = tuple(sorted(_READERS))
_WHOLE_BYTES_MAX = 16 << 20
_READ_BYTES = 8 << 20
_ROW = re.compile(r"\b([Rr]ow) (\d+):")
_BLANK = "Empty JSON stream", "Empty CSV file"


def source_format(name: str) -> str | None:
    """Return `csv`, `json` (both also with `.gz`) or `parquet` by the ending, or None."""
    lower = name.lower()
    plain = lower if lower.endswith(".parquet.gz") else lower.removesuffix(".gz")
    return _READERS.get("." + plain.rpartition(".")[2])


def open_text(storage: Storage, file: FileInfo) -> pa.NativeFile:
    """Open the bytes of a CSV or JSON lines file, uncompressed."""
    body: pa.NativeFile
    if file.size_bytes <= _WHOLE_BYTES_MAX:
        body = pa.BufferReader(storage.get(file.path))
    else:
        body = pa.BufferedInputStream(storage.open_input(file.path), _READ_BYTES)
    return pa.CompressedInputStream(body, "gzip") if file.name.lower().endswith(".gz") else body


def unreadable(
    error: Exception,
    storage: Storage,
    file: FileInfo,
    schema: pa.Schema,
    *,
    takes_unknown: bool = False,
    done: int = 0,
) -> HudiOpsError:
    """Return the error for a file that a reader does not take.

    Args:
        error: the reader's.
        storage: holds the file.
        file: the file.
        schema: columns that the file is read as.
        takes_unknown: whether the reader leaves other columns out.
        done: number of rows that were read.
    """
    where, kind = f"{storage.uri}/{file.path}", source_format(file.name)
    if getattr(error, "errno", None) is not None:
        return Unavailable(
            f"{where} could not be read: {error}", next_step="check the disk, then try again", file=where
        )
    open_body = partial(open_text, storage, file)
    if any(text in str(error) for text in _BLANK):
        mistake: Mistake | None = Mistake(None, "the file holds blanks only", "a line, or a file of 0 bytes")
    else:
        mistake = _mistake(error, open_body, kind, schema, takes_unknown)
    if mistake is None:
        field, done = (_damaged(storage, file) if kind == "parquet" else None) or (None, done)
        named = f"column {field} " if field is not None else ""
        return InvalidRequest(
            f"{where}{': ' if named else ' '}{named}cannot be parsed{f', in row {done} or later' if done else ''}: {error}",
            expected=f"a {kind} file" + ("" if takes_unknown else " that fits the table's schema"),
            next_step="correct the file, or take it out of the source folder",
            file=where,
            field=field,
        )
    return InvalidRequest(
        f"{where}{f', line {mistake.line}' if mistake.line else ''}: {mistake.what}",
        expected=mistake.expected,
        found=mistake.found,
        next_step=f"leave the field out, or {EVOLVE}"
        if mistake.is_unknown
        else "correct the file, or take it out of the source folder",
        file=where,
        field=mistake.field,
        line=mistake.line,
    )


def _damaged(storage: Storage, file: FileInfo) -> tuple[str, int] | None:
    try:
        return damaged_column(storage.open_input(file.path))
    except UNREADABLE:  # its footer is damaged: no column is at fault
        return None


def count_from(error: InvalidRequest, first: int) -> None:
    """Make the row numbers in an error's details and text (`row 5:`) count from the source.

    `first` is the number of the run's first row.
    """
    if first and "row" in error.details:
        error.details["row"] += first
    if first:
        _rename(error, lambda found: f"{found[1]} {int(found[2]) + first}:")


def name_line(error: InvalidRequest, storage: Storage, file: FileInfo) -> None:
    """Name line and written value of a CSV or JSON lines file where an error names a row."""
    kind, row = source_format(file.name), error.details.get("row")
    if kind not in {"csv", "json"} or row is None:
        return
    line_of_row = csv_errors.line_of_row if kind == "csv" else json_errors.line_of_row
    try:
        found = line_of_row(partial(open_text, storage, file), row)
    except UNREADABLE:  # the error at hand tells more
        return
    if found is not None:
        error.details["line"], values = found
        _rename(error, lambda _: f"line {error.details['line']}:")
        text = values.get(str(error.details.get("field", "")).partition(".")[0].partition("[")[0])
        error.found = error.found if text is None else shown(text)


def _mistake(
    error: Exception,
    open_body: Callable[[], pa.NativeFile],
    kind: str | None,
    schema: pa.Schema,
    takes_unknown: bool,
) -> Mistake | None:
    try:
        if kind == "csv":
            return csv_errors.csv_mistake(error, open_body, schema)
        if kind == "json":
            found = json_errors.json_mistake(error, open_body, schema, takes_unknown=takes_unknown)
            return found or (json_errors.mixed_types(open_body) if takes_unknown else None)
    except UNREADABLE:  # for example a damaged compressed file: the first error is more precise
        pass
    return None


def _rename(error: InvalidRequest, place: Callable[[re.Match[str]], str]) -> None:
    error.what = _ROW.sub(place, error.what, count=1)
    error.args = (error.what,)

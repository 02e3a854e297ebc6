"""Reader of source files in the table's schema; a misfit is an error, never a null."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import InvalidRequest, NotFound, Unavailable
from hudi_ops.sources.casts import fit_column
from hudi_ops.sources.text.csv_errors import csv_mistake
from hudi_ops.sources.parquet_source import parquet_runs
from hudi_ops.sources.runs import RUN_BYTES, Run
from hudi_ops.sources.text.text_source import TextSource
from hudi_ops.storage.protocol import FileInfo, Storage

_READERS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
SUFFIXES = tuple(sorted(_READERS))
PART_BYTES = 128 << 20
"""Parquet files larger than this are read by several tasks."""

_WHOLE_BYTES_MAX = 16 << 20
_READ_BYTES = 8 << 20
_EVOLVE = "let the table take new columns: evolve=True, --evolve on the command line"
_ROW = re.compile(r"\b([Rr]ow )(\d+):")


def source_format(name: str) -> str | None:
    """Return `csv`, `json` (both also with `.gz`) or `parquet` by the ending, or None."""
    lower = name.lower()
    plain = lower if lower.endswith(".parquet.gz") else lower.removesuffix(".gz")
    return _READERS.get("." + plain.rpartition(".")[2])


def read_runs(
    storage: Storage,
    file: FileInfo,
    schema: pa.Schema,
    required: Sequence[str],
    part: tuple[int, int] = (0, 1),
    run_bytes: int = RUN_BYTES,
    *,
    fill: bool = False,
) -> Iterator[Run]:
    """Yield the runs of a source file or a part of it, with the columns of `schema`.

    A file that changed since it was listed is refused, at the latest after its last run. Columns of `required` must exist. `part`
    is (i, n), the i-th of n parts; only Parquet files have more than one. The whole file is never in memory. `fill` as in
    `fit_rows`.

    Raises:
        InvalidRequest: the file cannot be parsed, has a column the table does not know, lacks a required one, holds a value
            that does not fit its column, or changed while it was read. Names the file and, if known, field and row.
        Unavailable: the disk or store did not deliver it.
        NotFound: the store contradicts itself on whether the file exists.
    """
    where = f"{storage.uri}/{file.path}"
    done = 0
    try:
        runs, text = _body_runs(storage, file, schema, part, run_bytes, fill)
        for first, rows in runs:
            try:
                fitted = fit_rows(rows, schema, required, where, fill=fill)
                if text is not None:
                    text.refuse_overflow(fitted, where)
            except InvalidRequest as error:
                count_from(error, first)
                raise
            yield first, fitted
            done = first + rows.num_rows
    except NotFound:
        refuse_changed(storage, file, where)
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        refuse_changed(
            storage, file, where
        )  # a file that changed while it was read seldom parses: the error names the change
        if getattr(error, "errno", None) is not None:
            raise Unavailable(
                f"{where} could not be read: {error}", next_step="check the disk, then try again"
            ) from error
        if source_format(file.name) == "csv" and (mistake := csv_mistake(error, lambda: open_text(storage, file))):
            raise InvalidRequest(
                f"{where}{f', line {mistake.line}' if mistake.line else ''}: {mistake.what}",
                expected=mistake.expected,
                next_step="correct the file, or take it out of the source folder",
                file=where,
                field=mistake.field,
                line=mistake.line,
            ) from error
        raise InvalidRequest(
            f"{where} cannot be parsed{f', in row {done} or later' if done else ''}: {error}",
            expected=f"a {source_format(file.name)} file that fits the table's schema",
            next_step="correct the file, or take it out of the source folder"
            if "unexpected field" not in str(error)
            else f"leave the field out, or {_EVOLVE}",
            file=where,
        ) from error
    refuse_changed(storage, file, where)


def parts_of(file: FileInfo) -> int:
    """Return the number of parts of a file for several tasks, by its size alone."""
    if source_format(file.name) != "parquet":
        return 1
    return max(1, -(-file.size_bytes // PART_BYTES))


def count_from(error: InvalidRequest, first: int) -> None:
    """Make the row numbers in an error's details and text (`row 5:`) count from the source.

    `first` is the number of the run's first row.
    """
    if first and "row" in error.details:
        error.details["row"] += first
    if first:
        error.what = _ROW.sub(lambda found: f"{found[1]}{int(found[2]) + first}:", error.what, count=1)
        error.args = (error.what,)


def fit_rows(rows: pa.Table, schema: pa.Schema, required: Sequence[str], where: str, *, fill: bool = False) -> pa.Table:
    """Convert rows to the columns, order and types of `schema`; `where` is for errors.

    Meta columns of Apache Hudi are ignored. Missing columns that are not `required` stay out. With `fill` they and missing nested
    fields are null, and unknown ones of type null are left out.

    Raises:
        InvalidRequest: an unknown, missing or repeated column, or a value that does not fit.
    """
    if meta := [name for name in dict.fromkeys(rows.column_names) if name in META_COLUMNS]:
        rows = rows.drop_columns(meta)
    twice = next((name for name, count in Counter(rows.column_names).items() if count > 1), None)
    if fill and twice is None:
        rows = _filled(rows, schema, required)
    unknown = [name for name in rows.column_names if name not in schema.names]
    if unknown:
        raise InvalidRequest(
            f"{where} has a column that the table lacks: {unknown[0]}",
            expected=f"columns {', '.join(schema.names)}",
            found=", ".join(rows.column_names),
            next_step=f"leave the column out, or {_EVOLVE}",
            file=where,
            field=unknown[0],
        )
    missing = [name for name in required if name not in rows.column_names]
    if missing or twice is not None:
        raise InvalidRequest(
            f"{where} has no column {missing[0]}" if missing else f"{where} has a column twice",
            expected=f"columns {', '.join(required)}",
            found=", ".join(rows.column_names),
            next_step="rows are replaced as a whole, so every column must be there",
            file=where,
            field=missing[0] if missing else twice,
        )
    fields = [field for field in schema if field.name in rows.column_names]
    columns = [fit_column(rows.column(field.name), field, where, fill=fill) for field in fields]
    return pa.table(columns, schema=pa.schema(fields))


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a source that an ingest uses: all but Apache Hudi's meta columns."""
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def _filled(rows: pa.Table, schema: pa.Schema, required: Sequence[str]) -> pa.Table:
    rows = rows.select([
        field.name for field in rows.schema if field.name in schema.names or not pa.types.is_null(field.type)
    ])
    for field in schema:
        if field.name not in rows.column_names and field.name not in required:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def _body_runs(
    storage: Storage, file: FileInfo, schema: pa.Schema, part: tuple[int, int], run_bytes: int, fill: bool
) -> tuple[Iterator[Run], TextSource | None]:
    kind = source_format(file.name)
    if kind == "parquet":
        return parquet_runs(storage.open_input(file.path), part, run_bytes), None
    if file.size_bytes == 0:
        # Distributed writers leave empty part files where a partition had no rows.
        return iter([(0, schema.empty_table())]), None
    text = TextSource(lambda: open_text(storage, file), kind or "json", schema, takes_unknown=fill)
    return text.runs(run_bytes), text


def open_text(storage: Storage, file: FileInfo) -> pa.NativeFile:
    """Open the bytes of a CSV or JSON lines file, uncompressed."""
    body: pa.NativeFile
    if file.size_bytes <= _WHOLE_BYTES_MAX:
        body = pa.BufferReader(storage.get(file.path))
    else:
        body = pa.BufferedInputStream(storage.open_input(file.path), _READ_BYTES)
    return pa.CompressedInputStream(body, "gzip") if file.name.lower().endswith(".gz") else body


def refuse_changed(storage: Storage, file: FileInfo, where: str) -> None:
    """Check that a source file is still the one that was listed.

    Raises:
        InvalidRequest: it was changed or deleted.
    """
    now = storage.head(file.path)
    if now is None or (now.size_bytes, now.modified_ms) != (file.size_bytes, file.modified_ms):
        raise InvalidRequest(
            f"{where} was {'deleted' if now is None else 'changed'} while it was read",
            expected="files that do not change once they are in the source folder",
            found="no file" if now is None else f"{now.size_bytes} bytes instead of {file.size_bytes}",
            next_step="write files elsewhere and move them in when they are complete; then run the ingest again",
            file=where,
        )

"""Reader of source files in the table's schema; a misfit is an error, never a null."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import InvalidRequest, NotFound
from hudi_ops.formats.arrow_types import without_nulls
from hudi_ops.sources.casts import fit_column
from hudi_ops.sources.limits import VALUE_BYTES_MAX, ReadLimits, refuse_large_values
from hudi_ops.sources.parquet_source import parquet_runs
from hudi_ops.sources.refusal import EVOLVE, UNREADABLE, count_from, name_line, open_text, source_format, unreadable
from hudi_ops.sources.runs import RUN_BYTES, Run
from hudi_ops.sources.text.text_source import TextSource
from hudi_ops.storage.protocol import FileInfo, Storage

PART_BYTES = 128 << 20
"""Parquet files larger than this are read by several tasks."""


def read_runs(
    storage: Storage,
    file: FileInfo,
    schema: pa.Schema,
    required: Sequence[str],
    part: tuple[int, int] = (0, 1),
    run_bytes: int = RUN_BYTES,
    *,
    fill: bool = False,
    value_bytes: int = VALUE_BYTES_MAX,
) -> Iterator[Run]:
    """Yield the runs of a source file or a part of it, with the columns of `schema`.

    A file that changed since it was listed is refused, at the latest after its last run. Columns of `required` must exist. `part`
    is (i, n), the i-th of n parts; only Parquet files have more than one. The whole file is never in memory. `fill` as in
    `fit_rows`. `run_bytes` and `value_bytes` limit the decoded bytes of a run and of one value.

    Raises:
        InvalidRequest: the file cannot be parsed, has a column the table does not know, lacks a required one, holds a value
            that does not fit its column or is above `value_bytes`, or changed while it was read. Names the file and, if
            known, field, line or row, and value.
        Unavailable: the disk or store did not deliver it.
        NotFound: the store contradicts itself on whether the file exists.
    """
    where = f"{storage.uri}/{file.path}"
    done = 0
    try:
        runs, text = _body_runs(storage, file, schema, part, ReadLimits(run_bytes, value_bytes, where), fill)
        for first, rows in runs:
            try:
                refuse_large_values(rows, value_bytes, where)
                fitted = fit_rows(rows, schema, required, where, fill=fill)
                if text is not None:
                    text.refuse_overflow(fitted, where)
            except InvalidRequest as error:
                count_from(error, first)
                name_line(error, storage, file)
                raise
            yield first, fitted
            done = first + rows.num_rows
    except NotFound:
        refuse_changed(storage, file, where)
        raise
    except UNREADABLE as error:
        # A file that changed while it was read seldom parses: the error names the change.
        refuse_changed(storage, file, where)
        refusal = unreadable(error, storage, file, schema, takes_unknown=fill, done=done)
        raise refusal from error
    refuse_changed(storage, file, where)


def parts_of(file: FileInfo) -> int:
    """Return the number of parts of a file for several tasks, by its size alone."""
    if source_format(file.name) != "parquet":
        return 1
    return max(1, -(-file.size_bytes // PART_BYTES))


def fit_rows(rows: pa.Table, schema: pa.Schema, required: Sequence[str], where: str, *, fill: bool = False) -> pa.Table:
    """Convert rows to the columns, order and types of `schema`; `where` is for errors.

    Meta columns of Apache Hudi are ignored, and so are unknown ones of type null. Missing columns that are not `required` stay
    out. With `fill` they and missing nested fields are null.

    Raises:
        InvalidRequest: an unknown, missing or repeated column, or a value that does not fit.
    """
    if meta := [name for name in dict.fromkeys(rows.column_names) if name in META_COLUMNS]:
        rows = rows.drop_columns(meta)
    known = set(schema.names)
    rows = rows.select([
        at for at, field in enumerate(rows.schema) if field.name in known or without_nulls(field) is not None
    ])
    twice = next((name for name, count in Counter(rows.column_names).items() if count > 1), None)
    if fill and twice is None:
        rows = _filled(rows, schema, required)
    unknown = [name for name in rows.column_names if name not in known]
    if unknown:
        raise InvalidRequest(
            f"{where} has a column that the table lacks: {unknown[0]}",
            expected=f"columns {', '.join(schema.names)}",
            found=", ".join(rows.column_names),
            next_step=f"leave the column out, or {EVOLVE}",
            file=where,
            field=unknown[0],
        )
    given = set(rows.column_names)
    missing = [name for name in required if name not in given]
    if missing or twice is not None:
        raise InvalidRequest(
            f"{where} has no column {missing[0]}" if missing else f"{where} has a column twice",
            expected=f"columns {', '.join(required)}",
            found=", ".join(rows.column_names),
            next_step="rows are replaced as a whole, so every column must be there",
            file=where,
            field=missing[0] if missing else twice,
        )
    fields = [field for field in schema if field.name in given]
    columns = [fit_column(rows.column(field.name), field, where, fill=fill) for field in fields]
    return pa.table(columns, schema=pa.schema(fields))


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a source that an ingest uses: all but Apache Hudi's meta columns."""
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def _filled(rows: pa.Table, schema: pa.Schema, required: Sequence[str]) -> pa.Table:
    given = {*rows.column_names, *required}
    added = [field for field in schema if field.name not in given]
    nulls = [pa.nulls(rows.num_rows, field.type) for field in added]
    return pa.table([*rows.columns, *nulls], pa.schema([*rows.schema, *added], rows.schema.metadata)) if added else rows


def _body_runs(
    storage: Storage, file: FileInfo, schema: pa.Schema, part: tuple[int, int], limits: ReadLimits, fill: bool
) -> tuple[Iterator[Run], TextSource | None]:
    kind = source_format(file.name)
    if kind == "parquet":
        return parquet_runs(storage.open_input(file.path), part, limits), None
    if file.size_bytes == 0:
        # Distributed writers leave empty part files where a partition had no rows.
        return iter([(0, schema.empty_table())]), None
    text = TextSource(lambda: open_text(storage, file), kind or "json", schema, takes_unknown=fill)
    return text.runs(limits.run_bytes, limits.value_bytes, limits.where), text


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

"""Reading a table as Arrow: visible files at an instant, needed columns only, rows filtered file by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest, NotFound, Unavailable, Unsupported
from hudi_ops.files.base_file import BaseFileReader, conform, stored_schema
from hudi_ops.services.where import parse_where, referenced_columns
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.plans import CleanResult, read_result
from hudi_ops.timeline.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import list_table, visible_slices
from hudi_ops.view.snapshot import TableView


@dataclass(frozen=True)
class ReadRequest:
    """What to read. `as_of` is a request time; `columns` None means all, meta columns included."""

    columns: tuple[str, ...] | None = None
    where: pc.Expression | None = None
    where_columns: tuple[str, ...] = ()
    as_of: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class FileTask:
    """One base file to read; picklable but for the filter, which travels as pyarrow's own expression."""

    storage: Storage
    path: str
    schema: pa.Schema
    columns: tuple[str, ...]
    where: pc.Expression | None


@dataclass(frozen=True)
class OpenView:
    """A table opened for reading: settings, timeline, and its view."""

    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    view: TableView

    @classmethod
    def of(cls, storage: Storage, commits: CommitReader | None = None) -> OpenView:
        """Open the table that lies at a storage's root; no commit log is needed to read.

        Raises:
            InvalidRequest: the path is not a table.
            Corrupt: its settings cannot be read.
        """
        config = load_config(storage)
        timeline = load_timeline(storage, config)
        commits = commits or CommitReader(storage)
        listing = StorageListing(storage, is_partitioned=bool(config.partition_fields))
        return cls(config, timeline, commits, TableView(config, timeline, commits, listing))


def read_table(ctx: TableContext, request: ReadRequest, commits: CommitReader | None = None) -> pa.Table:
    """The rows of a table at an instant; their order follows partitions and file groups.

    Raises:
        InvalidRequest: an unknown column, or an instant from before the timeline's start.
        Unsupported: rows of the table lie in log files.
        Unavailable: files were cleaned away while they were read.
    """
    opened = OpenView.of(ctx.storage, commits)
    config = opened.config
    _check_as_of(ctx.storage, opened, request.as_of)
    plain = table_schema(config, opened.timeline, opened.commits, request.as_of)
    schema = stored_schema(plain, config.populate_meta_fields)
    columns = _columns(schema, request, config.name)
    if config.table_type == "MERGE_ON_READ" and (logs := _live_logs(ctx.storage, opened, request.as_of)):
        raise Unsupported(
            "this table has rows in log files, which cannot be merged yet",
            table=config.name,
            expected="base files only",
            found=f"{len(logs)} log files, the first {logs[0].path}",
            next_step="compact the table with Apache Hudi, or read it there",
        )
    files = opened.view.base_files(as_of=request.as_of)
    tasks = [FileTask(ctx.storage, file.path, schema, columns, request.where) for file in files]
    selected = pa.schema([schema.field(name) for name in request.columns or schema.names])
    try:
        parts = _limited(ctx, tasks, request.limit)
    except NotFound as error:
        raise Unavailable(
            f"a file vanished while the table was read: {error.what}",
            table=config.name,
            next_step="read again; the cleaner removed an old slice. If it repeats, run `hudi-ops verify`",
        ) from error
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    return rows.select(selected.names).slice(0, request.limit)


def _live_logs(storage: Storage, opened: OpenView, as_of: str | None) -> Sequence[DataFile]:
    if as_of is not None:
        return opened.view.log_files(as_of=as_of)
    listed = list_table(storage, opened.config)
    slices = visible_slices(opened.config, opened.timeline, opened.commits, listed)
    return [log for one in slices for log in one.logs]


def read_file(task: FileTask) -> pa.Table:
    """Rows of one file that pass the filter, in the table's schema.

    Raises:
        InvalidRequest: the filter compares a column with a value of another type.
    """
    schema = pa.schema([field for field in task.schema if field.name in task.columns])
    rows = conform(BaseFileReader(task.storage, task.path).read(schema.names), schema, task.path)
    if task.where is None:
        return rows
    try:
        return rows.filter(task.where)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest(
            f"the filter does not fit the table's columns: {error}",
            expected=", ".join(f"{field.name}: {field.type}" for field in schema if field.name not in META_COLUMNS),
            next_step="compare a column with a value of its own type; write times as TIMESTAMP '…' and dates as DATE '…'",
        ) from error


def _limited(ctx: TableContext, tasks: list[FileTask], limit: int | None) -> list[pa.Table]:
    if limit is None:
        # The rows come to this process in any case, so executors would only carry them further.
        engine = ctx.engine if isinstance(ctx.engine, LocalEngine) else LocalEngine()
        return engine.map(read_file, tasks)
    parts: list[pa.Table] = []
    for task in tasks:
        if sum(part.num_rows for part in parts) >= limit:
            break
        parts.append(read_file(task))
    return parts


def _columns(schema: pa.Schema, request: ReadRequest, table: str) -> tuple[str, ...]:
    if request.columns is not None and not request.columns:
        raise InvalidRequest(
            "no columns were asked for",
            table=table,
            expected="at least one column, or None for all",
            found="an empty list",
            next_step="name a column, or leave the list out",
        )
    for name in (*(request.columns or ()), *request.where_columns):
        if name not in schema.names:
            raise InvalidRequest(
                f"the table has no column {name}",
                table=table,
                expected=", ".join(n for n in schema.names if n not in META_COLUMNS),
                found=name,
                field=name,
            )
    wanted = {*(request.columns or schema.names), *request.where_columns}
    return tuple(name for name in schema.names if name in wanted)


def _check_as_of(storage: Storage, opened: OpenView, as_of: str | None) -> None:
    if as_of is None:
        return
    start, cleaned = opened.timeline.start, _earliest_retained(storage, opened.timeline)
    oldest = max(start, cleaned)
    if as_of < oldest:
        why = "slices that it needs were cleaned away" if cleaned > start else "it lies before the active timeline"
        raise InvalidRequest(
            f"the table cannot be read as of {as_of}: {why}",
            table=opened.config.name,
            expected=f"an instant at or after {oldest}",
            found=as_of,
            next_step="choose one from `hudi-ops timeline`",
        )


def _earliest_retained(storage: Storage, timeline: Timeline) -> str:
    """The oldest instant whose slices the newest clean kept; empty when nothing was cleaned."""
    for instant in reversed(timeline.instants):
        if instant.kind == "clean" and instant.is_completed:
            result = read_result(storage, timeline, instant)
            return result.earliest_retained if isinstance(result, CleanResult) else ""
    return ""


def request_of(
    columns: Sequence[str] | None,
    where: pc.Expression | str | None,
    as_of: str | None,
    limit: int | None,
) -> ReadRequest:
    """A request from what callers pass: a filter as SQL text or as an expression.

    Raises:
        InvalidRequest: the text is no filter, or the limit is negative.
    """
    if limit is not None and limit < 0:
        raise InvalidRequest("limit must not be negative", expected="0 or more", found=str(limit))
    expression = parse_where(where) if isinstance(where, str) else where
    names = referenced_columns(where) if isinstance(where, str) else ()
    return ReadRequest(tuple(columns) if columns is not None else None, expression, names, as_of, limit)

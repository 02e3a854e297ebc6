"""Second task of an ingest: merge a bucket's rows into its base file and write the next.

It runs on executors: its input holds everything it needs, and it returns its result as a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import FILE_NAME, IS_DELETED, RECORD_KEY
from hudi_ops.config.write_settings import LogFormat
from hudi_ops.errors import Conflict, NotFound
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, conform, encode_base_file, stored_schema
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import concat_rows, decode_columns
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name
from hudi_ops.files.new_files import FilePuts, NewFile, put_files
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.kernels.keys.hashing import group_hash
from hudi_ops.kernels.keys.keys import KeySpec, record_keys
from hudi_ops.kernels.merging.merge import MergePlan, Operation, Ordering, combine, plan_append, plan_merge
from hudi_ops.kernels.meta_columns import add_meta_columns, with_file_name
from hudi_ops.services.write.dual.child_logs import ChildLog, ChildrenTask
from hudi_ops.services.write.tasks.tag import chunk_key
from hudi_ops.sources.runs import concat_tables, picked
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.view.file_group import DataFile


@dataclass(frozen=True)
class BucketTask:
    """One bucket to merge and write.

    Attributes:
        base: its visible base file; None: this write makes the first.
        logs: log files of this slice.
        file_id: the group that is written.
        keys: how record keys are made in a table without meta columns; None: base files have them in a column.
        log_format: format of log files in a merge-on-read table; None: the group gets a base file.
        merging: merge rules of a merge-on-read table.
        wanted: statistics of the file for the metadata table.
        chunks: key of the rows' chunks; empty: the bucket's.
        children: those of pending resizes that get the rows of a log file as well.
    """

    storage: Storage
    table_name: str
    schema: pa.Schema
    ordering: str | None
    mode: Ordering
    operation: Operation
    partition_path: str
    bucket: int
    file_id: str
    base: DataFile | None
    instant: str = ""
    epoch: int = 0
    settings: WriterSettings = field(default_factory=WriterSettings)
    keys: KeySpec | None = None
    logs: tuple[DataFile, ...] = ()
    log_format: LogFormat | None = None
    merging: tuple[MergeRules, BlockInstants] | None = None
    wanted: StatisticsRequest = NO_FACTS
    chunks: str = ""
    children: tuple[ChildrenTask, ...] = ()

    @property
    def is_appended(self) -> bool:
        """Return whether the rows go to a log file: the group exists, and readers merge."""
        return self.log_format is not None and (self.base is not None or bool(self.logs))

    @property
    def key(self) -> str:
        """Return the key of the chunks that hold the group's rows."""
        return self.chunks or chunk_key(self.partition_path, self.bucket)

    @property
    def stored(self) -> pa.Schema:
        """Return the columns of the base file to write."""
        return stored_schema(self.schema, self.keys is None)


@dataclass(frozen=True)
class BucketResult:
    """Result of a bucket's task; `stat` is None if nothing was written.

    `logged` counts rows and deletes of a log file, which may be inserts or updates; `children` are the log files that got them as
    well.
    """

    stat: WriteStat | None
    inserted: int
    updated: int
    deleted: int
    ignored: int
    logged: int = 0
    facts: FileStatistics | None = None
    children: tuple[ChildLog, ...] = ()


def merge_and_write(task: BucketTask, tables: list[pa.Table], puts: FilePuts | None = None) -> BucketResult:
    """Merge a bucket's incoming rows into its base file and write the next one, marker first.

    With `puts` the file is added to them; it need not exist before they are flushed.

    Raises:
        Conflict: another writer inserted a key of an insert, or the base file is gone.
    """
    try:
        return _merge_and_write(task, tables, puts)
    except NotFound as error:
        raise Conflict(
            f"a base file vanished while it was rewritten: {error.what}",
            instant=task.instant,
            expected=task.base.path if task.base is not None else "",
            next_step="run the same call again; a cleaner or a restore removed the file",
        ) from error


def _merge_and_write(task: BucketTask, tables: list[pa.Table], puts: FilePuts | None) -> BucketResult:
    incoming = concat_tables(tables)
    reader = BaseFileReader(task.storage, task.base.path, keep_encoded=True) if task.base is not None else None
    if task.operation is Operation.DELETE and (reader is None or not reader.might_hold(incoming.column(RECORD_KEY))):
        return BucketResult(None, 0, 0, 0, 0)
    heads = _heads(task, incoming, reader)
    incoming, plan = _resolve(task, incoming, heads)
    result = BucketResult(None, plan.inserted, plan.updated, plan.deleted, plan.ignored)
    if task.operation is Operation.INSERT and (plan.updated or plan.ignored):
        raise Conflict(
            "another writer inserted one of these keys meanwhile",
            instant=task.instant,
            expected="keys that the table does not have",
            next_step="run the same call again: it names the key, or succeeds",
        )
    if plan.keep_base is None and len(plan.take_incoming) == 0:
        return result
    added, removed = _changed_keys(task, incoming, plan) if task.wanted.keys else (None, None)
    name = base_file_name(task.file_id, group_hash(task.partition_path, task.bucket), task.epoch, task.instant)
    if len(plan.take_incoming) < incoming.num_rows:
        incoming = picked(incoming, pa.array(plan.take_incoming))
    fresh = fresh_rows(task, incoming, name)
    del incoming
    carried = _carried_rows(task, plan, reader, heads)
    rows = fresh if carried is None else concat_rows(carried, fresh)
    previous = reader.parquet if reader is not None else None
    if task.keys is None:
        old_bloom = reader.footer.bloom if reader is not None else None
        rows = with_file_name(rows, name)
        body = encode_base_file(rows, task.table_name, task.settings, old_bloom, fresh.column(RECORD_KEY), previous)
    else:
        body = encode_base_file(rows, task.table_name, task.settings, previous=previous)
    output = BaseFileOutput(task.storage, task.instant, task.partition_path, task.file_id, name, task.base)
    put_file(task, output.file(body), puts)
    facts = statistics_of_base(output.path, body, task.stored, task.wanted, rows=rows, added=added, removed=removed)
    stat = output.stat(rows.num_rows, body.size, inserted=plan.inserted, updated=plan.updated, deleted=plan.deleted)
    return replace(result, stat=stat, facts=facts)


def _changed_keys(task: BucketTask, incoming: pa.Table, plan: MergePlan) -> tuple[pa.Array, pa.Array]:
    """Return the keys that the write adds to the group, and those that it removes."""
    keys = column_of(incoming, RECORD_KEY)
    added, removed = keys.filter(pa.array(plan.is_new)), keys.filter(pa.array(plan.is_gone))
    # Keys of appended rows may repeat.
    return pc.unique(added) if task.operation is Operation.APPEND else added, removed


def _heads(task: BucketTask, incoming: pa.Table, reader: BaseFileReader | None) -> pa.Table | None:
    """Return the base file's keys and needed ordering values, to decide about a rewrite."""
    if reader is None:
        return None
    if task.operation is Operation.APPEND:
        return pa.table({})  # an append carries over all rows
    keys = (RECORD_KEY,) if task.keys is None else task.keys.fields
    if task.operation is Operation.DELETE:
        return keyed(task, decode_columns(reader.read(keys), keys))
    # Nearly every upsert rewrites its bucket: one pass over the file, instead of one over its keys and one over the rest.
    names = [name for name in task.stored.names if name != FILE_NAME]
    by = [task.ordering] if task.ordering is not None and task.ordering in incoming.column_names else []
    heads = decode_columns(reader.read(names), [*keys, *by])
    for name in by:  # compared with incoming values: in the table's present type, as they are
        if name in heads.column_names:
            field = pa.schema([task.schema.field(name)])
            heads = heads.set_column(heads.schema.get_field_index(name), name, conform(heads, field, reader.path)[name])
    return keyed(task, heads)


def keyed(task: BucketTask, rows: pa.Table) -> pa.Table:
    """Return rows of the base file with their record keys: stored, or made of their fields."""
    if task.keys is None or task.base is None:
        return rows
    # In the table's present types: a key's text depends on the unit of a timestamp.
    fields = pa.schema([task.schema.field(name) for name in task.keys.fields])
    return rows.append_column(RECORD_KEY, record_keys(conform(rows, fields, task.base.path), task.keys))


def _resolve(task: BucketTask, incoming: pa.Table, heads: pa.Table | None) -> tuple[pa.Table, MergePlan]:
    """Return the newest row of each incoming key, and the plan of merging them."""
    if task.operation is Operation.APPEND:
        deletes = optional_column(incoming, IS_DELETED if IS_DELETED in incoming.column_names else None)
        return incoming, plan_append(incoming.num_rows, deletes)
    ordering = task.ordering if task.ordering in incoming.column_names else None
    winners = combine(column_of(incoming, RECORD_KEY), optional_column(incoming, ordering), task.mode)
    if len(winners) < incoming.num_rows:
        incoming = picked(incoming, winners)
    if task.operation is Operation.DELETE:
        # A delete by key has no event time: it removes any row of the key.
        deletes, ordering = pa.repeat(True, incoming.num_rows), None
    else:
        deletes = optional_column(incoming, IS_DELETED if IS_DELETED in incoming.column_names else None)
    if heads is None:
        base_keys, base_ordering = pa.array([], pa.string()), None
    else:
        base_keys = heads.column(RECORD_KEY)
        base_ordering = heads.column(ordering) if ordering in heads.column_names else None
    keys = column_of(incoming, RECORD_KEY)
    return incoming, plan_merge(base_keys, base_ordering, keys, optional_column(incoming, ordering), deletes, task.mode)


def fresh_rows(task: BucketTask, rows: pa.Table, file_name: str) -> pa.Table:
    """Return incoming rows as they are stored.

    In log files `file_name` is the group's id (docs/format §6.1).
    """
    if rows.num_rows == 0:
        return task.stored.empty_table()
    plain = conform(rows.drop_columns([RECORD_KEY]), task.schema, "the input").cast(task.schema)
    if task.keys is not None:
        return plain
    return add_meta_columns(
        plain,
        keys=column_of(rows, RECORD_KEY),
        partition_path=task.partition_path,
        instant=task.instant,
        file_name=file_name,
        seqno_prefix=f"{task.instant}_{group_hash(task.partition_path, task.bucket)}_",
    )


def _carried_rows(
    task: BucketTask, plan: MergePlan, reader: BaseFileReader | None, heads: pa.Table | None
) -> pa.Table | None:
    """Return the base rows that stay, `_hoodie_file_name` null; `heads` are not read again."""
    if reader is None or heads is None or task.base is None:
        return None
    held, stored = set(heads.column_names), task.stored
    missing = [name for name in stored.names if name != FILE_NAME and name not in held]
    rows = heads
    if not set(missing).isdisjoint(reader.schema.names):
        rest = reader.read(missing)
        rows = pa.table([*rest.columns, *heads.columns], names=[*rest.column_names, *heads.column_names])
    rows = conform(rows, stored, task.base.path)
    return rows if plan.keep_base is None else rows.filter(pa.array(plan.keep_base))


def put_file(task: BucketTask, file: NewFile, puts: FilePuts | None) -> None:
    """Add the task's file to those that are put in groups; without them put it at once."""
    if puts is not None:
        puts.add(file)
    else:
        put_files(task.storage, task.instant, [file])


def column_of(rows: pa.Table, column: str) -> pa.Array:
    """Return a column in one piece."""
    combined = rows.column(column).combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def optional_column(rows: pa.Table, column: str | None) -> pa.Array | None:
    """Return a column in one piece; None without a name."""
    return column_of(rows, column) if column is not None else None

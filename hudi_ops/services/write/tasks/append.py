"""Second task of an ingest into merge-on-read tables: add a log file to a file group.

The base file is not read, and new rows are not told from updates: readers merge by key. So the cost depends on the batch, not on
the table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import IS_DELETED, RECORD_KEY
from hudi_ops.errors import Conflict, Internal, NotFound
from hudi_ops.files.base.base_file import BaseFileReader, stored_avro_schema
from hudi_ops.files.log.entries import entries_as_written
from hudi_ops.files.log.log_file import dictionaries_of, encode_log_file
from hudi_ops.files.names import data_path, log_file_name
from hudi_ops.files.new_files import FilePuts, NewFile
from hudi_ops.files.statistics.collect import statistics_of_log
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.keys.hashing import group_hash
from hudi_ops.kernels.merging.log_merge import LogEntries
from hudi_ops.kernels.merging.merge import Operation, Ordering, combine
from hudi_ops.services.write.dual.child_logs import write_children
from hudi_ops.services.write.tasks.duplicates import first_known
from hudi_ops.services.write.tasks.merge import (
    BucketResult,
    BucketTask,
    column_of,
    fresh_rows,
    merge_and_write,
    optional_column,
    put_file,
)
from hudi_ops.sources.runs import concat_tables, picked
from hudi_ops.timeline.content.commit_metadata import WriteStat

_DECIMAL_PLACES = 15
"""Digits on either side of the point of a decimal in a DELETE block."""

FIRST_VERSION = 1
"""Version of each log file: a writer appends to no file, so each one is the first of its instant (docs/format §6.1)."""


def write_bucket(task: BucketTask, tables: list[pa.Table], puts: FilePuts | None = None) -> BucketResult:
    """Write a log file if the group exists in a merge-on-read table, else a base file.

    With `puts` the file is added to them; it need not exist before they are flushed.

    Raises:
        Conflict: another writer inserted a key of an insert, or a base file is gone.
    """
    return (append_and_write if task.is_appended else merge_and_write)(task, tables, puts)


def append_and_write(task: BucketTask, tables: list[pa.Table], puts: FilePuts | None = None) -> BucketResult:
    """Write a bucket's incoming rows and deletes as a log file of its group, marker first.

    Of rows with one key only the newest by the table's merge mode is written.

    Raises:
        Conflict: another writer inserted a key of an insert, or a file of the group is gone.

    Source: docs/format §6.1, §11.1.
    """
    try:
        return _append_and_write(task, concat_tables(tables), puts)
    except NotFound as error:
        raise Conflict(
            f"a file of the group vanished while it was read: {error.what}",
            instant=task.instant,
            expected=task.file_id,
            next_step="run the same call again; a cleaner or a restore removed the file",
        ) from error


def _append_and_write(task: BucketTask, incoming: pa.Table, puts: FilePuts | None) -> BucketResult:
    if task.operation is Operation.DELETE and _is_surely_absent(task, incoming):
        return BucketResult(None, 0, 0, 0, 0)
    if task.operation is Operation.INSERT and first_known(task, column_of(incoming, RECORD_KEY)) is not None:
        raise Conflict(
            "another writer inserted one of these keys meanwhile",
            instant=task.instant,
            expected="keys that the table does not have",
            next_step="run the same call again: it names the key, or succeeds",
        )
    rows, deletes = _resolved(task, incoming)
    count, removed = rows.num_rows, len(deletes.keys) if deletes is not None else 0
    name = log_file_name(
        task.file_id, task.instant, FIRST_VERSION, f"{group_hash(task.partition_path, task.bucket)}-{task.epoch}-0"
    )
    data = fresh_rows(task, rows, task.file_id) if count else None
    gone = [deletes] if deletes is not None else []
    schema = stored_avro_schema(task.schema, task.table_name, task.keys is None)
    dictionaries = dictionaries_of(data, task.settings) if data is not None else []
    body = encode_log_file(
        data,
        gone,
        instant=task.instant,
        partition_path=task.partition_path,
        avro_schema=schema,
        data_format=task.log_format or "parquet",
        settings=task.settings,
        dictionaries=dictionaries,
    )
    path = data_path(task.partition_path, name)
    put_file(task, NewFile(path, body), puts)
    known_new = count if task.operation is Operation.INSERT else 0
    result = BucketResult(None, known_new, 0, 0, 0, logged=count + removed - known_new)
    entries = _entries(task, data, column_of(rows, RECORD_KEY), deletes) if task.wanted.keys else []
    facts = statistics_of_log(path, body, task.stored, task.wanted, data, entries)
    keys = column_of(rows, RECORD_KEY)
    stored = data if data is not None else task.stored.empty_table()
    made = [write_children(each, stored, keys, gone, schema, dictionaries) for each in task.children]
    children = tuple(log for logs in made for log in logs)
    return replace(result, stat=_stat(task, path, count, removed, body.size), facts=facts, children=children)


def _entries(task: BucketTask, data: pa.Table | None, keys: pa.Array, deletes: Deletes | None) -> list[LogEntries]:
    """Return the entries that readers will get from the file.

    Raises:
        Internal: the task has no merge rules.
    """
    if task.merging is None:
        raise Internal("A log file was written without rules of merging", found=task.file_id)
    rules = task.merging[0]
    return entries_as_written(data.select(rules.of_log.names) if data is not None else None, keys, deletes, rules)


def _is_surely_absent(task: BucketTask, incoming: pa.Table) -> bool:
    """Return whether the base file's footer excludes all deleted keys, and no log files exist."""
    if task.logs or task.base is None:
        return False
    return not BaseFileReader(task.storage, task.base.path).might_hold(incoming.column(RECORD_KEY))


def _resolved(task: BucketTask, incoming: pa.Table) -> tuple[pa.Table, Deletes | None]:
    """Return one row or delete of each key, for the data block and the DELETE block.

    A delete by event time whose ordering value readers would read differently stays a row that is marked as deleted.
    """
    ordering = task.ordering if task.ordering in incoming.column_names else None
    winners = combine(column_of(incoming, RECORD_KEY), optional_column(incoming, ordering), task.mode)
    if len(winners) < incoming.num_rows:
        incoming = picked(incoming, winners)
    if task.operation is Operation.DELETE:
        # A delete by key has no event time: it removes any row of the key.
        return incoming.slice(0, 0), Deletes(column_of(incoming, RECORD_KEY), None)
    if IS_DELETED not in incoming.column_names:
        return incoming, None
    flags = np.asarray(pc.fill_null(column_of(incoming, IS_DELETED), False), bool)
    if not flags.any():
        return incoming, None
    is_ordered = task.mode is Ordering.EVENT_TIME and ordering is not None
    if is_ordered and not _is_carried(incoming.schema.field(ordering).type):
        return incoming, None
    gone = picked(incoming, pa.array(np.flatnonzero(flags)))
    by = optional_column(gone, ordering) if is_ordered else None
    if by is not None and pa.types.is_timestamp(by.type):
        by = by.cast(pa.int64())  # like Apache Hudi, which fails on the Avro branch for timestamps
    return picked(incoming, pa.array(np.flatnonzero(~flags))), Deletes(column_of(gone, RECORD_KEY), by)


def _is_carried(kind: pa.DataType) -> bool:
    """Return whether DELETE blocks can hold ordering values of a type (docs/format §6.9)."""
    if pa.types.is_decimal(kind):
        return bool(kind.scale <= _DECIMAL_PLACES and kind.precision - kind.scale <= _DECIMAL_PLACES)
    return kind in {pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")}


def _stat(task: BucketTask, path: str, rows: int, deletes: int, size_bytes: int) -> WriteStat:
    """Return write statistics; each row of a log file counts as an update (docs/format §3.1)."""
    return WriteStat(
        file_id=task.file_id,
        path=path,
        partition_path=task.partition_path,
        prev_commit=task.instant,
        base_file="",
        log_files=(path.rpartition("/")[2],),
        num_writes=rows,
        num_update_writes=rows,
        num_deletes=deletes,
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
        other={"logVersion": FIRST_VERSION, "logOffset": 0},
    )

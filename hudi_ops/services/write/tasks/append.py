"""The second task of an ingest into merge-on-read tables: a file group that exists gets a log file, and its base file is not read.

Which of the rows are new nobody looks up: whoever reads the group merges by key. So a batch costs what it holds, not what the
table holds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.concurrency.markers import put_marker
from hudi_ops.config.columns import IS_DELETED, RECORD_KEY
from hudi_ops.errors import Conflict, Internal, NotFound
from hudi_ops.files.base.base_file import BaseFileReader, stored_avro_schema
from hudi_ops.files.log.entries import entries_as_written
from hudi_ops.files.log.log_file import encode_log_file
from hudi_ops.files.names import data_path, log_file_name
from hudi_ops.files.statistics.collect import statistics_of_log
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.keys.hashing import group_hash
from hudi_ops.kernels.merging.log_merge import LogEntries
from hudi_ops.kernels.merging.merge import Operation, Ordering, combine
from hudi_ops.services.write.tasks.duplicates import first_known
from hudi_ops.services.write.tasks.merge import (
    BucketResult,
    BucketTask,
    column_of,
    fresh_rows,
    merge_and_write,
    optional_column,
)
from hudi_ops.sources.runs import concat_tables, picked
from hudi_ops.timeline.content.commit_metadata import WriteStat

_DECIMAL_PLACES = 15
"""Places on either side of the point that a decimal in a DELETE block has."""

FIRST_VERSION = 1
"""Each writer has log files of its own, so that every one is the first of its instant (docs/format.md §6.1)."""


def write_bucket(task: BucketTask, tables: list[pa.Table]) -> BucketResult:
    """Second task of every ingest: a log file where the group exists and the table is merge-on-read, else a base file.

    Raises:
        Conflict: an insert meets a key that was not there when it was checked, or a base file is gone.
    """
    return append_and_write(task, tables) if task.is_appended else merge_and_write(task, tables)


def append_and_write(task: BucketTask, tables: list[pa.Table]) -> BucketResult:
    """Write a bucket's incoming rows and deletes as a log file of its group, marker first.

    Of rows with one key only the newest is written, as the table's merge mode has it.

    Raises:
        Conflict: an insert meets a key that was not there when it was checked, or a file of the group is gone.

    Source: docs/format.md §6.1, §11.1.
    """
    try:
        return _append_and_write(task, concat_tables(tables))
    except NotFound as error:
        raise Conflict(
            f"a file of the group vanished while it was looked into: {error.what}",
            instant=task.instant,
            expected=task.file_id,
            next_step="run the same call again; somebody cleaned or restored the table meanwhile",
        ) from error


def _append_and_write(task: BucketTask, incoming: pa.Table) -> BucketResult:
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
    body = encode_log_file(
        data,
        [deletes] if deletes is not None else [],
        instant=task.instant,
        partition_path=task.partition_path,
        avro_schema=stored_avro_schema(task.schema, task.table_name, task.keys is None),
        data_format=task.log_format or "parquet",
        settings=task.settings,
    )
    path = data_path(task.partition_path, name)
    put_marker(task.storage, task.instant, path, replaces=False)
    task.storage.put(path, body)
    known_new = count if task.operation is Operation.INSERT else 0
    result = BucketResult(None, known_new, 0, 0, 0, logged=count + removed - known_new)
    entries = _entries(task, data, column_of(rows, RECORD_KEY), deletes) if task.wanted.keys else []
    facts = statistics_of_log(path, body, task.stored, task.wanted, data, entries)
    return replace(result, stat=_stat(task, path, count, removed, body.size), facts=facts)


def _entries(task: BucketTask, data: pa.Table | None, keys: pa.Array, deletes: Deletes | None) -> list[LogEntries]:
    """What the file will be read as.

    Raises:
        Internal: the task does not say how.
    """
    if task.merging is None:
        raise Internal("A log file was written without rules of merging", found=task.file_id)
    rules = task.merging[0]
    return entries_as_written(data.select(rules.of_log.names) if data is not None else None, keys, deletes, rules)


def _is_surely_absent(task: BucketTask, incoming: pa.Table) -> bool:
    """Whether no key of a delete can be in the group: what its base file's footer rules out, where there are no log files."""
    if task.logs or task.base is None:
        return False
    return not BaseFileReader(task.storage, task.base.path).might_hold(incoming.column(RECORD_KEY))


def _resolved(task: BucketTask, incoming: pa.Table) -> tuple[pa.Table, Deletes | None]:
    """One row or delete of each key: the rows for the data block, and the deletes for the block after it.

    A delete by event time whose ordering value readers would take for different things stays a row that is marked as deleted.
    """
    ordering = task.ordering if task.ordering in incoming.column_names else None
    winners = combine(column_of(incoming, RECORD_KEY), optional_column(incoming, ordering), task.mode)
    if len(winners) < incoming.num_rows:
        incoming = picked(incoming, winners)
    if task.operation is Operation.DELETE:
        # A delete by key says nothing of event time: it removes whatever is there.
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
        by = by.cast(pa.int64())  # as Apache Hudi writes it, which fails on the branch for timestamps
    return picked(incoming, pa.array(np.flatnonzero(~flags))), Deletes(column_of(gone, RECORD_KEY), by)


def _is_carried(kind: pa.DataType) -> bool:
    """Whether every reader compares ordering values of a type in a DELETE block as those of rows (docs/format.md §6.9)."""
    if pa.types.is_decimal(kind):
        return bool(kind.scale <= _DECIMAL_PLACES and kind.precision - kind.scale <= _DECIMAL_PLACES)
    return kind in {pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")}


def _stat(task: BucketTask, path: str, rows: int, deletes: int, size_bytes: int) -> WriteStat:
    """As Apache Hudi fills it: every row of a log file counts as an update (docs/format.md §3.1)."""
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

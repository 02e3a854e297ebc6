"""The second tasks of an ingest, run by any engine: look for keys that are there, merge and write a bucket.

They run on executors: everything they need comes in their input, and what they made goes back as a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from hudi_ops.concurrency.markers import put_marker
from hudi_ops.config.columns import FILE_NAME, IS_DELETED, RECORD_KEY
from hudi_ops.errors import Conflict, NotFound
from hudi_ops.files.base_file import BaseFileReader, WriterSettings, conform, encode_base_file, with_meta
from hudi_ops.files.names import base_file_name, data_path
from hudi_ops.files.repeated_columns import concat_rows, decoded
from hudi_ops.files.runs import joined
from hudi_ops.formats import partition_metadata
from hudi_ops.kernels.hashing import group_hash
from hudi_ops.kernels.merge import MergePlan, Operation, Ordering, combine, existing, plan_merge
from hudi_ops.kernels.meta_columns import add_meta_columns, with_file_name
from hudi_ops.services.tag_tasks import chunk_key
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.commit_metadata import WriteStat
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.view.file_group import DataFile


@dataclass(frozen=True)
class BucketTask:
    """One bucket to merge and write.

    `base` is its visible base file, None for its first; `file_id` names the group that is written.
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

    @property
    def key(self) -> str:
        """Key of the chunks that this bucket's rows come in."""
        return chunk_key(self.partition_path, self.bucket)


@dataclass(frozen=True)
class BucketResult:
    """What a bucket's task did; `stat` is None when nothing had to be written."""

    stat: WriteStat | None
    inserted: int
    updated: int
    deleted: int
    ignored: int


def find_duplicates(task: BucketTask, tables: Sequence[pa.Table]) -> str | None:
    """A record key that an insert must not write: the bucket has it, or the rows hold it twice. None when all are new."""
    keys = pa.concat_tables(tables).column(RECORD_KEY).combine_chunks()
    winners = combine(keys, None, Ordering.COMMIT_TIME)
    if len(winners) < len(keys):
        twice = np.setdiff1d(np.arange(len(keys)), winners.to_numpy())
        return str(keys[int(twice[0])])
    if task.base is None:
        return None
    known = existing(BaseFileReader(task.storage, task.base.path).read([RECORD_KEY]).column(RECORD_KEY), keys)
    return str(keys[int(np.flatnonzero(known)[0])]) if known.any() else None


def merge_and_write(task: BucketTask, tables: list[pa.Table]) -> BucketResult:
    """Second task: merge a bucket's incoming rows into its base file and write the next one, marker first.

    Raises:
        Conflict: an insert meets a key that was not there when it was checked, or the base file is gone.
    """
    try:
        return _merge_and_write(task, tables)
    except NotFound as error:
        raise Conflict(
            f"a base file vanished while it was rewritten: {error.what}",
            instant=task.instant,
            expected=task.base.path if task.base is not None else "",
            next_step="run the same call again; somebody cleaned or restored the table meanwhile",
        ) from error


def _merge_and_write(task: BucketTask, tables: list[pa.Table]) -> BucketResult:
    incoming = joined(tables)
    reader = BaseFileReader(task.storage, task.base.path, keep_encoded=True) if task.base is not None else None
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
    name = base_file_name(task.file_id, group_hash(task.partition_path, task.bucket), task.epoch, task.instant)
    if len(plan.take_incoming) < incoming.num_rows:
        incoming = incoming.take(pa.array(plan.take_incoming))
    fresh = _fresh_rows(task, incoming, name)
    del incoming
    carried = _carried_rows(task, plan, reader, heads)
    rows = with_file_name(fresh if carried is None else concat_rows(carried, fresh), name)
    old_bloom = reader.footer.bloom if reader is not None else None
    body = encode_base_file(rows, task.table_name, task.settings, old_bloom, fresh.column(RECORD_KEY))
    path = data_path(task.partition_path, name)
    put_marker(task.storage, task.instant, path, replaces=task.base is not None)
    _put_partition_metadata(task)
    task.storage.put(path, body)
    return replace(result, stat=_stat(task, path, plan, rows.num_rows, body.size))


def _heads(task: BucketTask, incoming: pa.Table, reader: BaseFileReader | None) -> pa.Table | None:
    """The base's keys and, where they decide, its ordering values: enough to tell whether it has to be rewritten."""
    if reader is None:
        return None
    by_ordering = task.operation is not Operation.DELETE and task.ordering in incoming.column_names
    return decoded(reader.read([RECORD_KEY, *([task.ordering] if task.ordering and by_ordering else [])]))


def _resolve(task: BucketTask, incoming: pa.Table, heads: pa.Table | None) -> tuple[pa.Table, MergePlan]:
    """One winner per incoming key, and what it does to the base."""
    ordering = task.ordering if task.ordering in incoming.column_names else None
    winners = combine(_array(incoming, RECORD_KEY), _array(incoming, ordering), task.mode)
    if len(winners) < incoming.num_rows:
        incoming = incoming.take(winners)
    if task.operation is Operation.DELETE:
        # A delete by key says nothing of event time: it removes whatever is there.
        deletes, ordering = pa.repeat(True, incoming.num_rows), None
    else:
        deletes = _array(incoming, IS_DELETED if IS_DELETED in incoming.column_names else None)
    if heads is None:
        base_keys, base_ordering = pa.array([], pa.string()), None
    else:
        base_keys = heads.column(RECORD_KEY)
        base_ordering = heads.column(ordering) if ordering in heads.column_names else None
    keys = _array(incoming, RECORD_KEY)
    return incoming, plan_merge(base_keys, base_ordering, keys, _array(incoming, ordering), deletes, task.mode)


def _fresh_rows(task: BucketTask, rows: pa.Table, name: str) -> pa.Table:
    number = group_hash(task.partition_path, task.bucket)
    if rows.num_rows == 0:
        return with_meta(task.schema).empty_table()
    with_keys = add_meta_columns(
        conform(rows.drop_columns([RECORD_KEY]), task.schema, "the rows given"),
        keys=_array(rows, RECORD_KEY),
        partition_path=task.partition_path,
        instant=task.instant,
        file_name=name,
        seqno_prefix=f"{task.instant}_{number}_",
    )
    return with_keys.cast(with_meta(task.schema))


def _carried_rows(
    task: BucketTask, plan: MergePlan, reader: BaseFileReader | None, heads: pa.Table | None
) -> pa.Table | None:
    """The base rows that stay, `_hoodie_file_name` null; what was read to decide is not read again."""
    if reader is None or heads is None or task.base is None:
        return None
    schema = with_meta(task.schema)
    rows = reader.read([name for name in schema.names if name != FILE_NAME and name not in heads.column_names])
    for name in heads.column_names:
        rows = rows.append_column(name, heads.column(name))
    rows = conform(rows, schema, task.base.path)
    return rows if plan.keep_base is None else rows.filter(pa.array(plan.keep_base))


def _put_partition_metadata(task: BucketTask) -> None:
    depth = len(task.partition_path.split("/")) if task.partition_path else 0
    body = partition_metadata.dumps(task.instant, depth, ms_of_instant(task.instant))
    path = data_path(task.partition_path, partition_metadata.FILE_NAME)
    if task.storage.head(path) is None:
        # Another bucket of the partition may be first: any writer's file will do.
        ensure(task.storage, path, body)


def _stat(task: BucketTask, path: str, plan: MergePlan, rows: int, size_bytes: int) -> WriteStat:
    return WriteStat(
        file_id=task.file_id,
        path=path,
        partition_path=task.partition_path,
        prev_commit=task.base.instant if task.base is not None else "null",
        prev_base_file=task.base.name if task.base is not None else None,
        num_writes=rows,
        num_inserts=plan.inserted,
        num_update_writes=plan.updated,
        num_deletes=plan.deleted,
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
    )


def _array(rows: pa.Table, column: str | None) -> pa.Array | None:
    if column is None:
        return None
    combined = rows.column(column).combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined

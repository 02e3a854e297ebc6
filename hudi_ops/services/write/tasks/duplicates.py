"""Find keys that a file group has already, before an insert begins and when it writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask
from hudi_ops.kernels.merging.merge import Ordering, combine, existing
from hudi_ops.services.write.tasks.merge import BucketTask, keyed


def find_duplicates(task: BucketTask, tables: Sequence[pa.Table]) -> str | None:
    """Return a record key that the bucket has or the rows hold twice; None when all are new."""
    keys = pa.concat_tables(tables).column(RECORD_KEY).combine_chunks()
    winners = combine(keys, None, Ordering.COMMIT_TIME)
    if len(winners) < len(keys):
        twice = np.setdiff1d(np.arange(len(keys)), winners.to_numpy())
        return str(keys[int(twice[0])])
    return first_known(task, keys)


def refuse_duplicate(table: str, key: str, where: str) -> NoReturn:
    """Refuse an insert of a key that exists in `where`.

    Raises:
        InvalidRequest: always.
    """
    raise InvalidRequest(
        f"an insert would write key {key} twice",
        table=table,
        expected="keys that the table does not have, each once",
        found=f"{key} in {where}",
        next_step="use --operation upsert to replace rows that exist",
        record_key=key,
    )


def first_known(task: BucketTask, keys: pa.Array) -> str | None:
    """Return the first record key that the group has, log files merged; None without any."""
    if task.base is None and not task.logs:
        return None
    known = existing(_held(task), keys)
    return str(keys[int(np.flatnonzero(known)[0])]) if known.any() else None


def _held(task: BucketTask) -> pa.ChunkedArray:
    """Return the record keys of the group's rows.

    Raises:
        Internal: there are log files, and the task has no merge rules.
    """
    names = (RECORD_KEY,) if task.keys is None else task.keys.fields
    if task.base is not None and not task.logs:
        return keyed(task, BaseFileReader(task.storage, task.base.path).read(names)).column(RECORD_KEY)
    if task.merging is None:
        raise Internal("the group has log files, and the task has no rules to merge them", table=task.table_name)
    scan = SliceScan(SliceTask.of(task.storage, task, *task.merging))
    return pa.chunked_array(task.merging[0].keys_of(scan.table()))

"""Run the tasks of an ingest's file groups in this process, and put their files in groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_ops.engine.progress import Tally, TellProgress
from hudi_ops.files.new_files import GROUPED_FROM, FilePuts
from hudi_ops.services.write.tasks.append import write_bucket
from hudi_ops.services.write.tasks.merge import BucketResult, BucketTask

GroupWrite: TypeAlias = Callable[[BucketTask, list[pa.Table]], BucketResult]
"""Writes the rows of one file group."""


def write_groups(
    gather: Callable[[GroupWrite, Sequence[tuple[str, BucketTask]]], list[BucketResult]],
    tasks: Sequence[BucketTask],
    watched: Callable[[GroupWrite], Any],
    check: Callable[[], None],
    progress: TellProgress | None,
) -> list[BucketResult]:
    """Write the file groups; their files are durable when it returns.

    Args:
        gather: runs a task with the rows of its group, for each of them.
        watched: wraps the task of a group in a look for conflicts.
        check: ends work that has been cancelled.
        progress: is called after each file group.

    Raises:
        Conflict: another writer inserted a key of an insert, or a file of a group is gone.
    """
    puts = FilePuts(tasks[0].storage, tasks[0].instant) if len(tasks) >= GROUPED_FROM else None
    tally = Tally(progress, "file groups", len(tasks)) if progress is not None else None

    def write(task: BucketTask, rows: list[pa.Table]) -> BucketResult:
        result = write_bucket(task, rows, puts)
        if tally is not None:
            tally.add()
        return result

    results = gather(watched(write), [(task.key, task) for task in tasks])
    if puts is not None:
        check()
        puts.flush()
    return results

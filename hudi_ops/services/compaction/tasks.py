"""Merge one slice and write the next base file of its group: the task of a compaction.

A task runs on any engine. Its input holds everything that it needs, and its result goes back as a value. Name and bytes of the file
follow from the input, so every attempt of a task writes the same file.

Source: docs/format §3.1, §6.2, §9.2; docs/protocol §17.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.writer import NOTHING_REPLACED, ReplacedFile
from hudi_ops.files.slice.slice_scan import MergeCounts, SliceScan, SliceTask
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.services.base.cost import COPIES, FOLDED_MAX, memory_of
from hudi_ops.services.rewrite.task import RewriteTask, RewrittenGroup
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.view.slices import Slice


@dataclass(frozen=True, kw_only=True)
class CompactTask(RewriteTask):
    """One slice to merge; picklable.

    A merge moves no keys, so they are not among the wanted statistics.
    """

    @property
    def source(self) -> Slice:
        """Return the slice that is merged."""
        return self.sources[0]

    @property
    def output(self) -> BaseFileOutput:
        """Return the base file that is written."""
        return self.new_file(self.source.file_id, 0, self.source.base)


def compact_slice(task: CompactTask) -> RewrittenGroup:
    """Merge a slice and write the next base file of its group, without deleted rows.

    Raises:
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small for a slice that is larger than memory.
    """
    streaming = exceeds_memory(task)
    scan = SliceScan(
        SliceTask.of(task.storage, task.source, *task.merging, task.scanned),
        streaming=streaming,
        limits=task.limits,
    )
    path = task.output.path
    if not streaming:
        rows = task.output.named(scan.table(), task.stored)
        body = task.encoded(rows, task.source.base, _brought(scan.counts))
        task.output.put(body)
        facts = statistics_of_base(path, body, task.stored, task.wanted, rows=rows)
        files = [(_stat(task, rows.num_rows, body.size, scan.counts), facts)]
        return RewrittenGroup.of(files, scan.counts, streamed=False)
    counts, count = scan.counts, scan.count()
    with task.writer(count, _replaced(scan, count - _brought(counts))) as writer:
        task.refuse_small_limit(writer.filter_bytes)
        for batch in scan.batches():
            writer.write(task.output.named(pa.Table.from_batches([batch]), task.stored))
        del scan  # its footer holds the filter of the file
        body = writer.finish()
        task.output.put(writer.view)
        facts = statistics_of_base(path, body, task.stored, task.wanted)
        files = [(_stat(task, writer.rows, body.size, counts), facts)]
        return RewrittenGroup.of(files, counts, streamed=True)


def _replaced(scan: SliceScan, known_keys: int) -> ReplacedFile:
    return NOTHING_REPLACED if scan.base is None else ReplacedFile(scan.base.bloom, known_keys, scan.base.parquet)


def exceeds_memory(task: CompactTask) -> bool:
    """Return whether a slice exceeds the memory limit by its file sizes, or by its rows.

    Repeated values compress well. The first rows of the base file decide, so every attempt gets the same answer. They are read
    only where the limit is near.
    """
    base, expected = task.source.base, memory_of(task.bytes_in)
    if expected > task.memory_bytes:
        return True
    if base is None or FOLDED_MAX * expected <= task.memory_bytes:
        return False
    return BaseFileReader(task.storage, base.path).unfolded_bytes(task.scanned.names) * COPIES > task.memory_bytes


def _brought(counts: MergeCounts) -> int:
    """Return the number of rows from log records: the last rows of the new base file."""
    return counts.updated + counts.inserted


def _stat(task: CompactTask, rows: int, size_bytes: int, counts: MergeCounts) -> WriteStat:
    other: dict[str, Any] = {
        "totalLogFilesCompacted": len(task.source.logs),
        "totalLogSizeCompacted": task.source.log_bytes,
        "totalLogBlocks": counts.log_blocks,
        "totalCorruptLogBlock": counts.corrupt_blocks,
        "totalLogRecords": counts.log_records,
        # Apache Hudi counts all keys in the log files, also those that lost.
        "totalUpdatedRecordsCompacted": counts.updated + counts.deleted + counts.inserted + counts.ignored,
        "numUpdates": 0,
    }
    return task.output.stat(
        rows, size_bytes, inserted=counts.inserted, updated=counts.updated, deleted=counts.deleted, other=other
    )

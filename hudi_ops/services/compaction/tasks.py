"""Merge one slice and write the next base file of its group: the task of a compaction.

A task runs on any engine. Its input holds everything that it needs, and its result goes back as a value. Name and bytes of the file
follow from the input, so every attempt of a task writes the same file.

Source: docs/format.md §3.1, §6.2, §9.2; docs/protocol.md §17.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.config.columns import FILE_NAME, RECORD_KEY
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, encode_base_file, stored_schema
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.writer import ROW_GROUP_BYTES, BaseFileWriter, ReplacedFile
from hudi_ops.files.names import base_file_name
from hudi_ops.files.slice.slice_scan import MergeCounts, SliceScan, SliceTask
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.services.base.cost import COPIES, FOLDED_MAX, memory_of
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.base.service import Run
from hudi_ops.services.compaction.inputs import PlanInputs, SliceInput
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.content.plans import CompactionPlan
from hudi_ops.view.schema import table_schema

GROUPS_IN_MEMORY = 8
"""Memory of a streamed slice, as a multiple of its row group: read, held, encoded and filtered at a time."""


@dataclass(frozen=True)
class CompactTask:
    """One slice to merge.

    `stored` are the columns of base files; `memory_bytes` limits the memory of a streamed slice. `streaming` follows from file
    sizes; where rows need more memory than these suggest, the task decides to stream, equally in each attempt. `wanted` are the
    statistics for the metadata table; keys are not among them, since a merge moves none.
    """

    storage: Storage
    table_name: str
    scan: SliceTask
    stored: pa.Schema
    source: SliceInput
    instant: str
    epoch: int
    streaming: bool
    memory_bytes: int
    settings: WriterSettings = field(default_factory=WriterSettings)
    wanted: StatisticsRequest = NO_FACTS

    @property
    def bytes_in(self) -> int:
        """Return the bytes of the files that are read."""
        return self.source.bytes_in

    @property
    def output(self) -> BaseFileOutput:
        """Return the base file that is written."""
        source = self.source
        name = base_file_name(source.file_id, source.number, self.epoch, self.instant)
        return BaseFileOutput(self.storage, self.instant, *source.key, name, source.base)


@dataclass(frozen=True)
class CompactedSlice:
    """Result of a slice: write statistics of its base file, and counts of log records."""

    stat: WriteStat
    counts: MergeCounts
    streamed: bool
    facts: FileStatistics | None = None


def tasks_of(run: Run[CompactionPlan, PlanInputs, CompactTask, CompactedSlice]) -> list[CompactTask]:
    """Return one task for each slice, in the plan's order.

    Raises:
        Unsupported: the table's merge rule is not known.
    """
    session, state = run.session, run.attempt.begun
    schema = table_schema(state.config, state.timeline, session.commits)
    wanted = replace(wanted_facts(session, state, schema), keys=False)
    rules, instants = merging_of(state, schema)
    stored = stored_schema(schema, rules.keys is None)
    scanned = pa.schema([column for column in stored if column.name != FILE_NAME])
    return [
        CompactTask(
            storage=session.ctx.storage,
            table_name=state.config.name,
            scan=SliceTask.of(session.ctx.storage, slice_, rules, instants, scanned),
            stored=stored,
            source=slice_,
            instant=run.attempt.instant,
            epoch=run.attempt.epoch,
            streaming=memory_of(slice_.bytes_in) > run.task_bytes,
            memory_bytes=run.task_bytes,
            wanted=wanted,
        )
        for slice_ in run.inputs.slices
    ]


def compact_slice(task: CompactTask) -> CompactedSlice:
    """Merge a slice and write the next base file of its group, without deleted rows.

    Raises:
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small for a slice that is larger than memory.
    """
    streaming = task.streaming or unfolds_beyond(task)
    scan = SliceScan(task.scan, streaming=streaming)
    path = task.output.path
    if not streaming:
        rows = task.output.named(scan.table(), task.stored)
        body = _encoded(task, rows, scan.counts)
        task.output.put(body)
        facts = statistics_of_base(path, body, task.stored, task.wanted, rows=rows)
        return CompactedSlice(_stat(task, rows.num_rows, body.size, scan.counts), scan.counts, streaming, facts)
    replaced = ReplacedFile()
    if task.source.base is not None:
        previous = BaseFileReader(task.storage, task.source.base.path)
        replaced = ReplacedFile(previous.footer.bloom, scan.count() - _brought(scan.counts), previous.parquet)
    with BaseFileWriter(
        task.stored,
        task.table_name,
        task.settings,
        keys=scan.count(),
        replaced=replaced,
        row_group_bytes=min(ROW_GROUP_BYTES, max(1, task.memory_bytes // GROUPS_IN_MEMORY)),
    ) as writer:
        for batch in scan.batches():
            writer.write(task.output.named(pa.Table.from_batches([batch]), task.stored))
        body = writer.finish()
        task.output.put(body)
        facts = statistics_of_base(path, body, task.stored, task.wanted)
        return CompactedSlice(_stat(task, writer.rows, body.size, scan.counts), scan.counts, streaming, facts)


def unfolds_beyond(task: CompactTask) -> bool:
    """Return whether a slice exceeds the memory limit by its rows, not by its file sizes.

    Repeated values compress well. The first rows of the base file decide, so every attempt gets the same answer. They are read
    only where the limit is near.
    """
    base = task.source.base
    if base is None or FOLDED_MAX * memory_of(task.bytes_in) <= task.memory_bytes:
        return False
    return BaseFileReader(task.storage, base.path).unfolded_bytes(task.scan.columns) * COPIES > task.memory_bytes


def _brought(counts: MergeCounts) -> int:
    """Return the number of rows from log records: the last rows of the new base file."""
    return counts.updated + counts.inserted


def _encoded(task: CompactTask, rows: pa.Table, counts: MergeCounts) -> pa.Buffer:
    base = task.source.base
    reader = BaseFileReader(task.storage, base.path) if base is not None else None
    previous = reader.parquet if reader is not None else None
    if RECORD_KEY not in task.stored.names or reader is None or reader.footer.bloom is None:
        return encode_base_file(rows, task.table_name, task.settings, previous=previous)
    added = rows.column(RECORD_KEY).slice(rows.num_rows - _brought(counts))
    return encode_base_file(rows, task.table_name, task.settings, reader.footer.bloom, added, previous)


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

"""Merge the slices of a plan group and write their rows into its children, as a task.

A task runs on any engine. Its input holds everything that it needs, and its result goes back as a value. Names and bytes of the
files follow from the input, so every attempt of a task writes the same files.

Source: docs/format.md §6.2, §9.2, §10.3; docs/protocol.md §29.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.config.columns import FILE_NAME
from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import Corrupt, Internal
from hudi_ops.files.base.base_file import WriterSettings, encode_base_file
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import joined_rows
from hudi_ops.files.base.writer import ROW_GROUP_BYTES, BaseFileWriter
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts, SliceScan
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import RingEngine
from hudi_ops.index.resizes import RingChange, holders_of
from hudi_ops.services.base.rewrite.sources import Sources
from hudi_ops.services.resize.inputs import ChildRange
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.view.slices import Slice

WrittenFile: TypeAlias = tuple[WriteStat, FileStatistics | None]
"""Statistics of a written file: for the commit, and for the metadata table."""

Holders: TypeAlias = npt.NDArray[np.int16]
"""Number of the child that gets each row."""

_GROUPS_IN_MEMORY = 8
"""Memory of a streamed group, as a multiple of a row group: read, held, encoded and filtered at a time."""


@dataclass(frozen=True)
class ResizeTask:
    """One plan group to rewrite; picklable.

    Attributes:
        sources: slices of the parents, in the plan's order.
        merging: as `services.base.merging.merging_of` returns it.
        stored: columns of base files.
        children: the groups that get the rows, each with the hashes of its node.
        ring: instant of the ring that the plan changes, for errors.
        number: place of the first child in the plan; part of the file names.
        memory_bytes: memory that the task may take.
        wanted: statistics for the metadata table.
    """

    storage: Storage
    table_name: str
    change: RingChange
    sources: tuple[Slice, ...]
    merging: tuple[MergeRules, BlockInstants]
    stored: pa.Schema
    engine: RingEngine
    children: tuple[ChildRange, ...]
    ring: str
    instant: str
    epoch: int
    number: int
    memory_bytes: int
    settings: WriterSettings = field(default_factory=WriterSettings)
    wanted: StatisticsRequest = NO_FACTS

    @property
    def bytes_in(self) -> int:
        """Return the bytes of the files that are read."""
        return sum(source.bytes_in for source in self.sources)

    @property
    def reading(self) -> Sources:
        """Return how its slices are read: all columns but the file name."""
        scanned = pa.schema([column for column in self.stored if column.name != FILE_NAME])
        return Sources(self.storage, self.sources, self.merging, scanned)

    @property
    def partition_path(self) -> str:
        """Return the partition of its groups."""
        return self.change.partition_path

    def output(self, place: int) -> BaseFileOutput:
        """Return the base file of the child at a place."""
        file_id = self.children[place].file_id
        name = base_file_name(file_id, self.number + place, self.epoch, self.instant)
        return BaseFileOutput(self.storage, self.instant, self.partition_path, file_id, name, None)

    def holders(self, source: Slice, rows: pa.Table) -> Holders:
        """Return the child that gets each row of a slice.

        Raises:
            Corrupt: a row's hash is of none.
        """
        hashes = self.engine.hashes(joined([self.merging[0].keys_of(rows)], pa.string()))
        found = holders_of(hashes, [(child.before, child.value) for child in self.children])
        strange = hashes[found < 0]
        if len(strange):
            ranges = ", ".join(f"({child.before}, {child.value}]" for child in self.children)
            raise Corrupt(
                f"{len(strange)} rows of {self.partition_path}/{source.file_id} do not belong to this file group, "
                f"since their keys have other hashes, such as {strange[0]}",
                table=self.table_name,
                instant=self.instant,
                expected=f"hashes in {ranges}, as ring {self.ring} says",
                found=str(strange[0]),
                next_step="run `hudi-ops verify`; another writer of this table has another index, or a ring file was lost",
            )
        return found

    def written(self, output: BaseFileOutput, body: pa.Buffer, count: int, rows: pa.Table | None = None) -> WrittenFile:
        """Return the statistics of a file of `count` rows.

        With `rows`, its columns are not decoded again.
        """
        facts = statistics_of_base(output.path, body, self.stored, self.wanted, rows=rows)
        # As in a clustering of Apache Hudi, all rows count as inserted.
        return output.stat(count, body.size, inserted=count, updated=0, deleted=0), facts


@dataclass(frozen=True)
class ResizedGroup:
    """Result of a plan group: statistics of each child's base file, and counts of log records."""

    stats: tuple[WriteStat, ...]
    facts: tuple[FileStatistics, ...]
    counts: MergeCounts
    rows: int
    streamed: bool


def resize_group(task: ResizeTask) -> ResizedGroup:
    """Merge the slices of a plan group, and write a base file for each child, also without rows.

    Rows keep their meta columns, and the order in which they were. Deleted rows are left out.

    Raises:
        Corrupt: a file cannot be read, or a row belongs to none of the children.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small for a file that is larger than memory.
        Internal: rows were lost on the way.
    """
    streaming = task.reading.unfolded_bytes(task.memory_bytes) is not None
    files, counts = _streamed(task) if streaming else _rewritten(task)
    stats = tuple(stat for stat, _ in files)
    facts = tuple(found for _, found in files if found is not None)
    return ResizedGroup(stats, facts, counts, sum(stat.num_writes for stat in stats), streaming)


def _rewritten(task: ResizeTask) -> tuple[list[WrittenFile], MergeCounts]:
    """Rewrite a group whose rows fit into memory."""
    reading, counts = task.reading, NOTHING_MERGED
    parts: list[pa.Table] = [reading.schema.empty_table()]
    held: list[Holders] = []
    for source in task.sources:
        part, merged = reading.table(source)
        held.append(task.holders(source, part))
        parts.append(part)
        counts += merged
    rows, holders = joined_rows(parts[1:] or parts), _joined(held)
    parts.clear()
    files = []
    for place in range(len(task.children)):
        check_stop()
        output = task.output(place)
        taken = rows if len(task.children) == 1 else rows.filter(pa.array(holders == place))
        taken = output.named(taken, task.stored)
        body = encode_base_file(taken, task.table_name, task.settings)
        output.put(body)
        files.append(task.written(output, body, taken.num_rows, taken))
    return files, counts


def _streamed(task: ResizeTask) -> tuple[list[WrittenFile], MergeCounts]:
    """Rewrite a group in bounded memory: hash keys once, then read rows once for each child."""
    reading, counts = task.reading, NOTHING_MERGED
    held: list[Holders] = []
    for source in task.sources:
        scan = reading.scan(source, task.merging[0].key_columns)
        held += [task.holders(source, pa.Table.from_batches([batch])) for batch in scan.batches()]
        counts += scan.counts if isinstance(scan, SliceScan) else NOTHING_MERGED
    holders = _joined(held)
    return [_put_streamed(task, place, holders) for place in range(len(task.children))], counts


def _put_streamed(task: ResizeTask, place: int, holders: Holders) -> WrittenFile:
    output, count = task.output(place), int(np.count_nonzero(holders == place))
    with BaseFileWriter(
        task.stored,
        task.table_name,
        task.settings,
        keys=count,
        row_group_bytes=min(ROW_GROUP_BYTES, max(1, task.memory_bytes // _GROUPS_IN_MEMORY)),
    ) as writer:
        for rows in _rows_of(task, place, holders):
            writer.write(output.named(rows, task.stored))
        body = writer.finish()
        if writer.rows != count:
            raise Internal(
                f"rows of {task.table_name} were lost while a bucket was rewritten",
                instant=task.instant,
                expected=f"{count} rows for {output.path}",
                found=f"{writer.rows} rows",
            )
        output.put(body)
        return task.written(output, body, writer.rows)


def _rows_of(task: ResizeTask, place: int, holders: Holders) -> Iterator[pa.Table]:
    begin = 0
    reading = task.reading
    for piece in reading.pieces(reading.schema):
        wanted = holders[begin : begin + piece.num_rows] == place
        begin += piece.num_rows
        if wanted.any():
            yield piece if wanted.all() else piece.filter(pa.array(wanted))


def _joined(held: list[Holders]) -> Holders:
    return np.concatenate(held) if held else np.zeros(0, np.int16)

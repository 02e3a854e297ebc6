"""Merge the slices of a plan group and write their rows sorted: a task of clustering.

A task runs on any engine. Its input holds everything that it needs, and its result goes back as a value. Names and bytes of the
files follow from the input, so every attempt of a task writes the same files.

Source: docs/format.md §3.1, §6.2, §9.2; docs/protocol.md §17.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import FILE_NAME, RECORD_KEY
from hudi_ops.engine.stopping import check_stop
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, encode_base_file
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import joined_rows
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.kernels.sorting.cuts import ends_of_shares
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.sort import sort_indices
from hudi_ops.services.base.rewrite.sources import Sources
from hudi_ops.services.clustering.stream import stream_group
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

WrittenFile: TypeAlias = tuple[WriteStat, FileStatistics | None]
"""Statistics of a written file: for the commit, and for the metadata table."""

_BLOCKS = 64
"""Blocks of rows whose sizes are taken for each output, to find where it ends."""


@dataclass(frozen=True)
class ClusterTask:
    """One plan group to rewrite; picklable.

    Attributes:
        sources: slices of the group, in the plan's order.
        merging: as `services.base.merging.merging_of` returns it.
        stored: columns of base files.
        outputs: file ids of the new files. Rows are cut into that many of about equal bytes, in sort order.
        number: place of the first output in the plan; part of the file names.
        memory_bytes: memory that the task may take.
        previous: slice whose file id the one output keeps.
        wanted: statistics for the metadata table.
    """

    storage: Storage
    table_name: str
    partition_path: str
    sources: tuple[Slice, ...]
    merging: tuple[MergeRules, BlockInstants]
    stored: pa.Schema
    order: SortOrder
    outputs: tuple[str, ...]
    instant: str
    epoch: int
    number: int
    memory_bytes: int
    previous: Slice | None = None
    settings: WriterSettings = field(default_factory=WriterSettings)
    wanted: StatisticsRequest = NO_FACTS

    @property
    def bytes_in(self) -> int:
        """Return the bytes of the files that are read."""
        return sum(source.bytes_in for source in self.sources)

    @property
    def scanned(self) -> pa.Schema:
        """Return the columns that are read: all but the file name."""
        return pa.schema([column for column in self.stored if column.name != FILE_NAME])

    @property
    def reading(self) -> Sources:
        """Return how its slices are read."""
        return Sources(self.storage, self.sources, self.merging, self.scanned)

    @property
    def only_base(self) -> DataFile | None:
        """Return the base file whose rows, and no others, are those of the one output."""
        if len(self.outputs) > 1 or len(self.sources) != 1 or self.sources[0].logs:
            return None
        return self.sources[0].base

    def output(self, place: int) -> BaseFileOutput:
        """Return the base file at a place among the outputs."""
        file_id = self.outputs[place]
        name = base_file_name(file_id, self.number + place, self.epoch, self.instant)
        previous = self.previous.base if self.previous is not None else None
        return BaseFileOutput(self.storage, self.instant, self.partition_path, file_id, name, previous)

    def keys_brought(self, rows: pa.Table) -> pa.Array:
        """Return the record keys of rows for statistics, each once.

        There are none where they are not wanted or the file id stays.
        """
        if self.previous is not None or not self.wanted.keys:
            return pa.array([], pa.string())
        return pc.unique(joined([self.merging[0].keys_of(rows)], pa.string()))

    def written(
        self, output: BaseFileOutput, body: pa.Buffer, count: int, keys: pa.Array, rows: pa.Table | None = None
    ) -> WrittenFile:
        """Return the statistics of a file of `count` rows.

        With `rows`, its columns are not decoded again.
        """
        added, removed = (keys, keys.slice(0, 0)) if self.wanted.keys else (None, None)
        facts = statistics_of_base(output.path, body, self.stored, self.wanted, rows=rows, added=added, removed=removed)
        # Apache Hudi counts all rows as inserted, also where the file id stays.
        return output.stat(count, body.size, inserted=count, updated=0, deleted=0), facts


@dataclass(frozen=True)
class ClusteredGroup:
    """Result of a plan group: statistics of each written file, and counts of log records.

    `stats` lacks outputs that got no rows: these are not written.
    """

    stats: tuple[WriteStat, ...]
    facts: tuple[FileStatistics, ...]
    counts: MergeCounts
    rows: int
    spilled: bool


def cluster_group(task: ClusterTask) -> ClusteredGroup:
    """Merge the slices of a plan group, sort their rows and write the new base files.

    Deleted rows are left out.

    Raises:
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small for a group that is larger than memory.
        InvalidRequest: a sort column has a nested type.
    """
    base_bytes = task.reading.unfolded_bytes(task.memory_bytes)
    streaming = base_bytes is not None
    files, counts, rows = _rewritten(task) if base_bytes is None else stream_group(task, base_bytes)
    facts = tuple(found for _, found in files if found is not None)
    return ClusteredGroup(tuple(stat for stat, _ in files), facts, counts, rows, streaming)


def _rewritten(task: ClusterTask) -> tuple[list[WrittenFile], MergeCounts, int]:
    """Rewrite a group whose rows fit into memory."""
    parts, counts = [task.scanned.empty_table()], NOTHING_MERGED
    for source in task.sources:
        part, merged = task.reading.table(source)
        parts.append(part)
        counts += merged
    rows = joined_rows(parts[1:] or parts)
    parts.clear()
    check_stop()
    if task.order.curve != "none":
        rows = _taken(rows, pa.array(sort_indices(rows, task.order)))
    files, begin = [], 0
    for place, end in enumerate(_ends(rows, len(task.outputs))):
        if end > begin:
            files.append(_put(task, task.output(place), rows.slice(begin, end - begin)))
        begin = end
    return files, counts, rows.num_rows


def _taken(rows: pa.Table, order: pa.Array) -> pa.Table:
    columns = []
    for column in rows.columns:
        check_stop()
        columns.append(column.combine_chunks().take(order))
    return pa.table(columns, schema=rows.schema)


def _ends(rows: pa.Table, count: int) -> list[int]:
    """Return the rows at which each output ends, so that all get about the same bytes."""
    blocks = np.unique(np.linspace(0, rows.num_rows, count * _BLOCKS + 1).astype(np.int64))
    # A slice of a dictionary counts all values.
    sized = rows.select([column.name for column in rows.schema if not pa.types.is_dictionary(column.type)])
    return ends_of_shares(
        np.diff(blocks), [sized.slice(low, high - low).nbytes for low, high in pairwise(blocks)], count
    )


def _put(task: ClusterTask, output: BaseFileOutput, rows: pa.Table) -> WrittenFile:
    check_stop()
    rows = output.named(rows, task.stored)
    body = _encoded(task, rows)
    output.put(body)
    return task.written(output, body, rows.num_rows, task.keys_brought(rows), rows)


def _encoded(task: ClusterTask, rows: pa.Table) -> pa.Buffer:
    if task.only_base is None:
        return encode_base_file(rows, task.table_name, task.settings)
    only = BaseFileReader(task.storage, task.only_base.path)
    if RECORD_KEY not in task.stored.names or only.footer.bloom is None:
        return encode_base_file(rows, task.table_name, task.settings, previous=only.parquet)
    none_added = rows.column(RECORD_KEY).slice(0, 0)
    return encode_base_file(rows, task.table_name, task.settings, only.footer.bloom, none_added, only.parquet)

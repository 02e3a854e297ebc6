"""Merge the slices of one plan group, sort their rows and write the new base files: the task of a clustering.

A task runs on any engine. Its input holds everything that it needs, and its result goes back as a value. Names and bytes of the
files follow from the input, so every attempt of a task writes the same files.

Source: docs/format.md §3.1, §6.2, §9.2; docs/protocol.md §17.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import FILE_NAME, RECORD_KEY
from hudi_ops.engine.stopping import check_stop
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, conform, encode_base_file
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import decode_columns, joined_rows
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts, SliceScan, SliceTask
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.sort import sort_indices
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.view.slices import Slice

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

    def output(self, place: int) -> BaseFileOutput:
        """Return the base file at a place among the outputs."""
        file_id = self.outputs[place]
        name = base_file_name(file_id, self.number + place, self.epoch, self.instant)
        previous = self.previous.base if self.previous is not None else None
        return BaseFileOutput(self.storage, self.instant, self.partition_path, file_id, name, previous)


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
    """Merge the slices of a plan group, sort their rows and write the new base files, without deleted rows.

    Raises:
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
        Unavailable: the storage does not answer.
        InvalidRequest: a sort column has a nested type.
    """
    parts, counts = [], NOTHING_MERGED
    for source in task.sources:
        rows, merged = _read(task, source)
        parts.append(rows)
        counts += merged
    rows = joined_rows(parts) if parts else task.scanned.empty_table()
    del parts
    check_stop()
    if task.order.curve != "none":
        rows = _taken(rows, pa.array(sort_indices(rows, task.order)))
    ends = _ends(rows, len(task.outputs))
    written = [
        _written(task, place, rows.slice(begin, end - begin))
        for place, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
        if end > begin
    ]
    facts = tuple(found for _, found in written if found is not None)
    return ClusteredGroup(tuple(stat for stat, _ in written), facts, counts, rows.num_rows, spilled=False)


def _read(task: ClusterTask, source: Slice) -> tuple[pa.Table, MergeCounts]:
    """Read a slice; a column of few values stays a dictionary if no log files are merged."""
    if source.logs or source.base is None:
        scan = SliceScan(SliceTask.of(task.storage, source, *task.merging, task.scanned))
        return scan.table(), scan.counts
    reader = BaseFileReader(task.storage, source.base.path, keep_encoded=True)
    check_stop()
    rows = conform(reader.read(task.scanned.names), task.scanned, source.base.path)
    return decode_columns(rows, task.merging[0].key_columns.names), NOTHING_MERGED


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
    sizes = [sized.slice(low, high - low).nbytes for low, high in pairwise(blocks)]
    if not sum(sizes):
        return [rows.num_rows * place // count for place in range(1, count + 1)]
    held = np.concatenate([[0], np.cumsum(sizes)])
    shares = held[-1] * np.arange(1, count + 1) / count
    return [int(end) for end in np.rint(np.interp(shares, held, blocks))]


def _written(task: ClusterTask, place: int, rows: pa.Table) -> tuple[WriteStat, FileStatistics | None]:
    """Write the base file of an output."""
    check_stop()
    output = task.output(place)
    rows = output.named(rows, task.stored)
    body = _encoded(task, rows)
    output.put(body)
    added = _keys(task, rows) if task.wanted.keys else None
    removed = added.slice(0, 0) if added is not None else None
    facts = statistics_of_base(output.path, body, task.stored, task.wanted, rows=rows, added=added, removed=removed)
    # Apache Hudi counts all rows as inserted, also where the file id stays.
    return output.stat(rows.num_rows, body.size, inserted=rows.num_rows, updated=0, deleted=0), facts


def _encoded(task: ClusterTask, rows: pa.Table) -> pa.Buffer:
    only = _only_base(task)
    if only is None:
        return encode_base_file(rows, task.table_name, task.settings)
    if RECORD_KEY not in task.stored.names or only.footer.bloom is None:
        return encode_base_file(rows, task.table_name, task.settings, previous=only.parquet)
    none_added = rows.column(RECORD_KEY).slice(0, 0)
    return encode_base_file(rows, task.table_name, task.settings, only.footer.bloom, none_added, only.parquet)


def _only_base(task: ClusterTask) -> BaseFileReader | None:
    """Return the base file whose rows, and no others, are those of the one output."""
    if len(task.outputs) > 1 or len(task.sources) > 1 or task.sources[0].logs or task.sources[0].base is None:
        return None
    return BaseFileReader(task.storage, task.sources[0].base.path)


def _keys(task: ClusterTask, rows: pa.Table) -> pa.Array:
    """Return the record keys that a new file brings to its group, each once; none where the file id stays."""
    if task.previous is not None:
        return pa.array([], pa.string())
    return pc.unique(joined([task.merging[0].keys_of(rows)], pa.string()))

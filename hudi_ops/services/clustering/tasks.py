"""Merge the slices of a plan group and write their rows sorted: a task of clustering.

Source: docs/format §3.1, §6.2, §9.2; docs/protocol §17.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from hudi_ops.engine.stopping import check_stop
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import joined_rows
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts
from hudi_ops.kernels.sorting.cuts import ends_of_shares
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.sort import sort_indices
from hudi_ops.services.clustering.stream import stream_group
from hudi_ops.services.rewrite.task import RewriteTask, RewrittenGroup, WrittenFile
from hudi_ops.view.file_group import DataFile

_BLOCKS = 64
"""Blocks of rows whose sizes are taken for each output, to find where it ends."""


@dataclass(frozen=True, kw_only=True)
class ClusterTask(RewriteTask):
    """One plan group to rewrite; picklable.

    Attributes:
        outputs: file ids of the new files. Rows are cut into that many of about equal bytes, in sort order.
    """

    order: SortOrder
    outputs: tuple[str, ...]

    @property
    def only_base(self) -> DataFile | None:
        """Return the base file whose rows are exactly those of the only output, or None."""
        if len(self.outputs) > 1 or len(self.sources) != 1 or self.sources[0].logs:
            return None
        return self.sources[0].base

    def output(self, place: int) -> BaseFileOutput:
        """Return the base file at a place among the outputs."""
        return self.new_file(self.outputs[place], place)


def cluster_group(task: ClusterTask) -> RewrittenGroup:
    """Merge the slices of a plan group, sort their rows and write the new base files.

    Deleted rows are left out.

    Raises:
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small for a group that is larger than memory.
        InvalidRequest: a sort column has a nested type.
    """
    base_bytes = task.unfolded_bytes()
    files, counts = _rewritten(task) if base_bytes is None else stream_group(task, base_bytes)
    return RewrittenGroup.of(files, counts, streamed=base_bytes is not None)


def _rewritten(task: ClusterTask) -> tuple[list[WrittenFile], MergeCounts]:
    """Rewrite a group whose rows fit into memory."""
    parts, counts = [task.scanned.empty_table()], NOTHING_MERGED
    for source in task.sources:
        part, merged = task.read(source)
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
            files.append(task.put_rows(task.output(place), rows.slice(begin, end - begin), task.only_base))
        begin = end
    return files, counts


def _taken(rows: pa.Table, order: pa.Array) -> pa.Table:
    columns = []
    for column in rows.columns:
        check_stop()
        columns.append(column.combine_chunks().take(order))
    return pa.table(columns, schema=rows.schema)


def _ends(rows: pa.Table, count: int) -> list[int]:
    """Return the rows at which each output ends, so that all get about the same bytes."""
    blocks = np.unique(np.linspace(0, rows.num_rows, count * _BLOCKS + 1).astype(np.int64))
    # Left out: the size of a slice of a dictionary column includes all values of the dictionary.
    sized = rows.select([column.name for column in rows.schema if not pa.types.is_dictionary(column.type)])
    return ends_of_shares(
        np.diff(blocks), [sized.slice(low, high - low).nbytes for low, high in pairwise(blocks)], count
    )

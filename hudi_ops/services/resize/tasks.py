"""Merge the slices of a plan group and write their rows into its children, as a task.

Source: docs/format §6.2, §9.2, §10.3; docs/protocol §29.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.errors import Corrupt
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import joined_rows
from hudi_ops.files.base.writer import new_filter_bytes
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts, SliceScan
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import RingEngine
from hudi_ops.index.resizes import RingChange, holders_of
from hudi_ops.services.resize.inputs import ChildRange
from hudi_ops.services.rewrite.task import RewriteTask, RewrittenGroup, WrittenFile
from hudi_ops.view.slices import Slice

Holders: TypeAlias = npt.NDArray[np.int16]
"""Number of the child that gets each row."""


@dataclass(frozen=True, kw_only=True)
class ResizeTask(RewriteTask):
    """One plan group to rewrite; picklable. Its sources are slices of the parents.

    Attributes:
        children: the groups that get the rows, each with the hashes of its node.
        ring: instant of the ring that the plan changes, for errors.
    """

    change: RingChange
    engine: RingEngine
    children: tuple[ChildRange, ...]
    ring: str

    def output(self, place: int) -> BaseFileOutput:
        """Return the base file of the child at a place."""
        return self.new_file(self.children[place].file_id, place)

    def holders(self, source: Slice, rows: pa.Table) -> Holders:
        """Return the child that gets each row of a slice.

        Raises:
            Corrupt: the hash of a row belongs to no child.
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


def resize_group(task: ResizeTask) -> RewrittenGroup:
    """Merge the slices of a plan group; write a base file for each child, even without rows.

    Rows keep their meta columns and their order. Deleted rows are left out.

    Raises:
        Corrupt: a file cannot be read, or a row belongs to none of the children.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small for a file that is larger than memory.
        Internal: rows were lost on the way.
    """
    streaming = task.unfolded_bytes() is not None
    files, counts = _streamed(task) if streaming else _rewritten(task)
    return RewrittenGroup.of(files, counts, streamed=streaming)


def _rewritten(task: ResizeTask) -> tuple[list[WrittenFile], MergeCounts]:
    """Rewrite a group whose rows fit into memory."""
    counts = NOTHING_MERGED
    parts: list[pa.Table] = [task.scanned.empty_table()]
    held: list[Holders] = []
    for source in task.sources:
        part, merged = task.read(source)
        held.append(task.holders(source, part))
        parts.append(part)
        counts += merged
    rows, holders = joined_rows(parts[1:] or parts), _joined(held)
    parts.clear()
    files = []
    for place in range(len(task.children)):
        taken = rows if len(task.children) == 1 else rows.filter(pa.array(holders == place))
        files.append(task.put_rows(task.output(place), taken))
    return files, counts


def _streamed(task: ResizeTask) -> tuple[list[WrittenFile], MergeCounts]:
    """Rewrite a group in bounded memory: hash keys once, then read rows once for each child."""
    counts = NOTHING_MERGED
    held: list[Holders] = []
    for source in task.sources:
        scan = task.scan(source, task.merging[0].key_columns)
        held += [task.holders(source, pa.Table.from_batches([batch])) for batch in scan.batches()]
        counts += scan.counts if isinstance(scan, SliceScan) else NOTHING_MERGED
    holders = _joined(held)
    counted = np.bincount(holders[holders >= 0], minlength=len(task.children)).tolist()
    task.refuse_small_limit(new_filter_bytes(max(counted, default=0), task.settings.bloom_fpp))
    files = [
        task.put_streamed(task.output(place), _rows_of(task, place, holders), count)
        for place, count in enumerate(counted)
    ]
    return files, counts


def _rows_of(task: ResizeTask, place: int, holders: Holders) -> Iterator[pa.Table]:
    begin = 0
    for piece in task.pieces(task.scanned):
        wanted = holders[begin : begin + piece.num_rows] == place
        begin += piece.num_rows
        if wanted.any():
            yield piece if wanted.all() else piece.filter(pa.array(wanted))


def _joined(held: list[Holders]) -> Holders:
    return np.concatenate(held) if held else np.zeros(0, np.int16)

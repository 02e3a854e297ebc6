"""Rewrite a plan group that is larger than memory: stream its rows, sort them on disk.

To sort along a curve, the key of each row is computed once; the ranks of values come from a sample of each column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.base.writer import NOTHING_REPLACED, ReplacedFile, new_filter_bytes
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts, SliceScan
from hudi_ops.kernels.sorting.curves import curve_keys
from hudi_ops.kernels.sorting.cuts import ends_of_shares
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.sort import ranks_among
from hudi_ops.services.base.cost import ARROW_PER_STORED
from hudi_ops.services.clustering.disk_sort import DiskSort, sampled

if TYPE_CHECKING:
    from hudi_ops.services.clustering.tasks import ClusterTask
    from hudi_ops.services.rewrite.task import WrittenFile

_SHARES = 8
"""Memory of a task, as a multiple of a bucket: it holds a share of chunks, a block or bucket twice, and a row group twice."""
_SHARE_BYTES_MAX = 512 << 20
"""Most bytes of a share: Arrow's arrays of texts hold 2 GiB."""
_QUANTILES = 1 << 14
"""Most values of a column that give the ranks of a curve; they are sorted with the rows of each piece."""
_KEY = "sort key"
"""Column of a curve's keys; no column of a table has a blank in its name."""


def stream_group(task: ClusterTask, base_bytes: float) -> tuple[list[WrittenFile], MergeCounts]:
    """Rewrite a plan group in bounded memory; return its files, and counts of log records.

    `base_bytes` is the expected size of its base rows in memory.

    Raises:
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
        Unavailable: the storage does not answer, or the disk is too small.
        InvalidRequest: a sort column has a nested type.
        Internal: rows were lost on the way.
    """
    held, counts = [], NOTHING_MERGED
    for source in task.sources:
        scan = task.scan(source, task.scanned)
        held.append(scan.count())
        counts += scan.counts if isinstance(scan, SliceScan) else NOTHING_MERGED
    rows = sum(held)
    share_bytes = max(1, min(task.memory_bytes // _SHARES, _SHARE_BYTES_MAX))
    with ExitStack() as stack:
        if task.order.curve == "none" or not rows:
            pieces = task.pieces(task.scanned)
            sizes = [source.bytes_in for source in task.sources]
        else:
            expected = base_bytes + ARROW_PER_STORED * sum(source.log_bytes for source in task.sources)
            sort, pieces = _sorted(task, stack, rows, share_bytes, expected)
            held, sizes = sort.rows.tolist(), sort.sizes.tolist()
        ends = ends_of_shares(held, sizes, len(task.outputs))
        return _written(task, _Pieces(pieces), ends), counts


def _sorted(
    task: ClusterTask, stack: ExitStack, rows: int, share_bytes: int, size_bytes: float
) -> tuple[DiskSort, Iterator[pa.Table]]:
    """Scatter the rows into buckets on disk; return these, and the rows in order.

    The stack releases the disk.
    """
    heads = pa.schema([task.scanned.field(name) for name in task.order.columns])
    sample = sampled(task.pieces(heads), rows)
    order, pieces = task.order, task.pieces(task.scanned)
    if task.order.is_curve:
        keyed = _keyed(task.order, sample)
        sample, pieces = keyed(sample), map(keyed, pieces)
        order = SortOrder("linear", (_KEY,))
    sort = stack.enter_context(DiskSort(order, share_bytes, task.spill_folder))
    sort.add(pieces, sample, size_bytes)
    found = sort.tables()
    return sort, (piece.drop_columns([_KEY]) for piece in found) if task.order.is_curve else found


def _keyed(order: SortOrder, sample: pa.Table) -> Callable[[pa.Table], pa.Table]:
    """Return a function that adds the keys of a curve to rows."""
    quantiles = sample.take(pa.array(range(0, sample.num_rows, -(-sample.num_rows // _QUANTILES))))

    def keyed(rows: pa.Table) -> pa.Table:
        ranks = [ranks_among(rows.column(name), quantiles.column(name)) for name in order.columns]
        return rows.append_column(_KEY, pa.array(curve_keys(order.curve, ranks, quantiles.num_rows + 1)))

    return keyed


class _Pieces:
    """Rows of pieces, taken in order by their number."""

    def __init__(self, pieces: Iterator[pa.Table]) -> None:
        self._pieces = pieces
        self._left: pa.Table | None = None

    def take(self, rows: int) -> Iterator[pa.Table]:
        """Yield the next `rows` rows, or fewer at the end of the pieces."""
        while rows:
            piece = self._left if self._left is not None else next(self._pieces, None)
            if piece is None:
                return
            part = piece.slice(0, rows)
            self._left = piece.slice(rows) if piece.num_rows > rows else None
            rows -= part.num_rows
            yield part


def _written(task: ClusterTask, pieces: _Pieces, ends: list[int]) -> list[WrittenFile]:
    counts = np.diff([0, *ends]).tolist()
    task.refuse_small_limit(new_filter_bytes(max(counts, default=0), task.settings.bloom_fpp))
    return [
        task.put_streamed(task.output(place), pieces.take(count), count, _replaced(task))
        for place, count in enumerate(counts)
        if count
    ]


def _replaced(task: ClusterTask) -> ReplacedFile:
    if task.only_base is None:
        return NOTHING_REPLACED
    reader = BaseFileReader(task.storage, task.only_base.path)
    return ReplacedFile(reader.footer.bloom, reader.rows, reader.parquet)

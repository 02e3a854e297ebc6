"""Sort rows that are larger than memory, by a sample and buckets on disk.

Cut points come from a sample. Rows are scattered into a bucket for each range between cuts, then bucket after bucket is sorted in
memory. The result depends only on the rows and the given sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from hudi_ops.engine.protocol import Chunk
from hudi_ops.engine.spill import ChunkStore
from hudi_ops.engine.stopping import check_stop
from hudi_ops.kernels.sorting.cuts import choose_cuts, sampled_positions
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.positions import by_words
from hudi_ops.kernels.sorting.sort import sort_indices

SAMPLE_ROWS = 1 << 16
"""Most rows of a sample."""
_BUCKETS_PER_SHARE = 2
"""Buckets for each share of memory that the rows take. More than one, so that buckets which the sample underestimates still fit."""
_DEPTH_MAX = 3
"""Most times that a too large bucket is split again, one split inside the other."""


class DiskSort:
    """Rows in sorted order; as a context manager it releases the disk.

    Args:
        order: a linear order.
        share_bytes: memory for a bucket, and for the rows that are scattered at a time.
        folder: for the buckets; None: the system's folder for temporary files.
    """

    def __init__(self, order: SortOrder, share_bytes: int, folder: str | None = None, depth: int = 0) -> None:
        self._order = order
        self._share_bytes = share_bytes
        self._folder = folder
        self._depth = depth
        self._store = ChunkStore(share_bytes, folder)
        self._equal: frozenset[int] = frozenset()
        self.rows = np.zeros(0, np.int64)
        """Rows of each bucket."""
        self.sizes = np.zeros(0, np.int64)
        """Bytes of each bucket in memory."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()

    def add(self, rows: Iterable[pa.Table], sample: pa.Table, size_bytes: float) -> None:
        """Scatter all rows, once; `size_bytes` is about their size in memory.

        Raises:
            Unavailable: the disk did not accept them.
        """
        count = max(1, round(_BUCKETS_PER_SHARE * size_bytes / self._share_bytes))
        cuts = choose_cuts(sample.select(self._order.columns), self._order, count)
        self._equal = cuts.equal
        self.rows = np.zeros(cuts.count, np.int64)
        self.sizes = np.zeros(cuts.count, np.int64)
        for number, block in enumerate(in_blocks(rows, self._share_bytes)):
            check_stop()
            buckets = cuts.buckets(block.select(self._order.columns))
            block = block.take(pa.array(by_words(buckets.astype(np.uint64))))
            counts = np.bincount(buckets, minlength=cuts.count)
            chunks, begin = [], 0
            for bucket in np.flatnonzero(counts).tolist():
                part = block.slice(begin, int(counts[bucket]))
                begin += part.num_rows
                self.sizes[bucket] += part.nbytes
                chunks.append(Chunk(str(bucket), part))
            self.rows += counts
            self._store.add((number, 0), chunks)
        self._store.seal()

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows in order, piece by piece.

        Raises:
            Unavailable: the disk did not deliver them.
        """
        for bucket in np.flatnonzero(self.rows).tolist():
            check_stop()
            key = str(bucket)
            if bucket in self._equal:
                yield from self._store.stream(key)
            elif self.sizes[bucket] > _BUCKETS_PER_SHARE * self._share_bytes and self._depth < _DEPTH_MAX:
                yield from self._split(key, int(self.rows[bucket]), int(self.sizes[bucket]))
            else:
                rows = pa.concat_tables(self._store.read(key)).combine_chunks()
                yield rows.take(pa.array(sort_indices(rows.select(self._order.columns), self._order)))

    def _split(self, key: str, rows: int, size_bytes: int) -> Iterator[pa.Table]:
        heads = (part.select(self._order.columns) for part in self._store.stream(key))
        sample = sampled(heads, rows)
        with DiskSort(self._order, self._share_bytes, self._folder, self._depth + 1) as below:
            below.add(self._store.stream(key), sample, size_bytes)
            yield from below.tables()


def sampled(pieces: Iterable[pa.Table], rows: int) -> pa.Table:
    """Return a sample of the rows of pieces; `rows` is about the number of all rows."""
    distance, first = max(1, -(-rows // SAMPLE_ROWS)), 0
    found = []
    for piece in pieces:
        check_stop()
        if piece.num_rows:
            found.append(piece.take(pa.array(sampled_positions(first, piece.num_rows, distance))))
            first += piece.num_rows
    return pa.concat_tables(found).combine_chunks()


def in_blocks(pieces: Iterable[pa.Table], size_bytes: int) -> Iterator[pa.Table]:
    """Join pieces to blocks of at least a size in memory, the last one as it is."""
    held, held_bytes = [], 0
    for piece in pieces:
        held.append(piece)
        held_bytes += piece.nbytes
        if held_bytes >= size_bytes:
            yield pa.concat_tables(held).combine_chunks()
            held, held_bytes = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()

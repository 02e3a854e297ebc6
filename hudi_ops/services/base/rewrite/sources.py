"""Read the slices that a task rewrites: whole, or piece by piece in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.engine.stopping import check_stop
from hudi_ops.files.base.base_file import BaseFileReader, conform
from hudi_ops.files.base.repeated_columns import decode_columns
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts, SliceScan, SliceTask
from hudi_ops.services.base.cost import COPIES, FOLDED_MAX, memory_of
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.slices import Slice

_HELD_BYTES_MAX = 2 << 30
"""Most memory of rows that are held whole, with their copy: Arrow's arrays of texts hold 2 GiB."""


@dataclass(frozen=True)
class Sources:
    """Slices to read; picklable.

    Attributes:
        slices: in the order in which their rows come.
        merging: as `services.base.merging.merging_of` returns it.
        schema: columns to read.
    """

    storage: Storage
    slices: tuple[Slice, ...]
    merging: tuple[MergeRules, BlockInstants]
    schema: pa.Schema

    def table(self, source: Slice) -> tuple[pa.Table, MergeCounts]:
        """Read a slice; a column of few values stays a dictionary if no log files are merged."""
        if source.logs or source.base is None:
            scan = SliceScan(SliceTask.of(self.storage, source, *self.merging, self.schema))
            return scan.table(), scan.counts
        reader = BaseFileReader(self.storage, source.base.path, keep_encoded=True)
        check_stop()
        rows = conform(reader.read(self.schema.names), self.schema, source.base.path)
        return decode_columns(rows, self.merging[0].key_columns.names), NOTHING_MERGED

    def scan(self, source: Slice, schema: pa.Schema) -> SliceScan | FileScan:
        """Open a slice whose rows are streamed, with other columns than `self.schema` if need be."""
        if source.logs or source.base is None:
            return SliceScan(SliceTask.of(self.storage, source, *self.merging, schema), streaming=True)
        base = FileTask(self.storage, source.base.path, source.base.size_bytes, schema, tuple(schema.names))
        return FileScan(base, streaming=True)

    def pieces(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of all slices piece by piece; their order does not depend on the columns."""
        for source in self.slices:
            for batch in self.scan(source, schema).batches():
                yield pa.Table.from_batches([batch])

    def unfolded_bytes(self, memory_bytes: int) -> float | None:
        """Return the expected bytes of base rows in memory; None if all rows fit into memory.

        If the result is a number, the slices are streamed. It follows from file sizes and, near the limit, from the first rows of
        each file, since repeated values compress well. So every attempt gets the same answer.
        """
        limit_bytes = min(memory_bytes, _HELD_BYTES_MAX)
        expected = memory_of(sum(source.bytes_in for source in self.slices))
        if FOLDED_MAX * expected <= limit_bytes:
            return None
        bases = [BaseFileReader(self.storage, source.base.path) for source in self.slices if source.base is not None]
        base_bytes = sum(reader.unfolded_bytes(self.schema.names) for reader in bases)
        log_bytes = sum(source.log_bytes for source in self.slices)
        return base_bytes if max(expected, base_bytes * COPIES + memory_of(log_bytes)) > limit_bytes else None

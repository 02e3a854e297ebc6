"""Estimate what a compaction will cost from the bytes of its files."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.services.base.cost import Cost, cost_of_tasks

READ_BYTES_PER_S = 40_000_000
"""Stored bytes of base and log files that one core decodes and merges in a second."""
WRITE_BYTES_PER_S = 30_000_000
"""Stored bytes of a base file that one core encodes in a second."""
SLICE_S = 0.05
"""Further cost of each slice: opening its files, marker, put."""


def bytes_out_of(base_bytes: int, log_bytes: int) -> int:
    """Return the expected size of the new base file."""
    return base_bytes or log_bytes


def estimate(sizes: Sequence[tuple[int, int]], parallel: int, memory_bytes: int | None = None) -> Cost:
    """Return the cost of merging slices, `parallel` at a time.

    `sizes` holds (bytes of the base file, bytes of the log files) of each slice. A slice that would take more than `memory_bytes`
    is streamed.
    """
    each = [
        SLICE_S + (base + logs) / READ_BYTES_PER_S + bytes_out_of(base, logs) / WRITE_BYTES_PER_S
        for base, logs in sizes
    ]
    bytes_out = sum(bytes_out_of(*size) for size in sizes)
    return cost_of_tasks(each, [base + logs for base, logs in sizes], bytes_out, parallel, memory_bytes)

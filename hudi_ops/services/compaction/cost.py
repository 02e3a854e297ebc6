"""Estimate what a compaction will cost from the bytes of its files."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.services.base.cost import Cost, peak_memory

READ_BYTES_PER_S = 40_000_000
"""Stored bytes of base and log files that one core decodes and merges in a second."""
WRITE_BYTES_PER_S = 30_000_000
"""Stored bytes of a base file that one core encodes in a second."""
SLICE_S = 0.05
"""Further cost of each slice: opening its files, marker, put."""
PLAN_S = 0.2
"""Further cost of each execution: takeover, inflight, decision."""


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
    at_a_time = max(1, min(parallel, len(sizes)))
    # No slice is split: the whole takes at least as long as the largest.
    seconds = PLAN_S + max(sum(each) / at_a_time, max(each, default=0.0)) if sizes else 0.0
    return Cost(
        bytes_in=sum(base + logs for base, logs in sizes),
        bytes_out=sum(bytes_out_of(*size) for size in sizes),
        seconds=round(seconds, 3),
        memory_bytes=peak_memory(map(sum, sizes), at_a_time, memory_bytes),
    )

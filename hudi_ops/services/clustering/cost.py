"""Estimate what a clustering will cost from the bytes of its files."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.services.base.cost import Cost, peak_memory

REWRITE_BYTES_PER_S = 15_000_000
"""Stored bytes that one core reads, sorts and encodes in a second."""
GROUP_S = 0.05
"""Further cost of each plan group: opening its files, markers, puts."""
PLAN_S = 0.2
"""Further cost of each execution: takeover, inflight, decision."""


def estimate(sizes: Sequence[int], parallel: int, memory_bytes: int | None = None) -> Cost:
    """Return the cost of rewriting plan groups, `parallel` at a time, from their sizes in bytes.

    A group that would take more than `memory_bytes` is sorted on disk.
    """
    if not sizes:
        return Cost(0, 0, 0.0, 0)
    at_a_time = max(1, min(parallel, len(sizes)))
    each = [GROUP_S + size / REWRITE_BYTES_PER_S for size in sizes]
    return Cost(
        bytes_in=sum(sizes),
        bytes_out=sum(sizes),
        seconds=round(PLAN_S + max(sum(each) / at_a_time, max(each)), 3),
        memory_bytes=peak_memory(sizes, at_a_time, memory_bytes),
    )

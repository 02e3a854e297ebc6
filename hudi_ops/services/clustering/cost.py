"""Estimate what a clustering will cost from the bytes of its files."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.services.base.cost import Cost, cost_of_tasks

REWRITE_BYTES_PER_S = 15_000_000
"""Stored bytes that one core reads, sorts and encodes in a second."""
GROUP_S = 0.05
"""Further cost of each plan group: opening its files, markers, puts."""


def estimate(sizes: Sequence[int], parallel: int, memory_bytes: int | None = None) -> Cost:
    """Return the cost of rewriting plan groups, `parallel` at a time, from their sizes in bytes.

    A group that would take more than `memory_bytes` is sorted on disk.
    """
    each = [GROUP_S + size / REWRITE_BYTES_PER_S for size in sizes]
    return cost_of_tasks(each, sizes, sum(sizes), parallel, memory_bytes)

"""Estimate what a resize will cost from the bytes of its buckets."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.services.base.cost import Cost, cost_of_tasks
from hudi_ops.services.resize.choose import ResizeChoice

REWRITE_BYTES_PER_S = 15_000_000
"""Stored bytes that one core reads, hashes and encodes in a second."""
FILE_S = 0.02
"""Further cost of each file that is opened or written: markers, puts, footer."""


def estimate(choice: ResizeChoice, tasks_at_a_time: int, memory_bytes: int | None = None) -> Cost:
    """Return the cost of executing a choice, `tasks_at_a_time` plan groups at a time.

    A group that would take more than `memory_bytes` is rewritten on disk.
    """
    sizes = [group.bytes_in for group in choice.groups]
    files = [len(group.slices) + group.outputs for group in choice.groups]
    return estimate_groups(sizes, files, tasks_at_a_time, memory_bytes)


def estimate_groups(
    sizes: Sequence[int], files: Sequence[int], tasks_at_a_time: int, memory_bytes: int | None = None
) -> Cost:
    """Return the cost of rewriting plan groups, by bytes read, slices and new files of each."""
    each = [FILE_S * count + size / REWRITE_BYTES_PER_S for count, size in zip(files, sizes, strict=True)]
    return cost_of_tasks(each, sizes, sum(sizes), tasks_at_a_time, memory_bytes)

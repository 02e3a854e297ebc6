"""Estimate what a clustering will cost from the bytes of its files."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.services.base.cost import Cost

REWRITE_BYTES_PER_S = 15_000_000
"""Stored bytes that one core reads, sorts and encodes in a second."""
GROUP_S = 0.05
"""Further cost of each plan group: opening its files, markers, puts."""
PLAN_S = 0.2
"""Further cost of each execution: takeover, inflight, decision."""
MEMORY_PER_STORED = 10.0
"""Bytes of memory for each byte of compressed files: rows, and their sorted copy."""


def estimate(sizes: Sequence[int], engine: Engine) -> Cost:
    """Return the cost of rewriting groups, given their sizes in bytes; a group is not split."""
    if not sizes:
        return Cost(0, 0, 0.0, 0)
    at_a_time = min(engine.threads if isinstance(engine, LocalEngine) else 1, len(sizes))
    each = [GROUP_S + size / REWRITE_BYTES_PER_S for size in sizes]
    held = sorted(sizes, reverse=True)[:at_a_time]
    return Cost(
        bytes_in=sum(sizes),
        bytes_out=sum(sizes),
        seconds=round(PLAN_S + max(sum(each) / at_a_time, max(each)), 3),
        memory_bytes=round(sum(held) * MEMORY_PER_STORED),
    )

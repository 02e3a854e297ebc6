"""Read cost of a table on disk, measured slowly."""

from __future__ import annotations

from tests.unit.health.slow_slices import slow_p95, slow_slices


def slow_read_cost(path: str) -> dict[str, float | None]:
    """The measures of the check `read_cost` by name."""
    slices = slow_slices(path)
    log_bytes = sum(sum(one.log_sizes) for one in slices)
    base_bytes = sum(one.base_bytes or 0 for one in slices)
    ratio = log_bytes / base_bytes if base_bytes else None
    return {"log_files": slow_p95([len(one.log_sizes) for one in slices]), "log_ratio": ratio}

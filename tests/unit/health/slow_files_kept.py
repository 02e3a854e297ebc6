"""The bytes that are kept beyond the policy of a table on disk, found slowly."""

from __future__ import annotations

import time

from tests.unit.health.slow_old_files import slow_judged


def slow_files_kept(path: str, now_ms: int | None = None) -> dict[str, float | None]:
    """The measure of the check `files_kept`, by default now."""
    judged = slow_judged(path, round(time.time() * 1000) if now_ms is None else now_ms)
    size = judged.table.bytes
    return {"share": judged.kept / size if size else 0.0}

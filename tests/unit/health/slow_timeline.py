"""The length of the timeline of a table on disk, found slowly."""

from __future__ import annotations

import time

from tests.unit.health.slow_old_files import SlowTable


def slow_timeline(path: str, now_ms: int | None = None) -> dict[str, float | None]:
    """The measure of the check `timeline`, by default now."""
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    table = SlowTable(path)
    clean, archive = table.kept["clean"], table.kept["archive"]
    policy = clean.get("policy", "commits")
    least, most = archive.get("keep_min", 20), archive.get("keep_max", 30)
    if policy != "versions":
        retain = int(clean.get("retain") or {"commits": 10, "hours": 24}[policy])
        wanted = table.wanted(policy, retain, now_ms)
        promised = sum(one >= wanted for one in table.writes) + 1
        if promised > least:
            most = max(most, promised + 10)
    return {"ratio": len(table.writes) / most}

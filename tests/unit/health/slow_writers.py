"""Ended writers by the files of heartbeats and the names of the timeline."""

from __future__ import annotations

from tests.unit.health.on_disk import SERVICES, WRITES, OnDisk, ms_of, now_ms

LATE_MS = 600_000


def slow_writers(path: str, at_ms: int | None = None) -> dict[str, float | None]:
    table = OnDisk(path)
    at_ms = now_ms() if at_ms is None else at_ms
    leases, pending = table.leases(), table.timeline.pending
    plans = {time for time, (action, _) in pending.items() if action in SERVICES}
    decided = {one["instant"] for one in table.log if one["kind"] == "COMPLETE"}
    silent = [
        time
        for time, (action, _) in pending.items()
        if action in WRITES | {"rollback", "restore"} and time not in leases and time not in decided
    ]
    return {
        "dead": sum(at_ms > until_ms + LATE_MS for time, until_ms in leases.items() if time not in plans),
        "silent": sum(at_ms > ms_of(time) + LATE_MS for time in silent),
    }

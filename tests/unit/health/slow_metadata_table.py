"""The metadata table by the names of its files and of its timeline."""

from __future__ import annotations

import re
from collections import Counter

from tests.unit.health.on_disk import OnDisk, ms_of, now_ms

COMPACT_AFTER, LATE_MS = 10, 600_000
_LOG = re.compile(r"\.(?P<group>.+)_(?P<instant>\d+)\.log\.\d+_[\d-]+")
_BASE = re.compile(r"(?P<group>[^_]+)_[\d-]+_(?P<instant>\d+)\.hfile")


def slow_metadata_table(path: str, at_ms: int | None = None) -> dict[str, float | None]:
    table = OnDisk(path)
    at_ms = now_ms() if at_ms is None else at_ms
    leases = table.leases()
    completed = {time: completion for (time, _), (completion, _) in table.own.completed.items()}
    most = 0
    for partition in table.names("hoodie.table.metadata.partitions"):
        names = [info.name for info in (table.root / ".hoodie/metadata" / partition).iterdir()]
        bases: dict[str, str] = {}
        for found in filter(None, map(_BASE.fullmatch, names)):
            if found["instant"] in completed:
                bases[found["group"]] = max(bases.get(found["group"], ""), found["instant"])
        logs = Counter(
            found["group"]
            for found in filter(None, map(_LOG.fullmatch, names))
            if not found["instant"].startswith("0" * 14)
            and completed.get(found["instant"], found["instant"]) >= bases.get(found["group"], "")
        )
        most = max(most, *logs.values(), 0)
    return {
        "pending": sum(leases.get(time, 0) <= at_ms and ms_of(time) + LATE_MS < at_ms for time in table.own.pending),
        "log_ratio": most / COMPACT_AFTER,
    }

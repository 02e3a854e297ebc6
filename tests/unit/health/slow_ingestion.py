"""The newest write with rows by the metadata of all commits."""

from __future__ import annotations

from tests.unit.health.on_disk import WRITES, OnDisk, ms_of, now_ms


def slow_ingestion(path: str, at_ms: int | None = None) -> dict[str, float | None]:
    table = OnDisk(path)
    at_ms = now_ms() if at_ms is None else at_ms
    newest = ""
    for (time, kind), (completion, _) in table.timeline.completed.items():
        if kind not in WRITES:
            continue
        said = table.commit(time, kind)
        stats = [stat for held in said["partitionToWriteStats"].values() for stat in held]
        has_rows = any(stat["numInserts"] or stat["numUpdateWrites"] for stat in stats)
        if has_rows and not said["compacted"] and said["operationType"] not in {"COMPACT", "CLUSTER"}:
            newest = max(newest, completion)
    return {"age": (at_ms - ms_of(newest)) / 1000 if newest else None}

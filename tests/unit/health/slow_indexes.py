"""Unready indexes by the properties, all slots of the commit log and the names of both timelines."""

from __future__ import annotations

from tests.unit.health.on_disk import WRITES, OnDisk, now_ms


def slow_indexes(path: str, at_ms: int | None = None) -> dict[str, float | None]:
    table = OnDisk(path)
    at_ms = now_ms() if at_ms is None else at_ms
    listed = set(table.names("hoodie.table.metadata.partitions"))
    announced = set(table.names("hoodie.table.metadata.partitions.inflight")) - listed
    built: set[str] = set()
    plan_of: dict[str, str] = {}
    for entry in table.log:
        if entry["kind"] == "PROPERTIES":
            built = (set() if entry["remove"] else built - {*entry["drops"]}) | {*entry["adds"]} | {*entry["announces"]}
            plan_of |= dict.fromkeys(entry["announces"], entry["plan"])
    leases = table.leases()
    begun = min((completion for completion, _ in table.own.completed.values()), default="~")
    known = {time for time, _ in table.own.completed}
    lacking = [
        time
        for (time, kind), (completion, _) in table.timeline.completed.items()
        if kind in WRITES and completion > begun and time not in known
    ]
    return {
        "unready": len(built - listed - announced)
        + (len(listed) if lacking else 0)
        + sum(leases.get(plan_of.get(name, ""), 0) <= at_ms for name in announced)
    }

"""Pending plans by the names of the timeline and all slots of the commit log."""

from __future__ import annotations

import json
from collections import Counter

from tests.unit.health.on_disk import SERVICES, OnDisk, ms_of, now_ms

HOUR_MS = 3_600_000


def slow_plans(path: str, at_ms: int | None = None) -> dict[str, float | None]:
    table = OnDisk(path)
    at_ms = now_ms() if at_ms is None else at_ms
    pending = sorted(time for time, (action, _) in table.timeline.pending.items() if action in SERVICES)
    return {
        "age": (at_ms - ms_of(pending[0])) / 1000 if pending else None,
        "overdue": sum(_is_overdue(table, time, at_ms) for time in pending[:3]),
        "starved": sum(_starved(table, action) for action in ("compaction", "clustering")),
    }


def _is_overdue(table: OnDisk, time: str, at_ms: int) -> bool:
    plan = next((one for one in table.log if one["kind"] == "PLAN" and one["instant"] == time), None)
    is_cancelled = any(one["kind"] == "CANCEL" and one["instant"] == time for one in table.log)
    if plan is None or not plan["cancellable"] or is_cancelled or plan["action"] not in {"compaction", "clustering"}:
        return False
    if table.leases().get(time, 0) > at_ms:
        return False
    age_ms = at_ms - ms_of(time)
    is_begun = any(one["kind"] == "TAKEOVER" and one["instant"] == time for one in table.log)
    hours, instants = plan["cancel_after_hours"], plan["cancel_after_instants"]
    later = sum(other > time for other in table.timeline.times)
    is_late = (hours is not None and age_ms >= hours * HOUR_MS) or (instants is not None and later >= instants)
    return is_late and (is_begun or age_ms >= 120_000)


def _starved(table: OnDisk, action: str) -> int:
    """File groups whose last three plans of an action were cancelled, among the newest six records of all actions."""
    records = [json.loads(body.read_bytes()) for _, body in sorted(table.timeline.aborted.items())]
    newest = [one["instant"] for one in records if one["action"] in {"compaction", "clustering"}][-6:]
    actions = {one["instant"]: one["action"] for one in records}
    counts: Counter[tuple[str, str]] = Counter()
    done = _done(table)
    for time in newest:
        plan = next(one for one in table.log if one["kind"] == "PLAN" and one["instant"] == time)
        groups = json.loads(plan["footprint"])["groups"] if actions[time] == action else {}
        for partition, ids in groups.items():
            counts.update((partition, one) for one in ids if done.get((partition, one), "") < time)
    return sum(count >= 3 for count in counts.values())


def _done(table: OnDisk) -> dict[tuple[str, str], str]:
    """The newest completed compaction or clustering of each file group."""
    found: dict[tuple[str, str], str] = {}
    for time, kind in sorted(table.timeline.services):
        said = table.commit(time, kind)
        groups = {
            (stat["partitionPath"], stat["fileId"]) for held in said["partitionToWriteStats"].values() for stat in held
        }
        groups |= {(part, one) for part, ids in (said.get("partitionToReplaceFileIds") or {}).items() for one in ids}
        found |= {(part, one[:8]): time for part, one in groups}
    return found

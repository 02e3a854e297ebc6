"""The clean lag of a table on disk, found slowly."""

from __future__ import annotations

import time

from tests.unit.health.slow_old_files import HOUR_MS, SlowJudged, ms_of, slow_judged


def slow_clean_lag(path: str, now_ms: int | None = None) -> dict[str, float | None]:
    """The measures of the check `clean_lag`, by default now."""
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    judged = slow_judged(path, now_ms)
    size = judged.table.bytes
    share = sum(size for _, size in judged.deleted) / size if size else 0.0
    cleans = [ms_of(done) for (_, kind), done in judged.table.done.items() if kind == "clean"]
    since_ms = [_due_ms(judged), *cleans] if judged.deleted else []
    return {"share": share, "age": max(0, now_ms - max(since_ms)) / 1000 if since_ms else None}


def _due_ms(judged: SlowJudged) -> int:
    """Since when the policy drops the oldest file."""
    writes = judged.table.writes
    if judged.policy == "versions":
        due = []
        for one, _ in judged.deleted:
            too_many = [one.later[judged.retain - 1]] if len(one.later) >= judged.retain else []
            due.append(min([*too_many, *([one.replaced] if one.replaced else [])]))
        return ms_of(writes.get(min(due), min(due)))
    oldest = min(one.superseded for one, _ in judged.deleted)
    if judged.policy == "hours":
        following = next((done for time, done in writes.items() if time > oldest), [*writes.values()][-1])
        return max(ms_of(oldest) + judged.retain * HOUR_MS, ms_of(following))
    for count in range(judged.retain + 1, len(writes) + 1):
        if oldest < [*writes][:count][-judged.retain]:
            return ms_of([*writes.values()][count - 1])
    return ms_of([*writes.values()][-1])

"""Facts stay true until the time that they say: judged at any earlier time, they give what a fresh look gives then."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.health.check import NotHere
from hudi_ops.health.checks import CHECKS
from hudi_ops.health.look import Look
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.clock import ManualClock
from tests.bounds import bound
from tests.tables import BY_HAND, table_of
from tests.unit.health.kept_tables import HOUR_MS, Kept, kept_table, move
from tests.unit.health.service_history import History

DAYS_MS = 96 * HOUR_MS
HOURS = UpkeepSettings(
    CleanSettings(automatic=True, policy="hours", retain=2), ArchiveSettings(automatic=True, keep_min=3, keep_max=4)
)


def values(path: str, now_ms: int, at_ms: int | None = None) -> dict[str, object]:
    """Statuses and values of all checks by facts of now, judged at a time, by default now; None for facts that ended."""
    look = Look.at(table_of(open_storage(path), ManualClock(now_ms), "looker", upkeep=BY_HAND)._session)
    found: dict[str, object] = {}
    for check in CHECKS:
        facts, targets = check.measure(look), getattr(HealthTargets(), check.name)
        if isinstance(facts, NotHere):
            found[check.name] = facts.why
        elif at_ms is not None and facts.until_ms is not None and at_ms >= facts.until_ms:
            found[check.name] = None
        else:
            judged = check.judge(facts, targets, now_ms if at_ms is None else at_ms)
            found[check.name] = (
                judged.is_missed,
                tuple((one.name, one.value) for one in judged.measures),
                frozenset(judged.commands),
            )
    return found


def compare(path: str, now_ms: int, chance: random.Random, ended: dict[str, int]) -> None:
    """Compare facts of now with fresh ones at later times; `ended` counts facts that had ended by then."""
    for at_ms in (now_ms + chance.randrange(1, HOUR_MS), now_ms + chance.randrange(1, DAYS_MS)):
        kept, fresh = values(path, now_ms, at_ms), values(path, at_ms)
        for name, one in kept.items():
            ended[name] = ended.get(name, 0) + (one is None)
            assert one is None or one == fresh[name], (name, at_ms - now_ms)


@pytest.mark.parametrize("kind", ["upkeep", "services"])
def test_facts_hold_until_they_say(kind: str, tmp_path: Path) -> None:
    ended: dict[str, int] = {}
    for seed in range(bound(3, 8, 60)):
        chance = random.Random(f"{kind} {seed}")
        if kind == "services":
            history = History(tmp_path / str(seed), seed)
            for _ in range(8):
                history.step()
            history.end()
            compare(history.aged.path, history.aged.clock.now_ms(), chance, ended)
            continue
        table: Kept = kept_table(tmp_path, f"t{seed}", HOURS, metadata=True)
        for step in range(24):
            move(table, chance)
            if step % 8 == 7:
                compare(table.path, table.clock.now_ms(), chance, ended)
        after = table.write(0)
        table.begin()
        table.put_pending(after)  # no other write completes beside it
        compare(table.path, table.clock.now_ms(), chance, ended)
    print(f"facts that had ended: {ended}")
    if kind == "upkeep":
        assert min(ended[name] for name in ("clean_lag", "files_kept", "timeline")) > 0, ended

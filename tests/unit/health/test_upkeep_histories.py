"""Clean lag, kept files and the timeline of tables with random histories equal the same measures, computed slowly."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.config.requests import CleanRequest
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.health.check import NotHere
from hudi_ops.health.checks import clean_lag, files_kept, timeline
from hudi_ops.health.look import Look
from hudi_ops.services.clean.choose import choose, is_held
from hudi_ops.storage.open import open_storage
from tests.bounds import bound
from tests.tables import table_of
from tests.unit.health.kept_tables import Kept, kept_table, move
from tests.unit.health.slow_clean_lag import slow_clean_lag
from tests.unit.health.slow_files_kept import slow_files_kept
from tests.unit.health.slow_timeline import slow_timeline

KINDS: dict[str, tuple[CleanSettings, dict[str, Any]]] = {
    "commits": (CleanSettings(automatic=True, retain=2), {"table_type": "MERGE_ON_READ"}),
    "hours": (CleanSettings(automatic=True, policy="hours", retain=2), {"metadata": True}),
    "versions": (
        CleanSettings(automatic=True, policy="versions", retain=1),
        {"table_type": "MERGE_ON_READ", "metadata": True},
    ),
}
SLOW = {clean_lag.CHECK: slow_clean_lag, files_kept.CHECK: slow_files_kept, timeline.CHECK: slow_timeline}


@pytest.mark.parametrize("kind", KINDS)
def test_measures_equal_slow_ones(kind: str, tmp_path: Path) -> None:
    told = dict.fromkeys(("share", "age", "files_kept", "ratio"), 0)
    for seed in range(bound(1, 2, 60)):
        chance = random.Random(f"4 {kind} {seed}")
        clean, definition = KINDS[kind]
        upkeep = UpkeepSettings(clean, ArchiveSettings(automatic=True, keep_min=3, keep_max=5))
        table = kept_table(tmp_path, f"{kind}{seed}", upkeep, **definition)
        for step in range(bound(35, 50, 80)):
            move(table, chance)
            compare(table, told, f"{kind}, seed {seed}, step {step}")
    assert min(told.values()) >= bound(1, 3, 100), told


def compare(kept: Kept, told: dict[str, int], said: str) -> None:
    """Compare the measures with slow ones, and with what a clean says of each file."""
    reader = table_of(open_storage(kept.path), kept.clock, "reader")
    now_ms = kept.clock.now_ms()
    look = Look.at(reader._session, now_ms=now_ms)
    for check, slow in SLOW.items():
        facts = check.measure(look)
        assert not isinstance(facts, NotHere)
        judgement = check.judge(facts, getattr(HealthTargets(), check.name), now_ms)
        found = {one.name: one.value for one in judgement.measures}
        assert found == pytest.approx(slow(kept.path, now_ms)), (check.name, said)
        for name, value in found.items():
            told["files_kept" if check is files_kept.CHECK else name] += bool(value)
    compare_with_clean(look, said)


def compare_with_clean(look: Look, said: str) -> None:
    """Compare the bytes with those of a clean's choice, file by file."""
    settings = look.upkeep.clean
    chosen = choose(look.session, look.state, settings.completed(CleanRequest(dry_run=True, full=True)))
    facts = clean_lag.CHECK.measure(look)
    assert isinstance(facts, clean_lag.CleanLagFacts)
    assert facts.lag.bytes == sum(one.file.size_bytes for one in chosen.dropped), said
    # Without a file to delete a clean that moves the earliest instant moves it less far.
    assert facts.lag.earliest == chosen.earliest.instant or not chosen.dropped, said
    held = sum(one.file.size_bytes for reason, of in chosen.kept.items() if is_held(reason) for one in of)
    kept = files_kept.CHECK.measure(look)
    assert isinstance(kept, files_kept.FilesKeptFacts)
    assert kept.kept.bytes >= held, said

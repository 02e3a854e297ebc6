"""The check `clean_lag`: what a clean would delete, and how long it has been due."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.health.check import TABLE
from hudi_ops.health.checks.clean_lag import CHECK, CleanLagFacts
from hudi_ops.table.table import Table
from tests.unit.health.bench import facts_of, judged, mend, value_of
from tests.unit.health.kept_tables import HOUR_MS, RETAIN_TWO, kept_table
from tests.unit.health.states_clean_lag import clean_lag_missed


def test_a_clean_mends_the_lag(tmp_path: Path) -> None:
    path = clean_lag_missed(tmp_path)
    missed = judged(path, CHECK)
    assert [one.is_missed for one in missed.measures] == [True, True]
    assert missed.commands == (("clean", TABLE),)
    explained = Table.open(path).clean.explain().measures
    assert explained["clean_lag.share"] == value_of(missed, "share")
    age_s = value_of(missed, "age")
    assert age_s is not None
    assert explained["clean_lag.age"] == pytest.approx(age_s, abs=60)
    mend(path, missed)
    mended = judged(path, CHECK)
    assert (mended.is_missed, mended.evidence, mended.commands) == (False, (), ())


def test_a_fresh_table_needs_no_clean(tmp_path: Path) -> None:
    table = kept_table(tmp_path)
    for _ in range(3):
        table.write(0)
    fresh = judged(table.path, CHECK)
    assert (value_of(fresh, "share"), value_of(fresh, "age"), fresh.is_missed) == (0.0, None, False)


def test_the_age_counts_from_the_write_that_made_a_file_old_or_from_the_last_clean(tmp_path: Path) -> None:
    table = kept_table(tmp_path, hours=200)
    for _ in range(4):
        table.write(0)
    table.table().clean.run()
    table.clock.advance_ms(100 * HOUR_MS)
    made_ms = table.clock.now_ms()
    for part in (1, 0, 1):  # the first one makes files old which the clean had to leave
        table.write(part)
    facts = facts_of(table.path, CHECK)
    assert isinstance(facts, CleanLagFacts)
    assert facts.lag.since_ms is not None
    assert 0 <= facts.lag.since_ms - made_ms < 1_000, "a table that rested for days is not late"
    assert facts.awaits == 7, "writers of this table clean after ten writes"
    cleaned = replace(facts, lag=replace(facts.lag, clean_ms=made_ms + 5_000_000), awaits=0)
    two_days = made_ms + 5_000_000 + 48 * HOUR_MS
    targets = HealthTargets(clean_lag={"share": 1.0}).clean_lag
    assert not CHECK.judge(cleaned, targets, two_days).is_missed
    late = CHECK.judge(cleaned, targets, two_days + 1)
    assert (late.is_missed, late.since_ms) == (True, two_days)
    assert not CHECK.judge(replace(cleaned, awaits=7), targets, two_days + 1).is_missed, (
        "a writer cleans after seven more"
    )


def test_a_pending_clean_is_executed_first(tmp_path: Path) -> None:
    table = kept_table(tmp_path)
    for number in range(12):
        table.write(0)
        if number == 6:
            planned = table.table().clean.plan().instant
    missed = judged(table.path, CHECK)
    assert missed.commands == (("clean", TABLE, "execute", "--instant", planned), ("clean", TABLE))
    mend(table.path, missed)
    assert judged(table.path, CHECK).measures[0].value == 0.0


def test_facts_hold_until_a_hold_expires_or_an_hour_passes(tmp_path: Path) -> None:
    hours = UpkeepSettings(CleanSettings(automatic=True, policy="hours", retain=1000), ArchiveSettings())
    by_hours, by_commits = kept_table(tmp_path, "by_hours", hours), kept_table(tmp_path, "by_commits", RETAIN_TWO)
    first = by_hours.table()._session.loader.load().timeline.start
    begun_ms = by_hours.clock.now_ms()
    by_hours.write(0)
    until_ms = facts_of(by_hours.path, CHECK).until_ms
    assert until_ms is not None, first
    assert abs(until_ms - begun_ms - 1000 * HOUR_MS) < 1_000
    instant = by_commits.write(0)
    assert facts_of(by_commits.path, CHECK).until_ms is None
    hold = by_commits.table().holds.take(instant, seconds=1_000 * 3600)
    assert facts_of(by_commits.path, CHECK).until_ms == hold.until_ms

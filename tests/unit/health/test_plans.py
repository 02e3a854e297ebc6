"""Pending plans: ages, overdue ones, starved file groups, and the commands that end them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, take_lease
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.check import TABLE
from hudi_ops.health.checks import writers
from hudi_ops.health.checks.plans import CHECK, PlansFacts
from hudi_ops.table.table import Table
from tests.tables import MERGE_ON_READ
from tests.unit.health.aged import HOUR_MS, Aged, batch
from tests.unit.health.bench import facts_of, judged, looked, mend, value_of
from tests.unit.health.slow_plans import slow_plans
from tests.unit.health.states_plans import clustering_starved, plans_missed, plans_of_others

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("state", "missed"),
    [
        (plans_missed, {"age", "overdue", "starved"}),
        (clustering_starved, {"starved"}),
        (plans_of_others, {"age"}),
    ],
)
def test_the_commands_mend_it(tmp_path: Path, state: Callable[[Path], str], missed: set[str]) -> None:
    path = state(tmp_path)
    found = judged(path, CHECK)
    slow = slow_plans(path)
    assert {one.name for one in found.measures if one.is_missed} == missed
    assert [value_of(found, name) for name in ("overdue", "starved")] == [slow["overdue"], slow["starved"]]
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_a_young_plan_becomes_old_and_overdue_with_the_clock_alone(tmp_path: Path) -> None:
    aged = Aged(tmp_path, MERGE_ON_READ, batch("p0", 1), batch("p0", 2), hours=0.5)
    assert aged.table("planner").compaction.plan(cancel="after 6h").instant is not None
    aged.table("writer").ingest(batch("p1", 3))  # its PLAN is below the part of the log that is loaded
    facts, now_ms = facts_of(aged.path, CHECK), aged.clock.now_ms()
    assert isinstance(facts, PlansFacts)
    for after_ms, overdue in ((0, 0), (5.9 * HOUR_MS, 0), (6.1 * HOUR_MS, 1), (DAY_MS + HOUR_MS, 1)):
        found = CHECK.judge(facts, HealthTargets().plans, now_ms + round(after_ms))
        assert value_of(found, "overdue") == overdue
        assert found.measures[0].is_missed == (after_ms > DAY_MS)


def test_file_groups_that_readers_do_not_see_are_not_starved(tmp_path: Path) -> None:
    path = clustering_starved(tmp_path)
    Table.open(path).delete_partition("part=p0")
    left = judged(path, CHECK)
    assert value_of(left, "starved") == 2
    assert {one.name.partition("/")[0] for one in left.evidence} == {"part=p1"}


def test_a_plan_with_a_live_executor_gets_no_command_before_its_lease_expires(tmp_path: Path) -> None:
    aged = Aged(tmp_path, MERGE_ON_READ, batch("p0", 1), batch("p0", 2))
    planned = aged.table("planner").compaction.plan(cancel="after 1h")
    aged.clock.jump_ms(48 * HOUR_MS)
    assert planned.instant is not None
    assert take_lease(aged.table("executor").context, planned.instant, "execute")
    now_ms = aged.clock.now_ms()
    facts = facts_of(aged.path, CHECK)
    live = CHECK.judge(facts, HealthTargets().plans, now_ms)
    assert (live.is_missed, live.commands, value_of(live, "overdue")) == (True, (), 0)
    assert "executes it now" in live.evidence[0].detail
    assert facts.until_ms is not None
    assert now_ms < facts.until_ms <= now_ms + EXPIRY_MS + 60_000
    left = CHECK.judge(facts, HealthTargets().plans, facts.until_ms)
    assert left.commands == (("cancel", TABLE, planned.instant),)
    writers_then = writers.CHECK.measure(looked(aged.path))
    judged_then = writers.CHECK.judge(writers_then, HealthTargets().writers, now_ms + DAY_MS)
    assert not judged_then.is_missed, "the plan waits for its next executor"

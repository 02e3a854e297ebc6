"""Writers that ended: dead leases, silent writes, and the commands that clear them."""

from __future__ import annotations

from pathlib import Path

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.checks.writers import CHECK
from hudi_ops.health.look import LEASES_READ
from hudi_ops.services.recovery.ended_writers import KEPT_MAX
from hudi_ops.timeline.names import instant_of_ms
from tests.tables import DEFINITION
from tests.unit.health.aged import HOUR_MS, Aged, batch
from tests.unit.health.bench import facts_of, judged, mend, value_of
from tests.unit.health.slow_writers import slow_writers
from tests.unit.health.states_writers import silent_write, writers_missed

TEN_MINUTES_MS = 600_000


def test_the_commands_mend_it(tmp_path: Path) -> None:
    path = writers_missed(tmp_path)
    found = judged(path, CHECK)
    assert {one.name: one.value for one in found.measures} == slow_writers(path) == {"dead": 1, "silent": 1}
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_young_writers_are_missed_with_the_clock_alone(tmp_path: Path) -> None:
    aged = Aged(tmp_path, DEFINITION, batch("p0", 1), hours=0.01)
    silent_write(aged)
    aged.put(lease_path(instant_of_ms(aged.clock.now_ms())))
    facts, now_ms = facts_of(aged.path, CHECK), aged.clock.now_ms()
    for after_ms in (0, 9 * 60_000, 10 * 60_000 + 30_000, 24 * HOUR_MS):
        found = CHECK.judge(facts, HealthTargets().writers, now_ms + after_ms)
        assert {one.name: one.value for one in found.measures} == slow_writers(aged.path, now_ms + after_ms)
    assert [one.value for one in found.measures] == [1, 1]


def test_many_dead_writers_are_counted_by_a_few_reads(tmp_path: Path) -> None:
    aged = Aged(tmp_path, DEFINITION, batch("p0", 1))
    for number in range(LEASES_READ + KEPT_MAX + 3):
        instant = instant_of_ms(aged.clock.now_ms() + number)
        aged.put(lease_path(instant))
        aged.date_back(instant, hours=number - 1)  # one beats in the future, one beats now
    found = judged(aged.path, CHECK)
    assert value_of(found, "dead") == LEASES_READ + KEPT_MAX + 1 == slow_writers(aged.path)["dead"]
    mend(aged.path, found)
    assert not judged(aged.path, CHECK).is_missed
    later_ms = SystemClock().now_ms() + 3 * HOUR_MS
    later = CHECK.judge(facts_of(aged.path, CHECK), HealthTargets().writers, later_ms)
    assert value_of(later, "dead") == 2 == slow_writers(aged.path, later_ms)["dead"]

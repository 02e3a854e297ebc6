"""Simulated runs of real ingests: they interfere as their schedules say, and equal schedules leave equal bytes."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import cache

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.choices import ALL_FAULTS, FaultMenu, RandomWalk
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.marks import refuse_unreached
from hudi_ops.testing.simulation import RunRecord, Simulation, explore, replay
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import FIRST, OLD, visible
from tests.protocol.suite import Suite
from tests.tables import DEFINITION, START_MS, made, rows


@cache
def base() -> MemoryStorage:
    return made(DEFINITION, FIRST)


@dataclass(frozen=True)
class TwoIngests:
    """Two writers of overlapping groups, by clocks that differ."""

    name: str = "two ingests"
    menu: FaultMenu | None = None

    def scenario(self) -> Simulation:
        simulation = Simulation(base(), START_MS + 60_000, self.menu)
        later = rows(("k0", "p0", 200, 6, None), ("k9", "p1", 9, 5, None))
        batches = {"a": rows(("k0", "p0", 100, 5, None)), "b": later}
        for (name, batch), skew_ms in zip(batches.items(), itertools.count(0, 7), strict=False):
            simulation.actor(name, lambda ctx, batch=batch: Table(ctx).ingest(batch).instant, skew_ms=skew_ms)
        return simulation

    def check(self, history: RunRecord) -> None:
        assert all(outcome.succeeded for outcome in history.outcomes.values())
        assert verify_table(history.storage, deep=True).findings == ()
        found = visible(history.storage, ManualClock(history.now_ms))
        assert found == {**OLD, "k0": 200, "k9": 9}


SUITE = Suite("ingests", [(TwoIngests(), 40)])


def test_two_ingests_interrupted_once_end_as_one_after_the_other() -> None:
    threads = threading.active_count()
    ((case, floor),) = SUITE.floors
    explored = explore(case.scenario, case.check, preemptions=1, faults=0, limit=None)
    print(f"two ingests, one preemption: {explored}")
    refuse_unreached(["outcome ok"], explored.marks)
    assert explored.schedules + explored.pruned >= floor
    assert explored.states >= 5
    assert threading.active_count() <= threads, "an actor started a thread"


def test_equal_schedules_of_real_ingests_leave_equal_bytes() -> None:
    for seed in range(4):
        case = TwoIngests(menu=FaultMenu(ALL_FAULTS, most=2))
        history = case.scenario().run(RandomWalk(seed))
        assert replay(case.scenario, lambda history: None, history.schedule).digest == history.digest

"""Simulated runs of real ingests: they interfere as their schedules say, and equal schedules leave equal bytes."""

from __future__ import annotations

import itertools
import threading

import pytest

from hudi_ops.table.table import Table
from hudi_ops.testing.choices import ALL_FAULTS, FaultMenu, RandomWalk
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.marks import refuse_unreached
from hudi_ops.testing.simulation import RunRecord, Simulation, explore, replay
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import OLD, START_MS, make_base, rows, visible


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("simulation") / "source", None)


def two_ingests(base, menu: FaultMenu | None = None) -> Simulation:
    """Two writers of overlapping groups, by clocks that differ."""
    simulation = Simulation(base, START_MS + 60_000, menu)
    batches = {"a": rows(("k0", "p0", 100, 5, None)), "b": rows(("k0", "p0", 200, 6, None), ("k9", "p1", 9, 5, None))}
    for (name, batch), skew_ms in zip(batches.items(), itertools.count(0, 7), strict=False):
        simulation.actor(name, lambda ctx, batch=batch: Table(ctx).ingest(batch).instant, skew_ms=skew_ms)
    return simulation


def test_two_ingests_interrupted_once_end_as_one_after_the_other(base) -> None:
    threads = threading.active_count()

    def check(history: RunRecord) -> None:
        assert all(outcome.succeeded for outcome in history.outcomes.values())
        assert verify_table(history.storage, deep=True).findings == ()
        found = visible(history.storage, ManualClock(history.now_ms))
        assert found == {**OLD, "k0": 200, "k9": 9}

    explored = explore(lambda: two_ingests(base), check, preemptions=1, faults=0, limit=None)
    print(f"two ingests, one preemption: {explored}")
    refuse_unreached(["outcome ok"], explored.marks)
    assert explored.schedules + explored.pruned >= 40
    assert explored.states >= 5
    assert threading.active_count() == threads, "an actor started a thread"


def test_equal_schedules_of_real_ingests_leave_equal_bytes(base) -> None:
    for seed in range(4):
        menu = FaultMenu(ALL_FAULTS, most=2)
        history = two_ingests(base, menu).run(RandomWalk(seed))
        assert (
            replay(lambda menu=menu: two_ingests(base, menu), lambda history: None, history.schedule).digest
            == history.digest
        )

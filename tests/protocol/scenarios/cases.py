"""Scenarios for the simulator, each with the oracle that judges its ends: pairs of jobs, of ours and of Apache Hudi's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.context import TableContext
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.simulation import FaultMenu, RunRecord, Simulation
from hudi_ops.testing.steps import Event, Trouble
from tests.protocol.scenarios.actors import Recovers, Writes
from tests.protocol.scenarios.between import context, die_at
from tests.protocol.scenarios.check import Oracle, Outcome
from tests.protocol.scenarios.hudi import Hudi
from tests.protocol.scenarios.services import Executes, Plans
from tests.protocol.scenarios.worlds import REWRITE_A, Job, at, small_table
from tests.tables import NOW_MS

Run = Callable[[TableContext], object]

OF_PROCESSES: frozenset[Trouble] = frozenset({Fault.CRASH_AFTER, Event.PAUSE, Event.SLOW})
OF_STORAGE: frozenset[Trouble] = frozenset({
    Fault.ERROR_BEFORE,
    Fault.ERROR_AFTER,
    Fault.LANDS_LATER,
    Fault.EXISTS_THOUGH_ABSENT,
    Fault.EXISTS_BY_ITSELF,
})
OF_LOCKS: frozenset[Trouble] = frozenset({Event.LOCK_LOST, Event.LOCK_LOST_NOTICED, Event.LOCK_REFUSED})
OF_CLOCKS: frozenset[Trouble] = frozenset({Event.CLOCK_FORWARD, Event.CLOCK_BACK})
EVERYTHING = OF_PROCESSES | OF_STORAGE | OF_LOCKS | OF_CLOCKS
BESIDE_HUDI = OF_PROCESSES | OF_STORAGE - {Fault.LANDS_LATER}
"""A mixed fleet is as safe as its lock and its clocks, which Apache Hudi does not check again (docs/protocol §11). A put of its
that lands once its lock is free is as bad as a lost lock.
"""


@dataclass(frozen=True)
class Case:
    """What acts upon which table, what may go wrong, and what must hold in the end.

    `after` names for an actor the one that must have ended before it starts; `troubled` whom something may happen to, None: all.
    """

    name: str
    runs: Mapping[str, Run]
    oracle: Oracle
    base: Callable[[], MemoryStorage] = small_table
    troubles: frozenset[Trouble] = EVERYTHING
    after: Mapping[str, str] = field(default_factory=dict)
    troubled: frozenset[str] | None = None
    most: int = 1
    jump_ms: int = 3_600_000
    start_ms: int = NOW_MS

    def __str__(self) -> str:
        return self.name

    def scenario(self) -> Simulation:
        """One run's simulation."""
        menu = FaultMenu(self.troubles, self.most, self.troubled, jump_ms=self.jump_ms)
        simulation = Simulation(self.base(), self.start_ms, menu)
        for name, run in self.runs.items():
            earlier = self.after.get(name)
            when = None if earlier is None else _ended(simulation, earlier)
            simulation.actor(name, run, when=when)
        return simulation

    def check(self, history: RunRecord) -> None:
        """Judge the end of a run.

        Raises:
            AssertionError: something does not hold.
        """
        told = {name: Outcome(one.result, one.error) for name, one in history.outcomes.items()}
        self.oracle.judge(history.storage, told)


def _ended(simulation: Simulation, name: str) -> Callable[[], bool]:
    return lambda: simulation.outcome(name) is not None


@cache
def _mixed() -> MemoryStorage:
    storage = at(small_table(), NOW_MS - 30_000)
    Hudi("creator", Job("upsert", (("b2", 2),)))(context(storage, "creator"))
    return at(storage, NOW_MS)


def mixed_table() -> MemoryStorage:
    """The same rows, in a table that Apache Hudi was seen writing to."""
    return _mixed().copy()


def of_jobs(name: str, one: Job, two: Job, troubles: frozenset[Trouble] = EVERYTHING) -> Case:
    """Two of our writers."""
    return Case(name, {"one": Writes(one), "two": Writes(two)}, Oracle({"one": one, "two": two}), troubles=troubles)


def beside_hudi(name: str, ours: Job, theirs: Job, troubles: frozenset[Trouble] = BESIDE_HUDI) -> Case:
    """One of ours and a writer of Apache Hudi, under an honest lock."""
    return Case(
        name,
        {"ours": Writes(ours), "theirs": Hudi("theirs", theirs)},
        Oracle({"ours": ours}, {"theirs": theirs}),
        base=mixed_table,
        troubles=troubles,
    )


def with_dead(job: Job, at: str) -> Callable[[], MemoryStorage]:
    """The table with an attempt of the actor `dead`, which ended right before its first operation of a pattern."""

    @cache
    def made() -> MemoryStorage:
        storage = small_table()
        die_at(storage, "dead", Writes(job), at)
        return storage

    return lambda: made().copy()


def beside_rollback(name: str, job: Job, dead: Job, at: str) -> Case:
    """An ingest, and somebody who rolls back what a third one left; the ingest begins with the same rollback."""
    return Case(
        name,
        {"one": Writes(job), "helper": Recovers()},
        Oracle({"one": job, "dead": dead}),
        base=with_dead(dead, at),
        start_ms=NOW_MS + EXPIRY_MS + 10_000,
    )


@cache
def _planned() -> MemoryStorage:
    storage = small_table()
    Plans(REWRITE_A)(context(storage, "planner"))
    return storage


def planned_table() -> MemoryStorage:
    """The table with a plan to rewrite partition a, which nobody works on yet."""
    return _planned().copy()


def of_services(
    name: str, runs: Mapping[str, Run], jobs: Mapping[str, Job], base: Callable[[], MemoryStorage] = planned_table
) -> Case:
    """Actors of which some plan or execute; what is still planned in the end is executed before all is judged."""
    return Case(name, runs, Oracle({**jobs, "finisher": REWRITE_A}, finish=(Executes(REWRITE_A),)), base=base)

"""Every way in which a clean may be interleaved with savepoints, holds, writers and another clean, and single faults beside.

Promises, whatever the schedule: readers see the rows; a savepoint that was made, and a hold that was given, stay readable; no clean
is left pending once another process has cleaned; `verify` finds nothing. That the search finds a broken one is shown by taking away
what prevents it: the check of the plan in its slot, and the executor's look at the holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, HudiOpsError, InvalidRequest
from hudi_ops.services.clean import draft as module, inputs
from hudi_ops.services.clean.keepers import Keepers
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.simulation import FaultMenu, RunRecord, Simulation
from hudi_ops.testing.steps import Event, Trouble
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.protocol.log_actors import timeline_of
from tests.protocol.suite import SEARCHES, Proof, Suite, explored
from tests.services.clean.cleaned import Judged, judged
from tests.tables import DEFINITION, NOW_MS, by_key, rows, table_of

Run = Callable[[TableContext], object]
HOUR_S = 3_600.0


@cache
def _made() -> Judged:
    return judged(DEFINITION, 5, 0)


@cache
def _planned() -> MemoryStorage:
    storage = _made().storage.copy()
    table_of(storage, ManualClock(NOW_MS - 30_000), "planner").clean.plan(retain=2)
    return storage


def old() -> str:
    """An instant that the clean drops."""
    return list(_made().past)[1]


def cleans(ctx: TableContext) -> str | None:
    instant: str | None = Table(ctx).clean.run(retain=2).instant
    return instant


def executes(ctx: TableContext) -> str | None:
    instant: str | None = Table(ctx).clean.execute().instant
    return instant


def saves(ctx: TableContext) -> str:
    return Table(ctx).savepoints.create(old()).instant


def holds(ctx: TableContext) -> str:
    return Table(ctx).holds.take(old(), seconds=24 * HOUR_S).instant


def writes(ctx: TableContext) -> str | None:
    return Table(ctx).ingest(rows(("k0", "p0", 99, 99, None))).instant


@dataclass(frozen=True)
class CleanCase:
    """Actors beside a clean; `keeps` names those whose instant stays readable once they succeeded."""

    name: str
    runs: Mapping[str, Run]
    keeps: frozenset[str] = frozenset()
    base: Callable[[], MemoryStorage] = lambda: _made().storage.copy()
    troubles: frozenset[Trouble] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return self.name

    def scenario(self) -> Simulation:
        simulation = Simulation(self.base(), NOW_MS, FaultMenu(self.troubles, 1))
        for name, run in self.runs.items():
            simulation.actor(name, run)
        return simulation

    def check(self, history: RunRecord) -> None:
        """Judge the end, then let another process clean and judge again."""
        storage = history.storage
        clock = ManualClock(NOW_MS + 20 * EXPIRY_MS, tick_ms=1)
        wrote = history.outcomes.get("writer")
        wanted = [{"k0": 99}] if wrote is not None and wrote.error is None and wrote.result else [_made().rows]
        if wrote is not None and (wrote.error is not None or not wrote.result):
            wanted.append({"k0": 99})
        kept = [name for name in self.keeps if (end := history.outcomes[name]).error is None and end.result is not None]
        for _ in range(3):
            table = table_of(storage, clock, "judge")
            assert by_key(table) in wanted
            for name in kept:
                assert by_key(table, as_of=old()) == _made().past[old()], f"{name} was promised {old()}"
            clock.advance_ms(EXPIRY_MS + 1_000)
            try:
                table_of(storage, clock, "finisher").clean.run(retain=2)
            except Busy:
                continue
        assert not [one for one in timeline_of(storage).pending if one.action == "clean"]
        clock.advance_ms(EXPIRY_MS + 1_000)
        table_of(storage, clock, "judge").recover()
        assert [one for one in verify_table(storage, deep=True, clock=clock).findings if one.severity == "error"] == []
        for name, end in history.outcomes.items():
            assert end.error is None or isinstance(end.error, HudiOpsError) or self.troubles, f"{name}: {end.error!r}"
            if name in self.keeps and end.error is not None and not self.troubles:
                assert isinstance(end.error, InvalidRequest), f"{name}: {end.error!r}"


SAVEPOINT = CleanCase("clean and savepoint", {"cleaner": cleans, "saver": saves}, frozenset({"saver"}))
HOLD = CleanCase(
    "executor and hold", {"cleaner": executes, "holder": holds}, frozenset({"holder"}), lambda: _planned().copy()
)
TWO = CleanCase("two cleans", {"one": cleans, "two": cleans})
EXECUTORS = CleanCase("two executors", {"one": executes, "two": executes}, base=lambda: _planned().copy())
WRITER = CleanCase("clean and ingest", {"cleaner": cleans, "writer": writes})
CASES: list[tuple[CleanCase, int]] = [(SAVEPOINT, 60), (HOLD, 14), (TWO, 110), (EXECUTORS, 70), (WRITER, 75)]


def without_check(patch: pytest.MonkeyPatch) -> None:
    """The plan is decided as it was chosen, also if a savepoint was made since, and the executor does not look again."""
    patch.setattr(module, "refuse_changed", lambda begun, state: None)
    without_holds(patch)


def without_holds(patch: pytest.MonkeyPatch) -> None:
    """The executor does not look at holds."""
    patch.setattr(inputs, "keepers", lambda session, state: Keepers())


SUITE = Suite(
    "cleans",
    CASES,
    proofs=[
        Proof("the check of a clean's plan in its slot", lambda: SAVEPOINT, without_check, faults=0),
        Proof("the executor's look at the holds", lambda: HOLD, without_holds, faults=0),
    ],
    soak_times=2,
    always=(HOLD, SAVEPOINT),
    quick_proof="the executor's look at the holds",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_a_clean_breaks_a_promise(case: CleanCase, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", SUITE.of_tier(SAVEPOINT, HOLD), ids=str)
def test_no_single_fault_of_a_clean_breaks_a_promise(case: CleanCase) -> None:
    some = frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST} | ({Event.PAUSE, Fault.ERROR_BEFORE} if SOAK else set()))
    assert explored(replace(case, troubles=some), preemptions=0, faults=1) >= 20


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

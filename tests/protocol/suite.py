"""The registry of what the simulator searches: suites of cases with floors, and proofs that a search finds what a guard prevents.

A module of tests makes a `Suite`, which registers itself; `tests/meta/test_counts.py` reads the floors of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pytest
from _pytest.mark import ParameterSet

from hudi_ops.concurrency import transaction
from hudi_ops.context import TableContext
from hudi_ops.storage.claim import Claimed
from hudi_ops.testing.simulation import RunRecord, Simulation, Violation, explore, replay, walk
from hudi_ops.testing.steps import Trouble
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Entry, encode_entry
from tests.bounds import SOAK
from tests.protocol.scenarios.cases import Case

SEARCHES = "searches schedules for many seconds"
"""Why quick leaves a search out."""

Switch = Callable[[pytest.MonkeyPatch], None]


class Searched(Protocol):
    """What the simulator plays, and how it judges an end."""

    @property
    def name(self) -> str: ...

    def scenario(self) -> Simulation: ...

    def check(self, history: RunRecord) -> None: ...


def explored(case: Searched, *, preemptions: int, faults: int, limit: int | None = None) -> int:
    """Try every schedule within the bounds, or the first so many; prints and returns how many runs that took."""
    found = explore(case.scenario, case.check, preemptions=preemptions, faults=faults, limit=limit)
    print(f"{case.name}, {preemptions} preemptions, {faults} faults: {found}")
    return found.schedules + found.pruned


def fresh(case: Case, troubles: Iterable[Trouble]) -> Case:
    """A case as if it had not been judged before, in which only this may go wrong."""
    return replace(case, troubles=frozenset(troubles), oracle=replace(case.oracle, seen=set()))


@dataclass(frozen=True)
class Proof:
    """A guard, how it is taken away, and a case in which a search must then find what it prevents.

    Args:
        name: of the guard.
        case: makes the case.
        switch_off: takes the guard away.
        preemptions: the bounds within which it shows.
        faults: likewise.
        is_wide: all schedules within these bounds take minutes.
        soak: why the soak alone has this proof, if it does.
    """

    name: str
    case: Callable[[], Searched]
    switch_off: Switch
    preemptions: int = 1
    faults: int = 1
    is_wide: bool = False
    soak: str = ""

    def __str__(self) -> str:
        return self.name

    def explore(self, limit: int | None = None) -> None:
        """Try every schedule within the bounds, or the first so many, and say how many there were."""
        case = self.case()
        found = explore(case.scenario, case.check, preemptions=self.preemptions, faults=self.faults, limit=limit)
        print(f"{self}: {found}")

    def refuse_survival(self, patch: pytest.MonkeyPatch) -> None:
        """Take the guard away: some schedule must break a promise now. With the guard the same schedule must not.

        The replay is for proofs whose schedules are not all tried with the guard; those of others may not even fit then.
        """
        with patch.context() as without_guard:
            self.switch_off(without_guard)
            with pytest.raises(Violation) as found:
                self.explore()
        print(f"without {self}: {found.value.schedule!r}")
        if not self.is_wide:
            return
        case = self.case()
        replay(case.scenario, case.check, found.value.schedule)


@dataclass(frozen=True)
class Suite:
    """Cases of one subject, each with how many runs one preemption takes at least: a search that makes fewer has gone blind.

    Args:
        name: of the subject.
        floors: the cases.
        proofs: what the searches find without a guard.
        always: two cases whose schedules every full run explores; quick explores those of the first, which takes the shortest.
        soak_cases: cases of the soak alone, which take a minute each.
        quick_proof: name of the proof that quick has, if any.
        soak_times: so many times the runs that two preemptions take, at least.
    """

    name: str
    floors: Sequence[tuple[Searched, int]] = ()
    proofs: Sequence[Proof] = ()
    always: Sequence[Searched] = ()
    soak_cases: Sequence[Searched] = ()
    soak_times: int = 6
    quick_proof: str = ""

    def __post_init__(self) -> None:
        SUITES[self.name] = self

    @property
    def cases(self) -> list[Searched]:
        """All."""
        return [case for case, _ in self.floors]

    @property
    def names(self) -> set[str]:
        """Of all cases."""
        return {case.name for case in self.cases}

    def of_tier(self, *chosen: Searched) -> list[Searched]:
        """These cases, or all in a soak."""
        return self.cases if SOAK else list(chosen)

    @property
    def rotated(self) -> list[ParameterSet]:
        """Return each case with its floor, for a test that rotates: marks keep those of `always`."""
        marks = (pytest.mark.quick, pytest.mark.full(SEARCHES))
        kept = {id(case): mark for case, mark in zip(self.always, marks, strict=False)}
        kept |= {id(case): pytest.mark.soak(SEARCHES) for case in self.soak_cases}
        return [
            pytest.param(case, floor, id=case.name, marks=[kept[id(case)]] if id(case) in kept else [])
            for case, floor in self.floors
        ]

    @property
    def guards(self) -> list[ParameterSet]:
        """Return each proof, marked with its tier."""

        def marks(proof: Proof) -> list[pytest.MarkDecorator]:
            if proof.soak:
                return [pytest.mark.soak(proof.soak)]
            return [pytest.mark.quick] if proof.name == self.quick_proof else []

        return [pytest.param(proof, id=proof.name, marks=marks(proof)) for proof in self.proofs]

    def schedules(self, case: Searched, floor: int) -> None:
        """Explore the schedules of a case without faults."""
        runs = explored(case, preemptions=2 if SOAK else 1, faults=0)
        assert runs >= floor * (self.soak_times if SOAK else 1)


def drawn(case: Searched, seeds: range, preemptions: int = 2) -> None:
    """Walk schedules that are drawn by seed, with preemptions and a fault of any kind."""
    found = walk(case.scenario, case.check, seeds, preemptions=preemptions, faults=1)
    print(f"{case.name}, seeds {seeds.start} to {seeds.stop - 1}, {preemptions} preemptions, 1 fault: {found}")
    assert found.schedules == len(seeds)


def without_slots(patch: pytest.MonkeyPatch) -> None:
    """Everybody wins every slot, as if each wrote its own file under the lock."""

    def won(ctx: TableContext, slot: int, entry: Entry) -> Claimed:
        body = encode_entry(entry)
        ctx.storage.put(slot_path(slot), body)
        return Claimed(True, body)

    patch.setattr(transaction, "take_slot", won)


SUITES: dict[str, Suite] = {}
"""Every suite whose module was imported, by name."""

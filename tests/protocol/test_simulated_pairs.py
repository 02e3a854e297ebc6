"""Every way in which two writers of one table may be interleaved, with what may go wrong on the way; no row is ever lost.

Goal: what `test_interleavings.py` names is not all there is. Method: the simulator runs each pair under every schedule within
bounds; each end is judged by the pair's oracle: rows as after a serial replay, promises kept, nothing left once another writer came
by. How many schedules there were is printed, and held against what it was when this was written. That the search can find a lost
update is shown by taking away what prevents it: the slot, the epoch, the reading back.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two pairs and a third of the others in turn | two, every pair |
| one fault of any kind | three pairs in turn | every pair |
| one death, or a lock lost in silence | one pair more in turn | - |
| preemptions and a death or a lock lost in silence | one, one pair | two, every pair |
| two preemptions and a fault of any kind, drawn by seed | 50 seeds for one pair | 2,000 for every pair |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency import attempt_status as standing
from hudi_ops.storage import claim
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event, Trouble
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cases import Case, beside_hudi, beside_rollback, of_jobs, of_services
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.services import Executes, Plans
from tests.protocol.scenarios.worlds import (
    ALSO_A,
    DELETE_A,
    DELETE_B,
    DROP_A,
    DROP_B,
    REWRITE_A,
    UPSERT_A,
    UPSERT_B,
    small_table,
)
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh, without_slots

UNAPPLIED = r"put_if_absent:.hoodie/timeline/\d+_"
"""Where an attempt dies that was decided: right before its completed file."""

SAME_GROUP = of_jobs("two ingests of one group", UPSERT_A, ALSO_A)
TAKEOVER = of_services(
    "executor and takeover",
    {"one": Executes(REWRITE_A), "two": Executes(REWRITE_A)},
    {"one": REWRITE_A, "two": REWRITE_A},
)
BESIDE_HUDI = beside_hudi("ingest and Apache Hudi on one group", UPSERT_A, ALSO_A)
UNWATCHED = Case(
    "two ingests that do not look out",
    {"one": Writes(UPSERT_A, early=False), "two": Writes(ALSO_A, early=False)},
    Oracle({"one": UPSERT_A, "two": ALSO_A}),
)
UNWRITTEN = beside_rollback("ingest and rollback of unwritten files", UPSERT_A, ALSO_A, "put:part=a")

PAIRS: list[tuple[Case, int]] = [
    (SAME_GROUP, 48),
    (of_jobs("two ingests of two groups", UPSERT_A, UPSERT_B), 40),
    (of_jobs("ingest and delete of one group", UPSERT_A, DELETE_A), 48),
    (of_jobs("ingest and delete of two groups", UPSERT_A, DELETE_B), 40),
    (of_jobs("ingest and removal of one partition", UPSERT_A, DROP_A), 50),
    (of_jobs("ingest and removal of another partition", UPSERT_A, DROP_B), 44),
    (UNWRITTEN, 100),
    (beside_rollback("ingest and rollback of written files", UPSERT_A, ALSO_A, "put_if_absent:.hoodie/.commit_log/0"), 100),
    (beside_rollback("ingest and what was decided, not applied", UPSERT_A, ALSO_A, UNAPPLIED), 15),
    (
        of_services(
            "ingest and planner", {"one": Writes(UPSERT_A), "planner": Plans(REWRITE_A)}, {"one": UPSERT_A}, small_table
        ),
        31,
    ),
    (
        of_services(
            "ingest and executor",
            {"one": Writes(UPSERT_A), "two": Executes(REWRITE_A)},
            {"one": UPSERT_A, "two": REWRITE_A},
        ),
        60,
    ),
    (TAKEOVER, 50),
    (BESIDE_HUDI, 35),
    (beside_hudi("ingest and Apache Hudi on two groups", UPSERT_A, UPSERT_B), 30),
]  # fmt: skip
"""Each pair, and how many runs one preemption takes, at least: a search that makes fewer has gone blind."""

LATE_BESIDE_HUDI = replace(
    BESIDE_HUDI,
    name="ingest whose puts land later and Apache Hudi",
    troubles=frozenset({Fault.LANDS_LATER}),
    troubled=frozenset({"ours"}),
)
DEADLY: frozenset[Trouble] = frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST})
DISTURBED = [
    replace(SAME_GROUP, troubles=DEADLY),
    replace(TAKEOVER, troubled=frozenset({"one"})),
    BESIDE_HUDI,
    LATE_BESIDE_HUDI,
]
"""Pairs of which one fault is tried in every run of the tests, at each operation, without preemptions; of the first, which has
the most of them, only what ends a writer or lets another in; of the second to one of the two, which do the same."""


def without_epochs(patch: pytest.MonkeyPatch) -> None:
    """A worker does not notice that its instant was given to another."""
    patch.setattr(standing, "refuse_taken_over", lambda attempt, state: None)


def without_reading_back(patch: pytest.MonkeyPatch) -> None:
    """A put that failed is taken for another's win."""
    patch.setattr(claim, "is_own", lambda body, decision_id, read_id: False)


SUITE = Suite(
    "pairs",
    PAIRS,
    proofs=[
        Proof("the slot", lambda: fresh(UNWATCHED, {Event.LOCK_LOST}), without_slots),
        Proof("the epoch", lambda: fresh(TAKEOVER, {Event.PAUSE}), without_epochs),
        Proof(
            "the reading back",
            lambda: fresh(SAME_GROUP, {Fault.ERROR_AFTER, Fault.EXISTS_BY_ITSELF}),
            without_reading_back,
        ),
    ],
    always=(SAME_GROUP, TAKEOVER),
    quick_proof="the reading back",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_a_pair_loses_a_row(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", [*SUITE.cases, LATE_BESIDE_HUDI] if SOAK else DISTURBED, ids=str)
def test_no_single_fault_of_a_pair_loses_a_row(case: Case) -> None:
    assert explored(case, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(BESIDE_HUDI), ids=str)
def test_no_death_or_lost_lock_amid_preemptions_loses_a_row(case: Case) -> None:
    deadly = replace(case, troubles=case.troubles & DEADLY)
    assert explored(deadly, preemptions=2 if SOAK else 1, faults=1) >= 200


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(SAME_GROUP), ids=str)
def test_no_drawn_schedule_of_a_pair_loses_a_row(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 50))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

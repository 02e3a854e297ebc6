"""Every way in which compactions, their executors and ingestion may be interleaved, with what may go wrong on the way.

As in `test_simulated_pairs`, upon a merge-on-read table. Ingestion is never refused here, nor made to wait: every one of these jobs
lands unless its own process ends. That the search finds a lost row is shown by taking away what prevents it: the plan that is
brought up to date in its slot, the log files below its instant that are looked for when it completes, the epoch.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a third of the others in turn | two, every case |
| one fault | a death or a lock lost in silence, two cases in turn | any kind, every case |
| a preemption and a death, a pause or a lock lost in silence | the lock, one case | every case |
| two preemptions and a fault of any kind, drawn by seed | 30 seeds for one case | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency import attempt_status as standing
from hudi_ops.services.compaction.service import CompactionDraft
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event, Trouble
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cases import Case
from tests.protocol.scenarios.compactions import Compacts, PlansCompaction, after_death, of_compactions
from tests.protocol.scenarios.worlds import ALSO_A, DELETE_A, DROP_A, OVERWRITE_A, UPSERT_A, logged_table
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh

PLANNER = of_compactions(
    "ingest and planner", {"one": Writes(UPSERT_A), "planner": PlansCompaction()}, {"one": UPSERT_A}, logged_table
)
EXECUTOR = of_compactions("ingest and executor", {"one": Writes(UPSERT_A), "two": Compacts()}, {"one": UPSERT_A})
EXECUTORS = of_compactions("two executors", {"one": Compacts(), "two": Compacts()}, {})
THREE = replace(
    of_compactions(
        "ingest, planner and executor",
        {"one": Writes(UPSERT_A), "planner": PlansCompaction(), "two": Compacts()},
        {"one": UPSERT_A},
        logged_table,
    ),
    after={"two": "planner"},
)
COMPACTIONS: list[tuple[Case, int]] = [
    (PLANNER, 30),
    (EXECUTOR, 50),
    (EXECUTORS, 50),
    (THREE, 60),
    (
        of_compactions("delete and executor", {"one": Writes(DELETE_A), "two": Compacts()}, {"one": DELETE_A}),
        50,
    ),
    (
        of_compactions("overwrite and executor", {"one": Writes(OVERWRITE_A), "two": Compacts()}, {"one": OVERWRITE_A}),
        50,
    ),
    (of_compactions("removal and executor", {"one": Writes(DROP_A), "two": Compacts()}, {"one": DROP_A}), 40),
    (
        of_compactions("removal and planner", {"one": Writes(DROP_A), "planner": PlansCompaction()}, {"one": DROP_A}, logged_table),
        30,
    ),
    (after_death("ingest and resume before the inflight", r"put_if_absent:.hoodie/timeline/\d+\.compaction\.inflight", ALSO_A), 50),
    (after_death("ingest and resume before the second file", "put:part=b", ALSO_A), 50),
    (after_death("ingest and resume before the slot", r"put_if_absent:.hoodie/.commit_log/0", ALSO_A), 50),
    (after_death("ingest and resume before the completed file", r"put_if_absent:.hoodie/timeline/\d+_", ALSO_A), 15),
]  # fmt: skip
"""Each case, and how many runs one preemption takes, at least."""
DEADLY: frozenset[Trouble] = frozenset({Fault.CRASH_AFTER, Event.PAUSE, Event.LOCK_LOST})


def without_revision(patch: pytest.MonkeyPatch) -> None:
    """What completes while a plan is made is left out of it, without a check that notices."""
    patch.setattr(CompactionDraft, "revise", lambda self, state: self.draft())
    patch.setattr("hudi_ops.services.compaction.service.refuse_missing_log_files", lambda *_, **__: None)


def without_epochs(patch: pytest.MonkeyPatch) -> None:
    """An executor does not notice that its plan was given to another."""
    patch.setattr(standing, "refuse_taken_over", lambda attempt, state: None)


SUITE = Suite(
    "compactions",
    COMPACTIONS,
    proofs=[
        Proof("the plan that is brought up to date", lambda: fresh(THREE, ()), without_revision, faults=0),
        Proof("the epoch", lambda: fresh(EXECUTORS, {Event.PAUSE}), without_epochs),
    ],
    always=(PLANNER, EXECUTOR),
    quick_proof="the plan that is brought up to date",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_a_compaction_loses_a_row(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", SUITE.of_tier(PLANNER, EXECUTORS), ids=str)
def test_no_single_fault_of_a_compaction_loses_a_row(case: Case) -> None:
    troubled = case if SOAK else replace(case, troubles=frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST}))
    assert explored(troubled, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(EXECUTORS), ids=str)
def test_no_death_pause_or_lost_lock_amid_a_preemption_loses_a_row(case: Case) -> None:
    # Both executors do the same: what happens to one of them happens to the other in the soak.
    lost = replace(case, troubles=case.troubles & {Event.LOCK_LOST}, troubled=frozenset({"one"}))
    deadly = replace(case, troubles=case.troubles & DEADLY) if SOAK else lost
    assert explored(deadly, preemptions=1, faults=1) >= 60


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(THREE), ids=str)
def test_no_drawn_schedule_of_a_compaction_loses_a_row(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 30))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

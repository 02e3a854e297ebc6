"""Every way in which cancels, executors, cleaners and ingestion may be interleaved around one plan that replaces groups.

As in `tests/protocol/test_simulated_pairs.py`. The plan gives way to ingestion. On a table that Apache Hudi writes to as well, its
executor may begin the plan at any moment, but not stall between its look at the requested file and its inflight file for longer
than a withdrawal waits: that takes two preemptions, and loses the write (docs/protocol §26, step 10). That the search finds lost
rows is shown by taking away what prevents them.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a third of the others in turn | two, every case |
| one fault | a death or a lock lost in silence, two cases in turn | any kind, every case |
| two preemptions and a fault of any kind, drawn by seed | 20 seeds for one case | 2,000 for every pair, 10,000 for all at once |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.commit.decide.plan_cancels import PlanCancels
from hudi_ops.commit.recover import sweep
from hudi_ops.concurrency import attempt_status
from hudi_ops.concurrency.lease import monitor
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.services.base import execute
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event, Trouble
from tests.bounds import SOAK, bound
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cancels import (
    PLANS,
    Aborts,
    CancelsOverdue,
    HudiExecutes,
    Requests,
    beside_hudi,
    of_cancels,
    with_dead_executor,
)
from tests.protocol.scenarios.cases import Case
from tests.protocol.scenarios.hudi import Hudi
from tests.protocol.scenarios.services import Executes
from tests.protocol.scenarios.worlds import ALSO_A, REWRITE_A, UPSERT_A, UPSERT_B, small_table
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh, without_slots
from tests.tables import NOW_MS

EXECUTOR = Executes(REWRITE_A)
INGEST_EXECUTOR = of_cancels("ingest and executor", {"one": Writes(UPSERT_A), "two": EXECUTOR}, {"one": UPSERT_A})
REQUEST_EXECUTOR = of_cancels("request and executor", {"user": Requests(), "two": EXECUTOR}, {})
ABORT_EXECUTOR = of_cancels("abort and executor", {"user": Aborts(), "two": EXECUTOR}, {})
HUDI_EXECUTES = beside_hudi(
    "ingest and Apache Hudi executes the plan",
    {"one": Writes(UPSERT_A), "theirs": HudiExecutes("theirs")},
    {"one": UPSERT_A},
    REWRITE_A,
)
ALL = replace(
    of_cancels(
        "planner, executors, request, ingest and cleaner",
        {
            "planner": PLANS,
            "two": EXECUTOR,
            "three": EXECUTOR,
            "user": Aborts(),
            "one": Writes(UPSERT_A),
            "cleaner": CancelsOverdue(),
        },
        {"one": UPSERT_A},
        small_table,
    ),
    after={"two": "planner"},
)
CASES: list[tuple[Case, int]] = [
    (INGEST_EXECUTOR, 72),
    (of_cancels("ingest elsewhere and executor", {"one": Writes(UPSERT_B), "two": EXECUTOR}, {"one": UPSERT_B}), 36),
    (of_cancels("two ingests", {"one": Writes(UPSERT_A), "two": Writes(ALSO_A)}, {"one": UPSERT_A, "two": ALSO_A}), 64),
    (of_cancels("ingest and abort", {"one": Writes(UPSERT_A), "user": Aborts()}, {"one": UPSERT_A}), 54),
    (REQUEST_EXECUTOR, 28),
    (ABORT_EXECUTOR, 56),
    (of_cancels("two aborts", {"user": Aborts(), "other": Aborts()}, {}), 56),
    (of_cancels("abort and cleaner", {"user": Aborts(), "cleaner": CancelsOverdue()}, {}), 33),
    (of_cancels("executor and cleaner", {"two": EXECUTOR, "cleaner": CancelsOverdue()}, {}), 10),
    (of_cancels("two executors", {"one": EXECUTOR, "two": EXECUTOR}, {}), 52),
    (
        of_cancels(
            "abort of a dead executor's plan, and ingest",
            {"user": Aborts(), "one": Writes(UPSERT_A)},
            {"one": UPSERT_A},
            with_dead_executor(r"put_if_absent:.hoodie/.commit_log/0"),
            start_ms=NOW_MS + EXPIRY_MS + 10_000,
        ),
        54,
    ),
    (HUDI_EXECUTES, 36),
    (
        beside_hudi(
            "request and Apache Hudi executes the plan",
            {"user": Requests(), "theirs": HudiExecutes("theirs")},
            {},
            REWRITE_A,
        ),
        36,
    ),
    (
        beside_hudi(
            "ingest and Apache Hudi writes the group",
            {"one": Writes(UPSERT_A), "theirs": Hudi("theirs", ALSO_A)},
            {"one": UPSERT_A},
            ALSO_A,
        ),
        60,
    ),
]
"""Each case, and how many runs one preemption takes, at least."""
DEADLY: frozenset[Trouble] = frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST})


def without_the_withdrawal(patch: pytest.MonkeyPatch) -> None:
    """The requested file stays until the plan is removed."""
    patch.setattr(PlanCancels, "is_shared", lambda self, state: False)


def without_the_check(patch: pytest.MonkeyPatch) -> None:
    """An executor decides its completion without a look at CANCELs."""
    patch.setattr(attempt_status, "refuse_decided", lambda attempt, state: None)
    for module in (monitor, execute):
        patch.setattr(module, "refuse_superseded", lambda log, instant, epoch: None)


def without_the_second_look(patch: pytest.MonkeyPatch) -> None:
    """No process looks for files that came after the removal of a plan."""
    patch.setattr(sweep, "files_of", lambda session, state, instant: [])


SUITE = Suite(
    "cancels",
    CASES,
    proofs=[
        Proof(
            "the slot",
            lambda: fresh(INGEST_EXECUTOR, {Event.LOCK_LOST}),
            without_slots,
            soak="pairs of writers prove this guard in full",
        ),
        Proof("the check for a CANCEL", lambda: fresh(ABORT_EXECUTOR, ()), without_the_check, faults=0),
        Proof("the second look", lambda: fresh(ABORT_EXECUTOR, {Fault.LANDS_LATER}), without_the_second_look),
        Proof("the withdrawal", lambda: fresh(HUDI_EXECUTES, ()), without_the_withdrawal, faults=0),
    ],
    # An executor and a cleaner meet in few steps: two preemptions take four times as many runs as one.
    soak_times=4,
    always=(REQUEST_EXECUTOR, INGEST_EXECUTOR),
    quick_proof="the check for a CANCEL",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_a_cancel_loses_a_row(case: Case, floor: int) -> None:
    if case is HUDI_EXECUTES:
        assert explored(case, preemptions=1, faults=0) >= floor
    else:
        SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", SUITE.of_tier(INGEST_EXECUTOR, HUDI_EXECUTES), ids=str)
def test_no_single_fault_of_a_cancel_loses_a_row(case: Case) -> None:
    troubled = case if SOAK else replace(case, troubles=case.troubles & DEADLY)
    assert explored(troubled, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", [ALL, *SUITE.of_tier()], ids=str)
def test_no_drawn_schedule_of_a_cancel_loses_a_row(case: Case) -> None:
    drawn(case, range(bound(20, 20, 10_000 if case is ALL else 2_000)), 1 if case is HUDI_EXECUTES else 2)


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

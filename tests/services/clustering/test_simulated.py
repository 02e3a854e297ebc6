"""Every way in which clusterings, their executors, cancels and ingestion may be interleaved, with what may go wrong on the way.

As in `tests/protocol/test_simulated_pairs.py`. The plan has one group in each of two partitions; an ingest touches one of them or
both. Ingestion is never refused by the plan, nor made to wait. That the search finds a lost row is shown by taking away what
prevents it: the groups that are left out, the draft that is revised in its slot, the epoch.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a third of the others in turn | two, every case |
| one fault | a death or a lock lost in silence, two cases in turn | any kind, every case |
| two preemptions and a fault of any kind, drawn by seed | 20 seeds for two cases in turn | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency import attempt_status as standing
from hudi_ops.services.clustering.service import ClusteringDraft
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cancels import Aborts, Requests
from tests.protocol.scenarios.cases import Case
from tests.protocol.scenarios.clusterings import (
    PLANS,
    REWRITE,
    PlansCompactionFirst,
    after_death,
    of_clusterings,
    planned_logs,
)
from tests.protocol.scenarios.compactions import Compacts
from tests.protocol.scenarios.services import Executes
from tests.protocol.scenarios.worlds import (
    ALSO_A,
    DELETE_A,
    DROP_A,
    OVERWRITE_A,
    UPSERT_A,
    UPSERT_B,
    Job,
    logged_table,
    small_table,
)
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh

UPSERT_BOTH = Job("upsert", (("a1", 501), ("b1", 502)))
EXECUTOR = of_clusterings("ingest and executor", {"one": Writes(UPSERT_A), "two": Executes(REWRITE)}, {"one": UPSERT_A})
PLANNER = of_clusterings(
    "ingest and planner", {"one": Writes(UPSERT_A), "planner": PLANS}, {"one": UPSERT_A}, small_table
)
EXECUTORS = of_clusterings("two executors", {"one": Executes(REWRITE), "two": Executes(REWRITE)}, {})
BOTH = of_clusterings(
    "two ingests of both groups, and executor",
    {"one": Writes(UPSERT_A), "other": Writes(UPSERT_B), "two": Executes(REWRITE)},
    {"one": UPSERT_A, "other": UPSERT_B},
)
OUTRANKED = of_clusterings(
    "planner of a higher priority, and executor",
    {"planner": PlansCompactionFirst(), "two": Executes(REWRITE)},
    {},
    planned_logs,
    also=(Compacts(),),
)
ALL = replace(
    of_clusterings(
        "planner, executors, ingests and cancel",
        {
            "planner": PLANS,
            "two": Executes(REWRITE),
            "three": Executes(REWRITE),
            "one": Writes(UPSERT_A),
            "other": Writes(UPSERT_B),
            "user": Aborts(),
        },
        {"one": UPSERT_A, "other": UPSERT_B},
        logged_table,
    ),
    after={"two": "planner"},
)
CASES: list[tuple[Case, int]] = [
    (EXECUTOR, 50),
    (PLANNER, 30),
    (EXECUTORS, 50),
    (
        of_clusterings(
            "ingest and executor, with log files",
            {"one": Writes(UPSERT_A), "two": Executes(REWRITE)},
            {"one": UPSERT_A},
            planned_logs,
        ),
        50,
    ),
    (of_clusterings("ingest of all groups", {"one": Writes(UPSERT_BOTH), "two": Executes(REWRITE)}, {"one": UPSERT_BOTH}), 50),
    (of_clusterings("delete and executor", {"one": Writes(DELETE_A), "two": Executes(REWRITE)}, {"one": DELETE_A}), 50),
    (of_clusterings("overwrite and executor", {"one": Writes(OVERWRITE_A), "two": Executes(REWRITE)}, {"one": OVERWRITE_A}), 50),
    (of_clusterings("removal and executor", {"one": Writes(DROP_A), "two": Executes(REWRITE)}, {"one": DROP_A}), 40),
    (OUTRANKED, 30),
    (of_clusterings("request and executor", {"user": Requests(), "two": Executes(REWRITE)}, {}), 28),
    (after_death("ingest and resume before the second file", "put:part=b", ALSO_A), 50),
    (after_death("ingest and resume before the slot", r"put_if_absent:.hoodie/.commit_log/0", ALSO_A), 50),
    (after_death("ingest and resume before the completed file", r"put_if_absent:.hoodie/timeline/\d+_", ALSO_A), 15),
]  # fmt: skip
"""Each case, and how many runs one preemption takes, at least."""


def without_leaving_out(patch: pytest.MonkeyPatch) -> None:
    """The executor completes all groups of its plan, without a check that notices."""
    patch.setattr("hudi_ops.services.base.execute.leave_out_touched", lambda service, run: 0)
    patch.setattr("hudi_ops.commit.decide.complete.refuse_completed", lambda *_, **__: None)


def without_revision(patch: pytest.MonkeyPatch) -> None:
    """A plan keeps the groups that were written to while it was made."""
    patch.setattr(ClusteringDraft, "revise", lambda self, state: self.draft())
    without_leaving_out(patch)


def without_epochs(patch: pytest.MonkeyPatch) -> None:
    """An executor does not notice that its plan was given to another."""
    patch.setattr(standing, "refuse_taken_over", lambda attempt, state: None)


SUITE = Suite(
    "clusterings",
    CASES,
    proofs=[
        Proof("the groups that are left out", lambda: fresh(EXECUTOR, ()), without_leaving_out, faults=0),
        Proof("the draft that is revised", lambda: fresh(PLANNER, ()), without_revision, faults=0),
        Proof(
            "the epoch",
            lambda: fresh(EXECUTORS, {Event.PAUSE}),
            without_epochs,
            soak="compactions prove this guard of every service in full",
        ),
    ],
    always=(PLANNER, EXECUTOR),
    quick_proof="the groups that are left out",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_a_clustering_loses_a_row(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", SUITE.of_tier(EXECUTOR, EXECUTORS), ids=str)
def test_no_single_fault_of_a_clustering_loses_a_row(case: Case) -> None:
    troubled = case if SOAK else replace(case, troubles=frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST}))
    assert explored(troubled, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", [ALL, BOTH, *SUITE.of_tier()], ids=str)
def test_no_drawn_schedule_of_a_clustering_loses_a_row(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 20))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

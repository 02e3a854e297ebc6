"""Every way in which resizes, their executors, cancels and ingestion may be interleaved, with what may go wrong on the way.

As in `tests/services/clustering/test_simulated.py`. A plan splits the bucket of each of two partitions, or merges two buckets; an
ingest touches one partition or both. The later of two commits counts, so the order of log files shows in the rows. Beside the
rows `RingOracle` judges rings, groups and plans. Writes never cost a plan a group, unless they replace it.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a quarter of the others in turn | two, every case |
| one fault | a death, one case | any kind, every case |
| two preemptions and a fault of any kind, drawn by seed | 12 seeds for one case | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency import attempt_status as standing
from hudi_ops.services.write.dual.writer import DualWriter
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cancels import Aborts, Requests
from tests.protocol.scenarios.cases import Case
from tests.protocol.scenarios.resizes import (
    PlansResize,
    Resizes,
    after_death,
    dual_written,
    of_resizes,
    planned_merges,
    ringed_table,
)
from tests.protocol.scenarios.worlds import ALSO_A, DELETE_A, DROP_A, OVERWRITE_A, UPSERT_A, UPSERT_B, Job
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh

LOW_A = Job("upsert", (("a1", 101), ("a3", 103)))
HIGH_A = Job("upsert", (("a2", 202), ("a7", 207)))
"""Writes into the two buckets of one partition, which become one."""
UPSERT_BOTH = Job("upsert", (("a1", 501), ("b1", 502)))
PLANNER = of_resizes(
    "ingest and planner", {"one": Writes(UPSERT_A), "planner": PlansResize()}, {"one": UPSERT_A}, ringed_table
)
EXECUTOR = of_resizes("ingest and executor", {"one": Writes(UPSERT_A), "two": Resizes()}, {"one": UPSERT_A})
EXECUTORS = of_resizes("two executors", {"one": Resizes(), "two": Resizes()}, {})
MERGED = of_resizes(
    "two ingests into one child",
    {"one": Writes(LOW_A), "other": Writes(HIGH_A)},
    {"one": LOW_A, "other": HIGH_A},
    planned_merges,
)
ABORTED = of_resizes("abort and executor", {"user": Aborts(), "two": Resizes()}, {}, dual_written)
WITHDRAWN = of_resizes("ingest and abort", {"one": Writes(UPSERT_A), "user": Aborts()}, {"one": UPSERT_A}, dual_written)
RESUMED = after_death("ingest and resume before the ring file", r"put_if_absent:.hoodie/.bucket_index", ALSO_A)
ALL = replace(
    of_resizes(
        "planner, executors, ingests and abort",
        {
            "planner": PlansResize(),
            "two": Resizes(),
            "three": Resizes(),
            "one": Writes(UPSERT_A),
            "other": Writes(UPSERT_B),
            "user": Aborts(),
        },
        {"one": UPSERT_A, "other": UPSERT_B},
        ringed_table,
    ),
    after={"two": "planner"},
)
CASES: list[tuple[Case, int]] = [
    (EXECUTOR, 80),
    (PLANNER, 30),
    (EXECUTORS, 80),
    (MERGED, 50),
    (ABORTED, 90),
    (WITHDRAWN, 70),
    (RESUMED, 70),
    (of_resizes("ingest and request", {"one": Writes(UPSERT_A), "user": Requests()}, {"one": UPSERT_A}), 20),
    (
        of_resizes(
            "ingest and executor of a merge",
            {"one": Writes(LOW_A), "two": Resizes()},
            {"one": LOW_A},
            planned_merges,
        ),
        80,
    ),
    (of_resizes("ingest of all groups", {"one": Writes(UPSERT_BOTH), "two": Resizes()}, {"one": UPSERT_BOTH}), 80),
    (of_resizes("delete and executor", {"one": Writes(DELETE_A), "two": Resizes()}, {"one": DELETE_A}), 80),
    (
        of_resizes(
            "overwrite and executor", {"one": Writes(OVERWRITE_A), "two": Resizes()}, {"one": OVERWRITE_A}, dual_written
        ),
        90,
    ),
    (of_resizes("removal and executor", {"one": Writes(DROP_A), "two": Resizes()}, {"one": DROP_A}, dual_written), 90),
    (after_death("ingest and resume before the second file", "put:part=b", ALSO_A), 80),
    (after_death("ingest and resume before the slot", r"put_if_absent:.hoodie/.commit_log/0", ALSO_A), 90),
    (after_death("ingest and resume before the completed file", r"put_if_absent:.hoodie/timeline/\d+_", ALSO_A), 80),
]  # fmt: skip
"""Each case, and how many runs one preemption takes, at least."""


def without_late_dual_write(patch: pytest.MonkeyPatch) -> None:
    """A write that finds a resize only under the lock completes as it is."""
    patch.setattr(DualWriter, "fits", lambda self, state: True)


def without_leaving_out(patch: pytest.MonkeyPatch) -> None:
    """The same, and the executor completes all groups of its plan without a check that notices."""
    without_late_dual_write(patch)
    patch.setattr("hudi_ops.services.base.execute.leave_out_touched", lambda service, run: 0)
    patch.setattr("hudi_ops.services.resize.service.refuse_touched", lambda service, run, state: None)


def without_child_versions(patch: pytest.MonkeyPatch) -> None:
    """A write keeps the versions of its child logs that another write took first."""
    patch.setattr(DualWriter, "_rises", lambda self, state, resize, logs: True)


def without_logs_of_completed_writers(patch: pytest.MonkeyPatch) -> None:
    """An abort removes what the executor announced, and no more."""
    patch.setattr("hudi_ops.commit.owned.find._of_resize", lambda session, state, instant: set())


def without_epochs(patch: pytest.MonkeyPatch) -> None:
    """An executor does not notice that its plan was given to another."""
    patch.setattr(standing, "refuse_taken_over", lambda attempt, state: None)


SUITE = Suite(
    "resizes",
    CASES,
    proofs=[
        Proof("the late dual write", lambda: fresh(PLANNER, ()), without_late_dual_write, faults=0),
        Proof("the groups that are left out", lambda: fresh(PLANNER, ()), without_leaving_out, faults=0),
        Proof("the version of a child log", lambda: fresh(MERGED, ()), without_child_versions, faults=0),
        Proof(
            "the abort of completed writers' logs",
            lambda: fresh(ABORTED, ()),
            without_logs_of_completed_writers,
            faults=0,
        ),
        Proof(
            "the epoch",
            lambda: fresh(EXECUTORS, {Event.PAUSE}),
            without_epochs,
            soak="compactions prove this guard of every service in full",
        ),
    ],
    always=(PLANNER, EXECUTOR),
    quick_proof="the version of a child log",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_a_resize_breaks_a_ring_or_loses_a_row(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(EXECUTOR), ids=str)
def test_no_single_fault_of_a_resize_breaks_a_ring_or_loses_a_row(case: Case) -> None:
    troubled = case if SOAK else replace(case, troubles=frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST}))
    assert explored(troubled, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", [ALL, *SUITE.of_tier()], ids=str)
def test_no_drawn_schedule_of_a_resize_breaks_a_ring_or_loses_a_row(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 12))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

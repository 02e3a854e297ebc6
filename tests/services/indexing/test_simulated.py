"""Index builds, their planners, executors and cancels beside writers, under every schedule within bounds.

Promises, whatever the schedule: the rows are those of a serial replay, for a reader that lists storage and for one that uses the
metadata table; once everything is settled, the indexes equal the files, and no part of a build is left.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a quarter of the others in turn | two, every case |
| one fault | a death, one case | any kind, every case |
| two preemptions and a fault of any kind, drawn by seed | 15 seeds for one case | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.commit.apply import metadata_delta
from hudi_ops.services.indexing.filling import build as module, catch_up
from hudi_ops.services.indexing.filling.catch_up import CatchUp
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.builds import (
    KEYS,
    AbortsBuild,
    Builds,
    ExecutesBuild,
    PlansBuild,
    of_builds,
    planned_beside_clean,
    planned_beside_write,
    planned_first,
    planned_listed,
)
from tests.protocol.scenarios.cases import BESIDE_HUDI, Case
from tests.protocol.scenarios.indexed_hudi import HudiCleans, HudiWrites, HudiWritesLate, with_foreign_clean
from tests.protocol.scenarios.worlds import ALSO_A, DELETE_A, DROP_A, OVERWRITE_A, UPSERT_A, Job, indexed_table
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh

EXECUTOR = of_builds("ingest and executor", {"one": Writes(UPSERT_A), "two": ExecutesBuild()}, {"one": UPSERT_A})
FIRST = of_builds(
    "ingest and first build", {"one": Writes(UPSERT_A), "two": ExecutesBuild()}, {"one": UPSERT_A}, planned_first
)
DELETED = of_builds("delete and executor", {"one": Writes(DELETE_A), "two": ExecutesBuild()}, {"one": DELETE_A})
PLANNER = of_builds(
    "ingest and build in one call", {"one": Writes(UPSERT_A), "two": Builds()}, {"one": UPSERT_A}, indexed_table
)
EXECUTORS = of_builds("two executors", {"one": ExecutesBuild(), "two": ExecutesBuild()}, {})
ABORTED = of_builds("abort and executor", {"user": AbortsBuild(), "two": ExecutesBuild()}, {})
ALL = replace(
    of_builds(
        "planner, executors, ingests and abort",
        {
            "planner": PlansBuild(),
            "two": ExecutesBuild(),
            "three": ExecutesBuild(),
            "one": Writes(UPSERT_A),
            "other": Writes(ALSO_A),
            "user": AbortsBuild(),
        },
        {"one": UPSERT_A, "other": ALSO_A},
        indexed_table,
    ),
    after={"two": "planner"},
)
STRANGER = replace(
    of_builds(
        "Apache Hudi's writer and executor",
        {"theirs": HudiWrites("theirs", UPSERT_A), "two": ExecutesBuild()},
        {},
        planned_beside_write,
        BESIDE_HUDI,
        strangers={"theirs": UPSERT_A},
    ),
    troubled=frozenset({"two"}),
)
CLEANER = replace(
    of_builds(
        "Apache Hudi's cleaner and executor",
        {"theirs": HudiCleans("theirs"), "two": ExecutesBuild()},
        {},
        planned_beside_clean,
        BESIDE_HUDI,
        strangers={"theirs": UPSERT_A},
    ),
    troubled=frozenset({"two"}),
)
SILENT_DELETE = Job("delete", (("a3", 0),))
SILENT = replace(
    of_builds(
        "ingest, Apache Hudi's delete and executor",
        {"one": Writes(UPSERT_A), "theirs": HudiWritesLate("theirs", SILENT_DELETE), "two": ExecutesBuild()},
        {"one": UPSERT_A},
        planned_listed,
        BESIDE_HUDI,
        strangers={"theirs": SILENT_DELETE},
    ),
    troubled=frozenset({"two"}),
)
MIXED = replace(
    of_builds(
        "planner, executor, ingests, Apache Hudi's cleaner and abort",
        {
            "planner": PlansBuild(),
            "two": ExecutesBuild(),
            "one": Writes(UPSERT_A),
            "other": Writes(ALSO_A),
            "theirs": HudiCleans("theirs"),
            "user": AbortsBuild(),
        },
        {"one": UPSERT_A, "other": ALSO_A},
        with_foreign_clean,
        BESIDE_HUDI,
        strangers={"theirs": UPSERT_A},
    ),
    troubled=frozenset({"planner", "two", "one", "other", "user"}),
    after={"two": "planner"},
)
CASES: list[tuple[Case, int]] = [
    (EXECUTOR, 80),
    (FIRST, 80),
    (DELETED, 80),
    (PLANNER, 80),
    (EXECUTORS, 40),
    (ABORTED, 40),
    (of_builds("removal and executor", {"one": Writes(DROP_A), "two": ExecutesBuild()}, {"one": DROP_A}), 80),
    (of_builds("overwrite and executor", {"one": Writes(OVERWRITE_A), "two": ExecutesBuild()}, {"one": OVERWRITE_A}), 80),
    (STRANGER, 40),
    (CLEANER, 40),
    (SILENT, 40),
    (of_builds("two planners", {"one": Builds(), "two": Builds(("record_index",))}, {}, indexed_table), 40),
]  # fmt: skip
"""Each case, and how many runs one preemption takes, at least."""


def without_rounds(patch: pytest.MonkeyPatch) -> None:
    """What completes after the first snapshot, and before the announcement, is not added."""
    patch.setattr(module, "ROUNDS_MAX", 0)
    patch.setattr(CatchUp, "add", lambda self: None)
    patch.setattr(CatchUp, "check", lambda self, state: None)


def without_announcement(patch: pytest.MonkeyPatch) -> None:
    """Writers of this library do not learn of the partitions, and the build believes that they do."""
    patch.setattr(CatchUp, "_carries", lambda self, state, one: state.log.fate(one.time) is not None)
    patch.setattr(metadata_delta, "kept_partitions", lambda config: config.metadata_partitions)


def without_verdicts(patch: pytest.MonkeyPatch) -> None:
    """Pending writers are not waited for, and a delta commit is taken as proof that its writer carried the partitions."""
    patch.setattr(CatchUp, "_foreign", lambda self, state: [])
    patch.setattr(catch_up, "wrote", lambda storage, own, one: {*KEYS} if own and own.find(one.time) else set())


def without_raised_instants(patch: pytest.MonkeyPatch) -> None:
    """What is missing is put right above the build, below the records of writers that carried the partitions."""
    above = CatchUp._free_above
    patch.setattr(CatchUp, "_free_above", lambda self, floor, state, own: above(self, self.build.instant, state, own))


PROOFS = [
    Proof("catch-up", lambda: fresh(EXECUTOR, set()), without_rounds, faults=0),
    Proof("the announcement", lambda: fresh(EXECUTOR, set()), without_announcement, faults=0),
    Proof("the verdicts", lambda: fresh(STRANGER, set()), without_verdicts, faults=0),
    Proof("the raised instant", lambda: fresh(SILENT, set()), without_raised_instants, faults=0),
]
SUITE = Suite(
    "index builds",
    CASES,
    PROOFS,
    soak_times=2,
    always=(ABORTED, EXECUTOR),
    soak_cases=(SILENT,),
    quick_proof="the announcement",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_loses_a_row_of_an_index(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(EXECUTOR), ids=str)
def test_no_single_fault_loses_a_row_of_an_index(case: Case) -> None:
    deadly = replace(case, troubles=case.troubles & {Fault.CRASH_AFTER, Event.LOCK_LOST}, troubled=frozenset({"two"}))
    assert explored(case if SOAK else deadly, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("case", SUITE.of_tier(ALL, MIXED), ids=str)
def test_no_drawn_schedule_loses_a_row_of_an_index(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 15))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

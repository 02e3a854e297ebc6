"""Index builds, their planners, executors and cancels beside writers, under every schedule within bounds.

Promises, whatever the schedule: the rows are those of a serial replay, for a reader that lists storage and for one that uses the
metadata table; once everything is settled, the indexes equal the files, and no part of a build is left.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, the cases of `IN_FULL` | two, every case |
| one fault | a death, one case | any kind, every case |
| two preemptions and a fault of any kind, drawn by seed | 15 seeds for one case | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.services.indexing.filling import build as module
from hudi_ops.services.indexing.filling.catch_up import CatchUp
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.builds import (
    AbortsBuild,
    Builds,
    ExecutesBuild,
    PlansBuild,
    of_builds,
    planned_first,
)
from tests.protocol.scenarios.cases import Case
from tests.protocol.scenarios.worlds import ALSO_A, DELETE_A, DROP_A, OVERWRITE_A, UPSERT_A, indexed_table
from tests.protocol.suite import Proof, Suite, drawn, explored, fresh

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
CASES: list[tuple[Case, int]] = [
    (EXECUTOR, 80),
    (FIRST, 80),
    (DELETED, 80),
    (PLANNER, 80),
    (EXECUTORS, 40),
    (ABORTED, 40),
    (of_builds("removal and executor", {"one": Writes(DROP_A), "two": ExecutesBuild()}, {"one": DROP_A}), 80),
    (of_builds("overwrite and executor", {"one": Writes(OVERWRITE_A), "two": ExecutesBuild()}, {"one": OVERWRITE_A}), 80),
    (of_builds("two planners", {"one": Builds(), "two": Builds(("record_index",))}, {}, indexed_table), 40),
]  # fmt: skip
"""Each case, and how many runs one preemption takes, at least."""

IN_FULL = (EXECUTOR, FIRST, DELETED, ABORTED)


def without_rounds(patch: pytest.MonkeyPatch) -> None:
    """What completes after the first snapshot, and before the announcement, is not added."""
    patch.setattr(module, "ROUNDS_MAX", 0)
    patch.setattr(CatchUp, "add", lambda self: None)
    patch.setattr(CatchUp, "check", lambda self, state: None)


CATCH_UP = Proof("catch-up", lambda: fresh(EXECUTOR, set()), without_rounds, faults=0)
SUITE = Suite("index builds", CASES, [CATCH_UP], always=IN_FULL, soak_times=2)


@pytest.mark.parametrize("case", SUITE.of_tier(*IN_FULL), ids=str)
def test_no_schedule_loses_a_row_of_an_index(case: Case) -> None:
    (floor,) = (least for one, least in SUITE.floors if one is case)
    SUITE.schedules(case, floor)


@pytest.mark.parametrize("case", SUITE.of_tier(EXECUTOR), ids=str)
def test_no_single_fault_loses_a_row_of_an_index(case: Case) -> None:
    deadly = replace(case, troubles=case.troubles & {Fault.CRASH_AFTER, Event.LOCK_LOST}, troubled=frozenset({"two"}))
    assert explored(case if SOAK else deadly, preemptions=0, faults=1) >= 35


@pytest.mark.parametrize("case", SUITE.of_tier(ALL), ids=str)
def test_no_drawn_schedule_loses_a_row_of_an_index(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 15))


def test_a_build_without_catch_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    CATCH_UP.refuse_survival(monkeypatch)

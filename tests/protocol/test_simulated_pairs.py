"""Every way in which two writers of one table may be interleaved, with what may go wrong on the way; no row is ever lost.

Goal: what `test_interleavings.py` names is not all there is. Method: the simulator runs each pair of `PAIRS` under every schedule
with at most one preemption, and again with one fault; the soak allows two preemptions and a fault together. Each end is judged by
the pair's oracle: rows as after a serial replay, promises kept, nothing left once another writer came by. How many schedules
there are is printed, and held against what it was when this was written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hudi_ops.testing.simulation import explore
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cases import Case, beside_hudi, beside_rollback, of_jobs, of_services
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

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))

UNAPPLIED = r"put_if_absent:.hoodie/timeline/\d+_"
"""Where an attempt dies that was decided: right before its completed file."""

PAIRS = [
    of_jobs("two ingests of one group", UPSERT_A, ALSO_A),
    of_jobs("two ingests of two groups", UPSERT_A, UPSERT_B),
    of_jobs("ingest and delete of one group", UPSERT_A, DELETE_A),
    of_jobs("ingest and delete of two groups", UPSERT_A, DELETE_B),
    of_jobs("ingest and removal of one partition", UPSERT_A, DROP_A),
    of_jobs("ingest and removal of another partition", UPSERT_A, DROP_B),
    beside_rollback("ingest and rollback of unwritten files", UPSERT_A, ALSO_A, "put:part=a"),
    beside_rollback("ingest and rollback of written files", UPSERT_A, ALSO_A, "put_if_absent:.hoodie/.commit_log/0"),
    beside_rollback("ingest and what was decided, not applied", UPSERT_A, ALSO_A, UNAPPLIED),
    of_services(
        "ingest and planner",
        {"one": Writes(UPSERT_A), "planner": Plans(REWRITE_A)},
        {"one": UPSERT_A},
        base=small_table,
    ),
    of_services(
        "ingest and executor",
        {"one": Writes(UPSERT_A), "two": Executes(REWRITE_A)},
        {"one": UPSERT_A, "two": REWRITE_A},
    ),
    of_services(
        "executor and takeover",
        {"one": Executes(REWRITE_A), "two": Executes(REWRITE_A)},
        {"one": REWRITE_A, "two": REWRITE_A},
    ),
    beside_hudi("ingest and Apache Hudi on one group", UPSERT_A, ALSO_A),
    beside_hudi("ingest and Apache Hudi on two groups", UPSERT_A, UPSERT_B),
]


@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_no_schedule_of_a_pair_loses_a_row(case: Case) -> None:
    for preemptions, faults in bounds():
        explored = explore(case.scenario, case.check, preemptions=preemptions, faults=faults, limit=None)
        print(f"{case}, {preemptions} preemptions, {faults} faults: {explored}")


def bounds() -> Iterator[tuple[int, int]]:
    """(preemptions, faults) to explore."""
    if SOAK:
        yield 2, 1
    else:
        yield from ((1, 0), (0, 1))

"""Writers of a table with a metadata table, under every schedule within bounds: it is never behind or ahead of the rows.

As `test_simulated_pairs`, upon a table whose rows our reader finds by its metadata table, while another one lists storage: both
have to see the rows of a serial replay. Once everything is settled, the metadata table is compared with the files in full.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a quarter of the others in turn | two, every case |
| one death, or a lock lost in silence | one case | every case, with every other fault |
| two preemptions and a fault of any kind, drawn by seed | 30 seeds for another case | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.commit.apply.decided import TimelineApplier
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.state import TableState
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.cases import Case, of_jobs
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.worlds import ALSO_A, DELETE_A, DROP_A, OVERWRITE_A, UPSERT_A, UPSERT_B, indexed_table
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh


def indexed(case: Case) -> Case:
    """The case upon a table with a metadata table."""
    return replace(case, name=f"{case.name}, metadata table", base=indexed_table)


SAME_GROUP = indexed(of_jobs("two ingests of one group", UPSERT_A, ALSO_A))
COMPACTED = Case(
    "two ingests, each of which compacts the metadata table",
    {"one": Writes(UPSERT_A, compacts_metadata=True), "two": Writes(UPSERT_B, compacts_metadata=True)},
    Oracle({"one": UPSERT_A, "two": UPSERT_B}),
    base=indexed_table,
)
REMOVAL = indexed(of_jobs("ingest and removal of one partition", UPSERT_A, DROP_A))
CASES: list[tuple[Case, int]] = [
    (SAME_GROUP, 40),
    (COMPACTED, 40),
    (indexed(of_jobs("two ingests of two groups", UPSERT_A, UPSERT_B)), 40),
    (indexed(of_jobs("ingest and delete of one group", UPSERT_A, DELETE_A)), 40),
    (REMOVAL, 40),
    (indexed(of_jobs("ingest and overwrite of another partition", UPSERT_B, OVERWRITE_A)), 40),
]
"""Each case, and how many runs one preemption takes, at least."""


def delta_after_its_instant(patch: pytest.MonkeyPatch) -> None:
    """The metadata table is told of a write once its data instant is complete."""
    put_completed, apply_metadata = TimelineApplier._put_completed, TimelineApplier._apply_metadata

    def late(self: TimelineApplier, state: TableState, slot: int, entry: Complete, body: bytes) -> bool:
        done = put_completed(self, state, slot, entry, body)
        if entry.metadata:
            apply_metadata(self, state, entry)
        return done

    patch.setattr(TimelineApplier, "_put_completed", late)
    patch.setattr(TimelineApplier, "_apply_metadata", lambda self, state, entry: True)


LATE_DELTA = Proof(
    "a delta that comes before its data instant",
    lambda: fresh(SAME_GROUP, {Fault.CRASH_AFTER}),
    delta_after_its_instant,
    preemptions=0,
)
SUITE = Suite(
    "metadata",
    CASES,
    [LATE_DELTA],
    soak_times=1,
    always=(SAME_GROUP, COMPACTED),
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_leaves_the_metadata_table_behind_or_ahead(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(COMPACTED), ids=str)
def test_no_single_fault_leaves_the_metadata_table_behind_or_ahead(case: Case) -> None:
    # Both writers do the same: what happens to one of them happens to the other in the soak.
    deadly = replace(case, troubles=case.troubles & {Fault.CRASH_AFTER, Event.LOCK_LOST}, troubled=frozenset({"one"}))
    assert explored(case if SOAK else deadly, preemptions=0, faults=1) >= 35


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(SAME_GROUP), ids=str)
def test_no_drawn_schedule_leaves_the_metadata_table_behind_or_ahead(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 30))


def test_a_delta_that_comes_after_its_data_instant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    LATE_DELTA.refuse_survival(monkeypatch)

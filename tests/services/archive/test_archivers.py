"""Every way in which archivers and writers may be interleaved, with what may go wrong on the way.

As in `tests/protocol/test_simulated_pairs.py`. Rows and promises are those of a run without an archiver, whatever is archived;
what left the timeline is in the history. A late applier is a writer that sleeps between its slot and its completed file while
another one writes and archives; a dead writer leaves a lease, files or a slot.

| bounds | plain run | soak |
|---|---|---|
| preemptions alone | one, two cases and a third of the others in turn | two, every case |
| one fault | a death, or a lock lost in silence, one case | any kind, every case |
| two preemptions and a fault of any kind, drawn by seed | 20 seeds for one case | 2,000 for every case |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.services.archive import run as service
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event
from tests.bounds import SOAK
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.archives import ArchivesOld, WritesThenArchives, of_archivers
from tests.protocol.scenarios.cases import Case, with_dead
from tests.protocol.scenarios.worlds import ALSO_A, UPSERT_A, UPSERT_B, indexed_table
from tests.protocol.suite import SEARCHES, Proof, Suite, drawn, explored, fresh
from tests.tables import NOW_MS

LATER_MS = NOW_MS + EXPIRY_MS + 10_000
BEFORE_THE_SLOT = r"put_if_absent:.hoodie/.commit_log/0"
BEHIND_THE_SLOT = r"put_if_absent:.hoodie/timeline/\d+_"

LONG = of_archivers("long ingestion and archiver", {"one": Writes(UPSERT_A), "two": ArchivesOld()}, {"one": UPSERT_A})
ARCHIVERS = of_archivers("two archivers", {"one": ArchivesOld(), "two": ArchivesOld()}, {})
LATE = of_archivers(
    "late applier and archiver",
    {"one": Writes(UPSERT_A), "two": WritesThenArchives(UPSERT_B)},
    {"one": UPSERT_A, "two": UPSERT_B},
)
CASES: list[tuple[Case, int]] = [
    (LONG, 30),
    (ARCHIVERS, 30),
    (LATE, 60),
    (
        of_archivers(
            "long ingestion and archiver, metadata table",
            {"one": Writes(UPSERT_A, compacts_metadata=True), "two": ArchivesOld()},
            {"one": UPSERT_A},
            indexed_table,
        ),
        30,
    ),
    (
        of_archivers(
            "writer that died before its slot, ingest and archiver",
            {"one": Writes(ALSO_A), "two": ArchivesOld()},
            {"one": ALSO_A, "dead": UPSERT_A},
            with_dead(UPSERT_A, BEFORE_THE_SLOT),
            LATER_MS,
        ),
        30,
    ),
    (
        of_archivers(
            "writer that died behind its slot, ingest and archiver",
            {"one": WritesThenArchives(ALSO_A), "two": ArchivesOld()},
            {"one": ALSO_A, "dead": UPSERT_A},
            with_dead(UPSERT_A, BEHIND_THE_SLOT),
            LATER_MS,
        ),
        30,
    ),
]
"""Each case, and how many runs one preemption takes, at least."""


def without_manifest(patch: pytest.MonkeyPatch) -> None:
    """The boundary moves, and no manifest names the history file."""
    patch.setattr(service, "publish", lambda *_: None)


def without_archived(patch: pytest.MonkeyPatch) -> None:
    """A late applier does not see that its instant was archived, and archives do not wait until it has ended."""
    patch.setattr("hudi_ops.commit.apply.decided.is_archived", lambda log, instant: False)
    patch.setattr("hudi_ops.services.archive.facts._unswept", lambda *_: {})


def sleeping_applier() -> Case:
    """Return the case in which the applier may lose its lock in silence."""
    return replace(fresh(LATE, {Event.LOCK_LOST}), troubled=frozenset({"one"}))


SUITE = Suite(
    "archivers",
    CASES,
    proofs=[
        Proof("the manifest before the boundary", lambda: fresh(ARCHIVERS, ()), without_manifest, faults=0),
        Proof("what was archived stays off the timeline", sleeping_applier, without_archived),
    ],
    always=(LONG, ARCHIVERS),
    quick_proof="the manifest before the boundary",
)


@pytest.mark.full(SEARCHES)
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("case", "floor"), SUITE.rotated)
def test_no_schedule_of_an_archiver_loses_a_row(case: Case, floor: int) -> None:
    SUITE.schedules(case, floor)


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(ARCHIVERS), ids=str)
def test_no_single_fault_of_an_archiver_loses_a_row(case: Case) -> None:
    troubled = case if SOAK else replace(case, troubles=frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST}))
    assert explored(troubled, preemptions=0, faults=1) >= 30


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("case", SUITE.of_tier(LATE), ids=str)
def test_no_drawn_schedule_of_an_archiver_loses_a_row(case: Case) -> None:
    drawn(case, range(2_000 if SOAK else 20))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("proof", SUITE.guards)
def test_without_a_guard_the_search_finds_what_it_prevents(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    proof.refuse_survival(monkeypatch)

"""Holes that the design once had: each is closed by one guard, and opens when that guard is switched off.

Goal: the guards are needed, and the simulator can see what they prevent. Method: for each hole a few actors, explored within the
fewest preemptions and faults that lead into it; once as the product is, which must survive every schedule, and once with the guard
replaced by one that lets everything pass, which some schedule must not survive. H1 to H8 were found by a model of the commit log
before it was written, W1 to W4 by walking through its rules (docs/protocol §5 to §8), W5 by a fleet of ours and Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hudi_ops.commit import checks
from hudi_ops.commit.apply import decided as apply, invalidate as void, properties as fold
from hudi_ops.commit.decide import archive_boundary as boundary, complete as commit
from hudi_ops.commit.recover import recover, rollback
from hudi_ops.concurrency import attempt, attempt_status as standing, contenders, transaction
from hudi_ops.storage import claim
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.simulation import RunRecord
from hudi_ops.testing.steps import Event
from hudi_ops.timeline.log.commit_log import Log, load_log
from hudi_ops.timeline.settings.properties_file import read_properties
from tests.bounds import bound
from tests.protocol.scenarios.actors import Later, Recovers, Sets, Writes
from tests.protocol.scenarios.cases import Case, beside_hudi, mixed_table, of_jobs, with_dead
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.hudi import Hudi, HudiClusters
from tests.protocol.scenarios.services import Archives, Plans
from tests.protocol.scenarios.worlds import ALSO_A, ALSO_B, REWRITE_A, REWRITE_B, UPSERT_A, UPSERT_B
from tests.protocol.suite import SEARCHES, Proof, Suite, Switch

CRASH = frozenset({Fault.CRASH_AFTER})
UNAPPLIED = r"put_if_absent:.hoodie/timeline/\d+_"


def off(room: object, guard: str, answer: object = None) -> Switch:
    """Replace a guard by one that always gives the same answer."""
    return lambda patch: patch.setattr(room, guard, lambda *given, **named: answer)


def unread_log(room: object) -> Switch:
    """Replace reading the log once more by not doing so."""
    return lambda patch: patch.setattr(room, "refresh_log", lambda storage, log: log)


def both(*switches: Switch) -> Switch:
    """Several guards at once that hold one promise together."""

    def switch(patch: pytest.MonkeyPatch) -> None:
        for one in switches:
            one(patch)

    return switch


def sleeper_and_archiver() -> Case:
    """An attempt sleeps right after it took its instant; two others complete above it, and all below is archived."""
    return Case(
        "",
        {"one": Writes(UPSERT_A), "first": Writes(UPSERT_B), "second": Writes(ALSO_B), "archiver": Archives()},
        Oracle({"one": UPSERT_A, "first": UPSERT_B, "second": ALSO_B}),
        after={"second": "first", "archiver": "second"},
        troubles=CRASH,
        troubled=frozenset({"one"}),
    )


def killed_beside_hudi(theirs: Callable[..., object], helper: Callable[..., object] | None = None) -> Case:
    """Ours is killed, its lock is free; Apache Hudi goes on, and somebody finds what was decided."""
    return Case(
        "",
        {"ours": Writes(UPSERT_A), "theirs": theirs, "helper": helper or Recovers()},
        Oracle({"ours": UPSERT_A}, {"theirs": theirs.job if isinstance(theirs, Hudi) and theirs.job else REWRITE_A}),
        base=mixed_table,
        after={"theirs": "ours", "helper": "ours"},
        troubles=CRASH,
        troubled=frozenset({"ours"}),
    )


def decided_and_archived() -> Case:
    """A helper finds what was decided; meanwhile others finish it, complete above it, and archive it."""
    return Case(
        "",
        {"helper": Recovers(), "writer": Writes(UPSERT_B), "archiver": Archives()},
        Oracle({"dead": UPSERT_A, "writer": UPSERT_B}),
        base=with_dead(UPSERT_A, UNAPPLIED),
        after={"archiver": "writer"},
        troubles=frozenset({Event.LOCK_LOST}),
        troubled=frozenset({"helper"}),
    )


def void_anywhere(patch: pytest.MonkeyPatch) -> None:
    """The VOID goes to the newest free slot instead of the one after the head that was read."""
    loaded: list[MemoryStorage] = []
    original = apply.TimelineApplier._void

    def void_it(self: apply.TimelineApplier, *given: object) -> bool:
        loaded.append(self._ctx.storage)  # type: ignore[arg-type]
        return original(self, *given)  # type: ignore[arg-type]

    def newest(log: Log) -> int:
        whole = load_log(loaded[-1], None)
        assert whole is not None
        return whole.head + 1

    patch.setattr(apply.TimelineApplier, "_void", void_it)
    patch.setattr(apply, "void_slot", newest)


@dataclass(frozen=True)
class OfProperties(Case):
    """A case that is judged by `hoodie.properties`."""

    def check(self, history: RunRecord) -> None:
        said = read_properties(history.storage)
        lost = [one.result for one in history.outcomes.values() if one.succeeded and one.result not in said]
        assert lost == [], f"decided, reported, and not in the file: {lost}"


def two_keys() -> Case:
    """Two processes set a key each, and one of them has lost its lock."""
    runs = {"one": Sets("hudi_ops.one"), "two": Sets("hudi_ops.two")}
    return OfProperties("", runs, Oracle({}), troubles=frozenset({Event.LOCK_LOST}))  # type: ignore[arg-type]


HOLES = [
    Proof(
        "H1 the log is read again after inflight",
        sleeper_and_archiver,
        off(attempt, "was_passed", False),
        is_wide=True,
    ),
    Proof(
        "H2 the head is recorded before the instant is taken",
        lambda: of_jobs("", UPSERT_A, ALSO_A, frozenset()),
        both(
            lambda patch: patch.setattr(attempt, "beginning_of", lambda before, after: after),
            # A second look at what was there when it began, by the order of times, would notice it, too.
            lambda patch: patch.setattr(
                contenders, "unseen", lambda now, seen, instant: now.completed_beyond(seen, now.newest_time)
            ),
        ),
        faults=0,
    ),
    Proof(
        "H3 a pending rollback of Apache Hudi voids",
        lambda: killed_beside_hudi(Later(Hudi("theirs")), Later(Recovers())),
        both(off(void, "undone"), off(void, "stale_beside_foreign_writers")),
    ),
    Proof(
        "H3 Apache Hudi judges the dead before its lock",
        lambda: killed_beside_hudi(Later(Hudi("theirs")), Later(Recovers())),
        off(void, "stale_beside_foreign_writers"),
    ),
    Proof(
        "H3 a plan of Apache Hudi voids",
        lambda: killed_beside_hudi(HudiClusters("theirs", "part=a")),
        off(void, "planned_between"),
    ),
    Proof(
        "H4 the boundary is read before the timeline",
        decided_and_archived,
        both(
            off(apply, "is_archived", False),
            off(apply, "was_applied", False),
            off(transaction, "_has_left", False),
        ),
    ),
    Proof(
        "H4 a VOID takes the next slot and no other",
        decided_and_archived,
        # What the timeline's start tells, the log read before it does not.
        both(
            void_anywhere,
            lambda patch: patch.setattr(
                transaction, "_has_left", lambda state, instant, missing: instant <= state.log.boundary
            ),
        ),
    ),
    Proof(
        "H5 an inflight without its requested is swept",
        lambda: Case(
            "",
            {"one": Writes(UPSERT_A), "two": Later(Recovers())},
            Oracle({"one": UPSERT_A}),
            troubles=CRASH,
            troubled=frozenset({"one"}),
        ),
        off(recover, "_clear_if_cancelled"),
    ),
    Proof(
        "H6 the history is written before the ARCHIVE",
        lambda: Case("", {"archiver": Archives(is_late=True)}, Oracle({}), troubles=CRASH),
        off(boundary, "refuse_missing_history"),
        preemptions=0,
    ),
    Proof("H7 properties are folded with the log read again", two_keys, unread_log(fold)),
    Proof(
        "H8 an unknown outcome is read back",
        lambda: Case(
            "",
            {"one": Writes(UPSERT_A)},
            Oracle({"one": UPSERT_A}),
            troubles=frozenset({Fault.ERROR_AFTER, Fault.EXISTS_BY_ITSELF}),
        ),
        off(claim, "is_own", False),
        preemptions=0,
    ),
    Proof(
        "W1 nothing is deleted before a CANCEL holds a slot",
        lambda: Case(
            "",
            {"one": Writes(UPSERT_A), "two": Later(Recovers())},
            Oracle({"one": UPSERT_A}),
            troubles=frozenset({Event.PAUSE}),
            troubled=frozenset({"one"}),
        ),
        # A rollback on the timeline stops its target, too, if it looks in time; writers that were cancelled need no look.
        both(
            off(recover, "cancel_write", True), off(rollback, "refuse_uncancelled", 0), off(standing, "refuse_undone")
        ),
        is_wide=True,
    ),
    Proof(
        "W2 a commit of Apache Hudi between slot and file voids",
        lambda: killed_beside_hudi(Hudi("theirs", ALSO_A, cleans=False)),
        off(void, "completed_between"),
    ),
    Proof(
        "W3 completion times rise above plans whatever the clock says",
        lambda: Case(
            "",
            {"one": Writes(UPSERT_A), "planner": Plans(REWRITE_B)},
            Oracle({"one": UPSERT_A}, settles=False),
            troubles=frozenset({Event.CLOCK_BACK}),
            troubled=frozenset({"one"}),
            jump_ms=30_000,
        ),
        off(commit, "newest_known", frozenset({"20300101000000000"})),
    ),
    Proof(
        "W4 an applier that slept wakes nothing that was archived",
        decided_and_archived,
        # Who recovers clears what has risen, itself too, if it comes to that.
        both(unread_log(apply), off(recover, "clear_archived", [])),
    ),
    Proof(
        "W5 a writer of Apache Hudi that is starting is let in first",
        lambda: beside_hudi("", UPSERT_A, ALSO_A, frozenset()),
        off(checks, "refuse_starting"),
        faults=0,
    ),
]


SUITE = Suite("holes", proofs=HOLES, quick_proof="H2 the head is recorded before the instant is taken")


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("hole", SUITE.guards)
def test_a_hole_is_closed(hole: Proof) -> None:
    # Where all schedules take minutes, the first ones; the test below plays the one that loses something without the guard, too.
    hole.explore(bound(40, 300 if hole.is_wide else None, None))


@pytest.mark.full(SEARCHES)
@pytest.mark.parametrize("hole", SUITE.guards)
def test_a_hole_opens_without_its_guard(hole: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    hole.refuse_survival(monkeypatch)


def test_all_holes_are_here() -> None:
    assert {hole.name.split()[0] for hole in SUITE.proofs} == {
        *(f"H{n}" for n in range(1, 9)),
        *(f"W{n}" for n in range(1, 6)),
    }

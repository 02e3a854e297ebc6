"""Every kind of decision, crashed and disturbed at every storage operation: what holds a slot is applied by whoever comes next.

Nothing of a decision that holds no slot is to be seen afterwards, and the same decision can be made again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hudi_ops.commit.archive_boundary import HistoryFile, archive_boundary, below
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.commit.takeover import take_over
from hudi_ops.commit.undo.cancel import cancel_write
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled, Conflict, HudiOpsError, InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.log.commit_log import Log, slot_path
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Properties, Takeover
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import START_MS
from tests.protocol.log_actors import (
    bare_table,
    commit,
    plan,
    properties_of,
    session_of,
    set_property,
    timeline_of,
    whole_log,
)

NOW_MS = START_MS + 60_000
KEY = "hoodie.table.some.setting"
CRASHES = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
ERRORS = [
    Fault.ERROR_BEFORE,
    Fault.ERROR_AFTER,
    Fault.LANDS_LATER,
    Fault.EXISTS_THOUGH_ABSENT,
    Fault.EXISTS_BY_ITSELF,
]


@dataclass(frozen=True)
class Decision:
    """One kind of decision: what is there before it, how it is made, how its entry is found, and whether its effect shows.

    `points` is how many storage operations it takes, at least.
    """

    kind: type[Entry]
    before: Callable[[Session], object]
    make: Callable[[Session], object]
    shows: Callable[[MemoryStorage, Entry], bool]
    points: int


def nothing(session: Session) -> None:
    return None


def newest_write(log: Log) -> str:
    return max(entry.instant for _, entry in log.completes())


def archive(session: Session) -> bool:
    """Archive the oldest two instants, as an archiver would."""
    state = session.loader.load()
    oldest = [one.time for one in state.timeline.completed_writes if one.time > state.log.boundary][:2]
    kept = HistoryFile(".hoodie/timeline/history/some_file.parquet", frozenset(oldest))
    session.ctx.storage.put(kept.path, b"history")
    return archive_boundary(session, max(oldest), kept) if len(oldest) == 2 else False


def begun(session: Session) -> Attempt:
    return begin(session.ctx, session.loader, "commit")


def cancel_pending(session: Session) -> None:
    for one in session.loader.load().timeline.pending:
        cancel_write(session, one.time, "a test says so")


def take_pending(session: Session) -> None:
    for one in session.loader.load().timeline.pending:
        take_over(session, one.time, one.action)


def is_completed(storage: MemoryStorage, entry: Entry) -> bool:
    assert isinstance(entry, Complete)
    found = timeline_of(storage).find(entry.instant, entry.action)
    return found is not None and found.completion_time == entry.completion_time


def is_planned(storage: MemoryStorage, entry: Entry) -> bool:
    assert isinstance(entry, Plan)
    found = timeline_of(storage).find(entry.instant, entry.action)
    if found is None or found.is_completed:
        return False
    path = timeline_of(storage).path(found.file_name)
    return storage.get(path) == storage.get(entry.payload)


def is_archived(storage: MemoryStorage, entry: Entry) -> bool:
    assert isinstance(entry, Archive)
    return storage.head(entry.history) is not None and not below(timeline_of(storage), entry.boundary)


def is_gone(storage: MemoryStorage, entry: Entry) -> bool:
    assert isinstance(entry, Cancel)
    return timeline_of(storage).find(entry.instant) is None


DECISIONS = {
    "complete": Decision(Complete, nothing, commit, is_completed, 20),
    "plan": Decision(Plan, nothing, plan, is_planned, 10),
    "takeover": Decision(Takeover, plan, take_pending, lambda storage, entry: True, 7),
    "cancel": Decision(Cancel, begun, cancel_pending, is_gone, 7),
    "properties": Decision(
        Properties,
        nothing,
        lambda session: set_property(session, KEY, "7"),
        lambda storage, entry: properties_of(storage).get(KEY) == "7",
        8,
    ),
    "archive": Decision(Archive, nothing, archive, is_archived, 14),
}


def decided(storage: MemoryStorage, decision: Decision, before: int) -> list[Entry]:
    """Entries of the decision's kind above the slots that were there before."""
    return [entry for _, entry in whole_log(storage).since(before) if isinstance(entry, decision.kind)]


def prepared(decision: Decision) -> tuple[MemoryStorage, int]:
    storage = bare_table(5)
    decision.before(session_of(storage, ManualClock(START_MS + 30_000, tick_ms=1), "before"))
    return storage, whole_log(storage).head


def disturb(
    decision: Decision, base: MemoryStorage, number: int, fault: Fault
) -> tuple[MemoryStorage, FaultyStorage, ManualClock, HudiOpsError | None]:
    """Make the decision with one fault; returns what is left, and its error."""
    storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)
    faulty = FaultyStorage(storage, FaultPlan.at(number, fault), lag_operations=2)
    error: HudiOpsError | None = None
    with contextlib.suppress(Crash):
        try:
            decision.make(session_of(faulty, clock, "first"))
        except HudiOpsError as raised:
            error = raised
    while faulty.in_flight:
        faulty.land()
    return storage, faulty, clock, error


def helped(decision: Decision, storage: MemoryStorage, clock: ManualClock, before: int, story: str) -> None:
    """Another process does what every writer begins with, and then decides the same."""
    clock.advance_ms(EXPIRY_MS + 1_000)
    helper = session_of(storage, clock, "second")
    recover(helper)
    for entry in decided(storage, decision, before):
        assert decision.shows(storage, entry), f"{story}: {entry} holds a slot and does not show"
    # A plan that is there refuses a second one on its groups.
    with (
        contextlib.suppress(Busy)
        if decision.kind is Plan and decided(storage, decision, before)
        else contextlib.nullcontext()
    ):
        decision.make(helper)
    recover(helper)
    for entry in decided(storage, decision, before):
        assert decision.shows(storage, entry), f"{story}: {entry} holds a slot and does not show"
    log = whole_log(storage)
    instants = [entry.instant for _, entry in log.since(before) if isinstance(entry, Complete | Cancel)]
    assert len(instants) == len(set(instants)), f"{story}: an instant was decided twice"
    commit(helper)
    findings = [one for one in verify_table(storage, clock=clock).findings if one.severity == "error"]
    assert findings == [], story


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("kind", DECISIONS)
def test_a_decision_that_holds_a_slot_is_applied_by_whoever_comes_next(kind: str, fault: Fault) -> None:
    decision = DECISIONS[kind]
    base, before = prepared(decision)
    for number in itertools.count(1):
        storage, faulty, clock, _ = disturb(decision, base, number, fault)
        helped(decision, storage, clock, before, f"{kind}: {faulty.fired}")
        if not faulty.fired:
            break
    print(f"crash points of one {kind}, {fault.name}: {number - 1}")
    assert number > decision.points


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("kind", DECISIONS)
def test_an_error_says_whether_the_decision_landed(kind: str, fault: Fault) -> None:
    decision = DECISIONS[kind]
    base, before = prepared(decision)
    undisturbed = FaultyStorage(base.copy())
    decision.make(session_of(undisturbed, ManualClock(NOW_MS, tick_ms=1), "first"))
    fired = 0
    for number in range(1, undisturbed.operations + 1):
        storage, faulty, clock, error = disturb(decision, base, number, fault)
        fired += len(faulty.fired)
        story = f"{kind}: {faulty.fired} -> {error!r}"
        landed = decided(storage, decision, before)
        if error is None:
            assert len(landed) == 1, f"success was reported: {story}"
            assert decision.shows(storage, landed[0]) or kind == "cancel", f"success was reported: {story}"
        if isinstance(error, Conflict | Busy | Cancelled | InvalidRequest):
            assert not landed, f"the error promises that nothing landed: {story}"
        helped(decision, storage, clock, before, story)
    print(f"errors of one {kind}, {fault.name}: {fired}")
    assert fired >= 1


def test_slots_have_no_gaps_and_are_never_changed() -> None:
    storage = bare_table(5)
    clock = ManualClock(NOW_MS, tick_ms=1)
    seen: dict[str, bytes] = {}
    for kind in ("complete", "properties", "plan", "takeover", "archive", "cancel", "complete"):
        DECISIONS[kind].make(session_of(storage, clock, kind))
        slots = {i.path: storage.get(i.path) for i in storage.list(".hoodie/.commit_log/00000000")}
        assert seen.items() <= slots.items()
        assert list(slots) == [slot_path(number) for number in range(len(slots))]
        seen = slots

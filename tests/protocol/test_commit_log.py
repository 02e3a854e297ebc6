"""Every kind of decision, crashed and disturbed at every storage operation: what holds a slot is applied by whoever comes next.

Nothing of a decision that holds no slot is to be seen afterwards, and the same decision can be made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hudi_ops.commit.decide.archive_boundary import HistoryFile, archive_boundary, below
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled, Conflict, InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Properties, Takeover
from hudi_ops.verify import verify_table
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
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.tables import NOW_MS, START_MS

KEY = "hoodie.table.some.setting"


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


def ticking() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def first(decision: Decision) -> Callable[[FaultyStorage, ManualClock], object]:
    """The process that goes wrong."""
    return lambda storage, clock: decision.make(session_of(storage, clock, "first"))


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
    for left in fault_sweep(base, first(decision), fault, kind, points=decision.points, step=1, clock=ticking):
        helped(decision, left.storage, left.clock, before, f"{kind}: {left.story}")


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("kind", DECISIONS)
def test_an_error_says_whether_the_decision_landed(kind: str, fault: Fault) -> None:
    decision = DECISIONS[kind]
    base, before = prepared(decision)
    for left in fault_sweep(base, first(decision), fault, kind, points=1, step=1, clock=ticking, lag=2):
        left.land()
        story = f"{kind}: {left.story}"
        landed = decided(left.storage, decision, before)
        if left.error is None:
            assert len(landed) == 1, f"success was reported: {story}"
            assert decision.shows(left.storage, landed[0]) or kind == "cancel", f"success was reported: {story}"
        if isinstance(left.error, Conflict | Busy | Cancelled | InvalidRequest):
            assert not landed, f"the error promises that nothing landed: {story}"
        helped(decision, left.storage, left.clock, before, story)


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

"""The commit log under contention, and Apache Hudi between slot and completed file: it moves without slots."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from hudi_ops.commit.apply import invalidate as void
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.recover.recover import recover
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, HudiOpsError
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Complete, Properties, Takeover, Void
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY
from tests.fault_plans import MoveBefore
from tests.protocol.foreign_table import rollback_plan
from tests.protocol.log_actors import (
    GROUP,
    OTHER_GROUP,
    bare_table,
    clustering_of,
    commit,
    decided_only,
    plan,
    properties_of,
    session_of,
    set_property,
    stat,
    timeline_of,
    whole_log,
)
from tests.tables import NOW_MS, START_MS, TIMELINE

THREADS, EACH = 8, 50
DELTAS_EACH = 10


def at_once(work: Callable[[int], None]) -> None:
    """Run it in every thread; the first error is raised here."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_many_deciders_without_a_lock_decide_everything_exactly_once() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    planned = plan(session_of(storage, clock, "planner"))
    before = whole_log(storage).head
    completed: list[str] = []

    def work(number: int) -> None:
        session = session_of(storage, clock, f"thread-{number}", locked=False)
        for turn in range(EACH):
            if turn % 5 == 0:
                completed.append(commit(session).instant)
            elif turn % 5 == 1:
                with contextlib.suppress(Busy):  # another thread's lease is alive
                    take_over(session, planned.instant, "clustering")
            else:
                assert cancel_write(session, instant_of_ms(START_MS + 10_000 + 100 * number + turn), "contention")

    at_once(work)
    log = whole_log(storage)
    entries = list(log.since(before))
    counts = Counter(entry.kind for _, entry in entries)
    print(f"{THREADS} deciders without a lock: {dict(counts)} in slots {before + 1} to {log.head}")
    assert len({entry.decision_id for _, entry in entries}) == len(entries)
    assert counts["COMPLETE"] == len(completed) == THREADS * EACH // 5
    assert counts["CANCEL"] == THREADS * EACH * 3 // 5
    epochs = [entry.epoch for _, entry in entries if isinstance(entry, Takeover)]
    assert epochs == list(range(1, len(epochs) + 1))
    times = [entry.completion_time for _, entry in entries if isinstance(entry, Complete)]
    assert times == sorted(set(times))
    done = {one.time for one in timeline_of(storage).completed_writes}
    assert done >= set(completed)


def test_property_deltas_of_many_deciders_without_a_lock_are_all_in_the_file() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)

    def work(number: int) -> None:
        session = session_of(storage, clock, f"thread-{number}", locked=False)
        for turn in range(DELTAS_EACH):
            set_property(session, f"hoodie.some.key.{number}.{turn}", str(turn))

    at_once(work)
    # Whoever decided last folded all; a sleeper's old file, put back after that, is what the next one to load mends.
    recover(session_of(storage, clock, "next"))
    held = properties_of(storage)
    assert {f"hoodie.some.key.{n}.{t}" for n in range(THREADS) for t in range(DELTAS_EACH)} <= held.keys()
    log = whole_log(storage)
    assert sum(isinstance(entry, Properties) for _, entry in log.since(0)) == THREADS * DELTAS_EACH
    assert held[FOLDED_KEY] == str(log.head)


def foreign_commit(storage: MemoryStorage, request: str, completion: str, file_id: str) -> None:
    body = CommitMetadata(operation="UPSERT", stats=(stat(file_id),)).to_bytes()
    storage.put(f"{TIMELINE}/{request}_{completion}.commit", body)


def shifted(time: str, by_ms: int) -> str:
    return f"{int(time) + by_ms:017d}"


MOVES: dict[str, tuple[Callable[[MemoryStorage, Complete], None], bool]] = {
    "nothing": (lambda s, e: None, False),
    "its inflight is gone": (lambda s, e: s.delete(f"{TIMELINE}/{e.instant}.inflight"), True),
    "a pending rollback": (
        lambda s, e: s.put(f"{TIMELINE}/{shifted(e.completion_time, 9)}.rollback.requested", rollback_plan(e.instant)),
        True,
    ),
    "a completion at or above": (
        lambda s, e: foreign_commit(s, shifted(e.completion_time, 1), shifted(e.completion_time, 9), OTHER_GROUP),
        True,
    ),
    "an overlapping completion below, by a clock that lags": (
        lambda s, e: foreign_commit(s, shifted(e.instant, -7), shifted(e.completion_time, -3), GROUP),
        True,
    ),
    "a disjoint completion below, by a clock that lags": (
        lambda s, e: foreign_commit(s, shifted(e.instant, -7), shifted(e.completion_time, -3), OTHER_GROUP),
        False,
    ),
    "a plan at or above": (
        lambda s, e: s.put(
            f"{TIMELINE}/{shifted(e.completion_time, 9)}.compaction.requested", clustering_of(("part=p9", GROUP))
        ),
        True,
    ),
    "an overlapping clustering below": (
        lambda s, e: s.put(
            f"{TIMELINE}/{shifted(e.instant, -7)}.clustering.requested", clustering_of(("part=p0", GROUP))
        ),
        True,
    ),
    "a disjoint clustering below": (
        lambda s, e: s.put(
            f"{TIMELINE}/{shifted(e.instant, -7)}.clustering.requested", clustering_of(("part=p9", GROUP))
        ),
        False,
    ),
}


@pytest.mark.parametrize("move", MOVES)
def test_what_came_between_slot_and_completed_file_voids_it(move: str) -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    session = session_of(storage, clock, "helper")
    clock.advance_ms(1_000)
    entry = decided_only(storage, clock, stat())
    slot = whole_log(storage).head
    make, voids = MOVES[move]
    make(storage, entry)
    # What nothing came between is applied soon: where strangers write too, it would be voided for its age alone.
    clock.advance_ms(EXPIRY_MS + 1_000 if voids else 1_000)
    with contextlib.suppress(HudiOpsError):
        recover(session)
    named = [one.slot for _, one in whole_log(storage).since(slot) if isinstance(one, Void)]
    assert named == ([slot] if voids else [])
    found = timeline_of(storage).find(entry.instant)
    assert (found is not None and found.is_completed) is not voids


def test_what_the_decider_had_seen_voids_nothing() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    session = session_of(storage, clock, "helper")
    at = instant_of_ms(NOW_MS - 500)
    foreign_commit(storage, at, shifted(at, 100), GROUP)
    storage.put(f"{TIMELINE}/{shifted(at, 200)}.compaction.requested", clustering_of(("part=p0", GROUP)))
    clock.advance_ms(1_000)
    entry = decided_only(storage, clock, stat())
    recover(session)
    found = timeline_of(storage).find(entry.instant)
    assert found is not None
    assert found.is_completed


def test_a_void_is_claimed_in_the_slot_after_the_head_that_was_read() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    session_of(storage, clock, "helper", locked=False)
    entry = decided_only(storage, clock)
    slot = whole_log(storage).head
    storage.delete(f"{TIMELINE}/{entry.instant}.inflight")
    other = session_of(storage, clock, "other", locked=False)

    # The other one voids it first: ours is lost, and the verdict stands.
    plan_of_moves = MoveBefore(f"put_if_absent:{slot_path(slot + 1)}", lambda: recover(other))
    faulty = FaultyStorage(storage, plan_of_moves)
    recover(session_of(faulty, clock, "third", locked=False))
    assert [one.slot for _, one in whole_log(storage).since(slot) if isinstance(one, Void)] == [slot]


def test_a_plan_that_a_foreign_writer_undid_does_not_come_back() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    planned = plan(session_of(storage, clock, "planner"))
    requested = f"{TIMELINE}/{planned.instant}.clustering.requested"
    storage.delete(requested)
    storage.put(f"{TIMELINE}/{shifted(planned.instant, 9)}.rollback.requested", rollback_plan(planned.instant))
    recover(session_of(storage, clock, "helper"))
    assert storage.head(requested) is None
    assert isinstance(whole_log(storage).entries[-1], Void)


GUARDS = {
    "rollback": (void, "undone", lambda ctx, state, entry: None),
    "completion": (void, "completed_between", lambda commits, state, entry, mine: None),
    "plan": (void, "planned_between", lambda ctx, state, entry, mine: None),
}
OPENED = {
    "rollback": "a pending rollback",
    "completion": "an overlapping completion below, by a clock that lags",
    "plan": "a plan at or above",
}


@pytest.mark.parametrize("guard", GUARDS)
def test_without_its_guard_a_reason_to_void_is_passed_over(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*GUARDS[guard])
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    session = session_of(storage, clock, "helper")
    clock.advance_ms(1_000)
    entry = decided_only(storage, clock, stat())
    MOVES[OPENED[guard]][0](storage, entry)
    session.finish_decided()
    assert timeline_of(storage).find(entry.instant).is_completed  # type: ignore[union-attr]

"""The interleavings that optimistic concurrency has to survive, one test each; all ends are held against a serial replay.

Goal: each way that was seen, or thought of, in which two writers meet is a promise with a name. Method: one actor runs whole before
one operation, or before every operation, of the other (`between`), with locks that both of them hold; what only a lock service
can do is tried with a real one, in the tests that `ELSEWHERE` names. The same pairs run under every schedule in
`test_simulated_pairs.py`.
"""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, take_lease
from hudi_ops.concurrency.lock.locks import Held
from hudi_ops.concurrency.markers import put_marker
from hudi_ops.errors import Busy, Cancelled, Conflict, InvalidRequest, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.names import instant_of_ms
from tests.protocol.foreign_table import clustering_plan, group_of
from tests.protocol.scenarios.actors import Landed, Recovers, Writes
from tests.protocol.scenarios.between import clock_of, context, disturbed, outcome_of
from tests.protocol.scenarios.check import Oracle, Outcome, session_of
from tests.protocol.scenarios.hudi import Hudi
from tests.protocol.scenarios.worlds import ALSO_A, DROP_A, LATER, OVERWRITE_A, UPSERT_A, UPSERT_B, Job, small_table
from tests.tables import NOW_MS, TIMELINE

ROOT = Path(__file__).resolve().parents[2]
LOCKS = "tests/zookeeper/test_lock.py"
ELSEWHERE = {
    4: f"{LOCKS}::test_a_crashed_server_suspends_and_the_same_session_goes_on",
    5: f"{LOCKS}::test_a_refusal_names_the_holder_and_leaves_no_node",
}
"""Interleavings that only a real lock service can show."""
POINTS = {
    "before validation": "put:.hoodie/.temp",
    "after validation": "put:.hoodie/.commit_log/payload",
    "before the slot": "put_if_absent:.hoodie/.commit_log/0",
}


@pytest.fixture
def storage() -> MemoryStorage:
    return small_table()


def writes(storage: MemoryStorage, actor: str, job: Job, *, once: bool = False) -> Outcome:
    """A whole write that nobody disturbs."""
    return outcome_of(lambda: Writes(job, once)(context(storage, actor)))


def pair(storage: MemoryStorage, one: Job, two: Job, where: int | str, *, once: bool) -> tuple[Outcome, str]:
    """`two` runs whole in the middle of `one`; the end is judged; returns the outcome of `one`, and where that was."""
    told: dict[str, Outcome] = {}
    outcome, point = disturbed(
        storage, "one", Writes(one, once), where, lambda: told.update(two=writes(storage, "two", two))
    )
    if told:
        assert isinstance(told["two"].result, Landed), told["two"].error
    Oracle({"one": one, "two": two}).judge(storage, {**told, "one": outcome})
    return outcome, point


def test_every_interleaving_has_its_test() -> None:
    here = {int(name[6:8]) for name in globals() if name.startswith("test_i") and name[6:8].isdecimal()}
    assert here | set(ELSEWHERE) == set(range(1, 18))
    for test in ELSEWHERE.values():
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_i01_a_long_writer_that_began_first_and_ends_last_does_not_pass_a_shorter_one(storage: MemoryStorage) -> None:
    alone = storage.copy()
    outcome, _ = pair(storage, UPSERT_A, ALSO_A, "put:part=a", once=True)
    assert isinstance(outcome.error, Conflict)
    outcome, _ = pair(alone, UPSERT_A, ALSO_A, "put:part=a", once=False)
    assert isinstance(outcome.result, Landed), "tried again, it starts from the shorter one's rows"


@pytest.mark.parametrize("where", POINTS)
def test_i02_a_lock_lost_around_the_conflict_check_costs_a_slot_and_nothing_else(
    storage: MemoryStorage, where: str
) -> None:
    outcome, _ = pair(storage, UPSERT_A, ALSO_A, POINTS[where], once=True)
    assert isinstance(outcome.error, Conflict)


def test_i02_a_lock_known_to_be_lost_decides_nothing(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context(storage, "one")
    with ctx.locks.acquire(1.0, "to learn its type") as held:  # type: ignore[attr-defined]
        kind: type[Held] = type(held)
    monkeypatch.setattr(kind, "still_mine", lambda self: False)
    outcome = outcome_of(lambda: Writes(UPSERT_A)(ctx))
    monkeypatch.undo()
    assert isinstance(outcome.error, Busy)
    Oracle({"one": UPSERT_A}).judge(storage, {"one": outcome})


def test_i03_two_sessions_that_both_believe_to_hold_the_lock_lose_no_row() -> None:
    for number in itertools.count(1):
        _, point = pair(small_table(), UPSERT_A, ALSO_A, number, once=False)
        if not point:
            break
    assert number > 24


@pytest.mark.parametrize("where", POINTS)
@pytest.mark.parametrize("who", ["one of ours", "Apache Hudi"])
def test_i06_who_is_rolled_back_while_it_validates_does_not_complete(
    storage: MemoryStorage, who: str, where: str
) -> None:
    def undo() -> None:
        # The second process takes the first for dead: its lease was not renewed.
        clock = clock_of(storage)
        assert isinstance(clock, ManualClock)
        clock.advance_ms(EXPIRY_MS + 1_000)
        run = Recovers() if who == "one of ours" else Hudi("theirs")
        run(context(storage, "two"))  # type: ignore[operator]

    outcome, point = disturbed(storage, "one", Writes(UPSERT_A, once=True), POINTS[where], undo)
    assert point
    assert isinstance(outcome.error, Conflict | Cancelled)
    Oracle({"one": UPSERT_A}, {"theirs": LATER}).judge(storage, {"one": outcome})


@pytest.mark.parametrize(("partition", "is_refused"), [("part=a", True), ("part=b", False)])
def test_i07_a_plan_that_is_only_pending_conflicts_too(
    storage: MemoryStorage, partition: str, is_refused: bool
) -> None:
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS + 500)}.clustering.requested"
    plan = clustering_plan(partition, group_of(storage, partition))
    outcome, _ = disturbed(storage, "one", Writes(UPSERT_A, once=True), "put:part=a", lambda: storage.put(name, plan))
    assert isinstance(outcome.error, Busy) == is_refused
    assert isinstance(outcome.result, Landed) != is_refused
    Oracle({"one": UPSERT_A}, settles=False).judge(storage, {"one": outcome})


def test_i08_an_overwrite_waits_for_a_clustering_of_what_it_replaces(storage: MemoryStorage) -> None:
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS + 500)}.clustering.requested"
    plan = clustering_plan("part=a", group_of(storage, "part=a"))
    outcome, _ = disturbed(
        storage, "one", Writes(OVERWRITE_A, once=True), "put:part=a", lambda: storage.put(name, plan)
    )
    assert isinstance(outcome.error, Busy)
    storage.delete(name)  # Apache Hudi has rolled it back
    outcome = writes(storage, "one", OVERWRITE_A)
    Oracle({"one": OVERWRITE_A}).judge(storage, {"one": outcome})


@pytest.mark.parametrize("body", [b"", b'{"partitionToWriteStats": {', b"Obj\x01 torn"], ids=["empty", "json", "avro"])
@pytest.mark.parametrize("name", ["inflight", "replacecommit.inflight", "deltacommit.inflight"])
def test_i09_an_empty_or_half_written_inflight_stops_nobody(storage: MemoryStorage, name: str, body: bytes) -> None:
    action = "commit" if name == "inflight" else name.partition(".")[0]
    time = instant_of_ms(NOW_MS + 500)

    def appear() -> None:
        storage.put(f"{TIMELINE}/{time}.{action}.requested", b"")
        storage.put(f"{TIMELINE}/{time}.{name}", body)

    outcome, _ = disturbed(storage, "one", Writes(UPSERT_A, once=True), "put:part=a", appear)
    assert isinstance(outcome.result, Landed)
    assert isinstance(writes(storage, "two", UPSERT_B).result, Landed)
    Oracle({"one": UPSERT_A, "two": UPSERT_B}, settles=False).judge(storage, {"one": outcome})


@pytest.mark.parametrize(("one", "two"), [(UPSERT_A, UPSERT_B), (DROP_A, UPSERT_B), (UPSERT_B, OVERWRITE_A)], ids=str)
def test_i10_writers_of_other_partitions_never_conflict(one: Job, two: Job) -> None:
    for number in itertools.count(1):
        outcome, point = pair(small_table(), one, two, number, once=True)
        assert isinstance(outcome.result, Landed), (point, outcome.error)
        if not point:
            break
    assert number > 22


def test_i11_two_inserts_into_one_small_file_both_count(storage: MemoryStorage) -> None:
    alone = storage.copy()
    one, two = Job("insert", (("a5", 5),)), Job("insert", (("a6", 6),))
    outcome, _ = pair(storage, one, two, "put:part=a", once=True)
    assert isinstance(outcome.error, Conflict)
    outcome, _ = pair(alone, one, two, "put:part=a", once=False)
    assert isinstance(outcome.result, Landed)


def test_i11_two_inserts_of_one_key_count_once(storage: MemoryStorage) -> None:
    one, two = Job("insert", (("a5", 5),)), Job("insert", (("a5", 6),))
    outcome, _ = pair(storage, one, two, "put:part=a", once=False)
    assert isinstance(outcome.error, InvalidRequest), "the key is there by now"


def test_i12_markers_of_the_dead_stop_nobody(storage: MemoryStorage) -> None:
    # A writer of Apache Hudi, dead long before: neither a heartbeat nor one of ours to roll it back.
    time = instant_of_ms(NOW_MS - 30_000)
    for name in (f"{time}.commit.requested", f"{time}.inflight"):
        storage.put(f"{TIMELINE}/{name}", b"")
    put_marker(storage, time, f"part=a/{group_of(storage, 'part=a')}_7-1-0_{time}.parquet", replaces=True)
    outcome = writes(storage, "one", UPSERT_A, once=True)
    assert isinstance(outcome.result, Landed)
    Oracle({"one": UPSERT_A}, {"theirs": LATER}).judge(storage, {"one": outcome})


@pytest.mark.parametrize("where", ["open_input:part=a", "put:.hoodie/.temp", "put:part=a"])
def test_i13_markers_that_came_and_went_between_two_looks_hide_no_conflict(storage: MemoryStorage, where: str) -> None:
    outcome, _ = pair(storage, UPSERT_A, ALSO_A, where, once=True)
    completed = [one.name[:17] for one in storage.list(TIMELINE) if one.name.endswith(".commit")]
    assert not [path for time in completed for path in storage.list(f".hoodie/.temp/{time}")], (
        "the other one's are gone"
    )
    assert isinstance(outcome.error, Conflict)


@pytest.mark.parametrize(
    "where", ["put_if_absent:.hoodie/.heartbeat", *POINTS.values(), "put_if_absent:.hoodie/timeline"]
)
@pytest.mark.parametrize("by_s", [-3_600, -30, -1, 3_600])
def test_i14_times_rise_whatever_the_clock_does(storage: MemoryStorage, where: str, by_s: int) -> None:
    writes(storage, "before", UPSERT_B)

    def jump() -> None:
        clock = clock_of(storage)
        assert isinstance(clock, ManualClock)
        clock.jump_ms(by_s * 1_000)

    outcome, point = disturbed(storage, "one", Writes(UPSERT_A), where, jump)
    assert point
    # A clock far behind is refused with a class that promises nothing: the attempt waits for recovery.
    assert isinstance(outcome.result, Landed) or isinstance(outcome.error, Unavailable)
    assert isinstance(outcome.result, Landed) or by_s == -3_600
    Oracle({"before": UPSERT_B, "one": UPSERT_A}).judge(storage, {"one": outcome})


@pytest.mark.parametrize("where", [*POINTS.values(), "put_if_absent:.hoodie/timeline"])
def test_i15_a_writer_whose_beats_are_starved_is_rolled_back_or_completes_never_both(
    storage: MemoryStorage, where: str
) -> None:
    def overtake() -> None:
        clock = clock_of(storage)
        assert isinstance(clock, ManualClock)
        clock.advance_ms(EXPIRY_MS + 1_000)
        told["two"] = writes(storage, "two", ALSO_A)

    told: dict[str, Outcome] = {}
    outcome, _ = disturbed(storage, "one", Writes(UPSERT_A), where, overtake)
    # Before its data it begins anew by itself; after that it stops, and says why.
    assert isinstance(outcome.result, Landed) or isinstance(outcome.error, Cancelled)
    Oracle({"one": UPSERT_A, "two": ALSO_A}).judge(storage, {**told, "one": outcome})


@pytest.mark.parametrize("other", [ALSO_A, DROP_A, OVERWRITE_A], ids=str)
def test_i16_writers_with_other_lock_settings_still_meet_in_the_slots(other: Job) -> None:
    # Neither waits for the other, ever: it is as if each had a lock of its own.
    for number in itertools.count(1):
        _, point = pair(small_table(), UPSERT_A, other, number, once=False)
        if not point:
            break
    assert number > 24


def test_i17_an_instant_is_used_once(storage: MemoryStorage) -> None:
    session = session_of(storage, "one")
    attempt = begin(session.ctx, session.loader, "commit")
    assert not take_lease(session_of(storage, "two").ctx, attempt.instant)
    write = Write("UPSERT", ())
    complete_write(session, attempt, write)
    with pytest.raises(Conflict, match="completed already"):
        complete_write(session, attempt, write)


def test_i17_a_cancelled_instant_is_not_used_again(storage: MemoryStorage) -> None:
    session = session_of(storage, "one")
    attempt = begin(session.ctx, session.loader, "commit")
    assert cancel_write(session_of(storage, "two"), attempt.instant, "a test")
    with pytest.raises(Cancelled):
        complete_write(session, attempt, Write("UPSERT", ()))

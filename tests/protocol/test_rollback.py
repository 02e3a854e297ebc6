"""Rollback of dead writers of ours: one plan a target, one executor, resumable everywhere, and never of a live writer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.recover import rollback, sweep
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback import roll_back
from hudi_ops.errors import Busy, Cancelled, Conflict, HudiOpsError, Internal, InvalidRequest, Unsupported
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.fault_plans import DiesBefore, DiesBehind, MoveBefore
from tests.protocol.crash_table import NEW, OLD, SECOND, assert_whole, make_base, unaccounted, visible
from tests.protocol.dead_writers import LATER_MS, late_clock, make_dead, rollbacks, snapshot, timeline
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import MERGE_ON_READ, NOW_MS, made, table_of

STEP = 1 if SOAK else 3
FLOORS = {
    Fault.ERROR_BEFORE: 45 if SOAK else 22,
    Fault.ERROR_AFTER: 18,
    Fault.LANDS_LATER: 18,
}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryStorage, str]:
    return make_dead(tmp_path_factory.mktemp("rollback") / "source")


@pytest.fixture
def dead(left: tuple[MemoryStorage, str]) -> tuple[MemoryStorage, str]:
    """The table with a write that died right before its slot, and its instant."""
    return left[0].copy(), left[1]


def operations_of_a_recovery(storage: MemoryStorage) -> Sequence[str]:
    undisturbed = FaultyStorage(storage.copy())
    recover(table_of(undisturbed, late_clock(), "first")._session)
    return undisturbed.history


def assert_undone(storage: MemoryStorage, clock: ManualClock, story: str) -> None:
    """The dead write is gone, said so by one rollback, and nothing is left of it."""
    assert len(rollbacks(storage)) == 1, f"{story}: {rollbacks(storage)}"
    assert_whole(storage, clock, OLD, story)


def test_nothing_is_deleted_before_a_cancel_holds_a_slot(dead: tuple[MemoryStorage, str]) -> None:
    storage, instant = dead
    cancelled_at: list[int] = []

    class Watch:
        def fault_at(self, number: int, point: str) -> Fault | None:
            log = load_log(storage, None)
            if point.startswith("delete:"):
                assert log is not None
                assert any(isinstance(entry, Cancel) and entry.instant == instant for entry in log.entries), point
                cancelled_at.append(number)
            return None

    recover(table_of(FaultyStorage(storage, Watch()), late_clock(), "first")._session)
    assert cancelled_at
    assert_undone(storage, late_clock(), "undisturbed")


def test_a_write_that_no_slot_cancels_is_not_rolled_back(dead: tuple[MemoryStorage, str]) -> None:
    storage, instant = dead
    before = snapshot(storage)
    found = timeline(storage).find(instant)
    assert found is not None
    with pytest.raises(Internal, match="no slot cancels"):
        roll_back(table_of(storage, late_clock(), "first")._session, found)
    assert snapshot(storage) == before


def first(storage: FaultyStorage, clock: ManualClock) -> None:
    recover(table_of(storage, clock, "first")._session)


def test_crash_at_every_operation_of_a_rollback_then_resumed_by_another(dead: tuple[MemoryStorage, str]) -> None:
    for fault in CRASHES:
        for left in fault_sweep(
            dead[0], first, fault, "a rollback", points=41, writes=FLOORS[Fault.ERROR_AFTER], clock=late_clock
        ):
            left.clock.advance_ms(LATER_MS)
            recover(table_of(left.storage, left.clock, "second")._session)
            assert_undone(left.storage, left.clock, left.story)


@pytest.mark.parametrize("fault", FLOORS)
def test_an_error_at_every_operation_of_a_rollback(dead: tuple[MemoryStorage, str], fault: Fault) -> None:
    for left in fault_sweep(
        dead[0], first, fault, "a rollback", points=41, runs=FLOORS[fault], clock=late_clock, lag=3
    ):
        left.land()
        left.clock.advance_ms(LATER_MS)
        recover(table_of(left.storage, left.clock, "second")._session)
        assert_undone(left.storage, left.clock, left.story)


def test_two_rollbackers_of_one_target_make_one_rollback(dead: tuple[MemoryStorage, str]) -> None:
    """Without a lock between them: the second runs as a whole before each operation of the first."""
    base, _ = dead
    withdrawn = 0
    for number in range(1, len(operations_of_a_recovery(base)) + 1, STEP):
        storage, clock = base.copy(), late_clock()
        other = table_of(storage, clock, "second")
        moves = MoveBefore.at(number, lambda other=other: recover(other._session) and None)  # type: ignore[misc]
        undone = recover(table_of(FaultyStorage(storage, moves), clock, "first")._session)
        withdrawn += not undone
        clock.advance_ms(LATER_MS)
        recover(table_of(storage, clock, "third")._session)
        assert_undone(storage, clock, f"second before {moves.moved_at}")
    assert withdrawn


def test_without_the_look_for_another_rollback_there_are_two(
    dead: tuple[MemoryStorage, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _ = dead
    monkeypatch.setattr(rollback, "other_rollbacks", lambda *_: [])
    other = table_of(storage, late_clock(), "second")
    moves = MoveBefore("rollback.requested", lambda: recover(other._session) and None)
    recover(table_of(FaultyStorage(storage, moves), late_clock(), "first")._session)
    assert len(rollbacks(storage)) == 2


def test_a_rollbacker_that_slept_past_its_lease_finds_itself_replaced(dead: tuple[MemoryStorage, str]) -> None:
    base, _ = dead
    for number in range(1, len(operations_of_a_recovery(base)) + 1, STEP):
        storage, clock = base.copy(), late_clock()

        def sleep(storage: MemoryStorage = storage, clock: ManualClock = clock) -> None:
            clock.advance_ms(LATER_MS)
            recover(table_of(storage, clock, "second")._session)

        moves = MoveBefore.at(number, sleep)
        with contextlib.suppress(Cancelled, Conflict):
            recover(table_of(FaultyStorage(storage, moves), clock, "first")._session)
        clock.advance_ms(LATER_MS)
        recover(table_of(storage, clock, "third")._session)
        assert_undone(storage, clock, f"slept before {moves.moved_at}")


def test_rollback_of_me_scheduled_while_i_validate(tmp_path: Path) -> None:
    """D.2 (6): at every operation of a write, another process takes it for dead and rolls it back; then it goes on."""
    base = make_base(tmp_path / "source", None)
    rehearsal = FaultyStorage(base.copy())
    _write_once(rehearsal, ManualClock(NOW_MS))
    refused = 0
    for number in range(1, rehearsal.operations + 1, STEP):
        storage, clock = base.copy(), ManualClock(NOW_MS)

        def undo(storage: MemoryStorage = storage, clock: ManualClock = clock) -> None:
            clock.advance_ms(LATER_MS)
            recover(table_of(storage, clock, "second")._session)

        moves = MoveBefore.at(number, undo)
        error = _write_once(FaultyStorage(storage, moves), clock)
        story = f"rolled back before {moves.moved_at} -> {error!r}"
        assert isinstance(error, Cancelled | Conflict | None), story
        assert visible(storage, clock) == (OLD if error is not None else NEW), story
        refused += error is not None
        assert unaccounted(storage) == [], story
        assert [one.invariant for one in verify_table(storage, clock=clock).errors] == [], story
    assert refused >= 16 / STEP


def _write_once(storage: FaultyStorage, clock: ManualClock) -> HudiOpsError | None:
    table = table_of(storage, clock, "writer")
    try:
        ingest(table._session, Batch(parse_operation("upsert"), rows=SECOND), table.context.engine, "", 0.0)
    except HudiOpsError as error:
        return error
    return None


def test_the_markers_of_a_dead_writer_hinder_nobody(dead: tuple[MemoryStorage, str], tmp_path: Path) -> None:
    """D.2 (12): another write to the same file groups succeeds at once, and clears them."""
    storage, instant = dead
    assert storage.list(f".hoodie/.temp/{instant}")
    clock = late_clock()
    table_of(storage, clock, "second").ingest(SECOND)
    assert visible(storage, clock) == NEW
    assert unaccounted(storage) == []


def test_an_unreadable_rollback_plan_lets_nothing_be_deleted_until_it_can_be_read(
    dead: tuple[MemoryStorage, str],
) -> None:
    storage, instant = dead
    clock = late_clock()
    with contextlib.suppress(Crash):
        recover(table_of(FaultyStorage(storage, DiesBefore("rollback.inflight")), clock, "first")._session)
    (plan,) = [info.path for info in storage.list(".hoodie/timeline") if info.name.endswith(".rollback.requested")]
    body = storage.get(plan)
    clock.advance_ms(LATER_MS)
    for torn in (b"", b"Obj\x01 torn"):
        storage.put(plan, torn)
        before = [info.path for info in storage.list() if not info.path.startswith(".hoodie/.h")]
        recover(table_of(storage, clock, "second")._session)
        assert [info.path for info in storage.list() if not info.path.startswith(".hoodie/.h")] == before
        table_of(storage, clock, "writer").ingest(SECOND)
        assert visible(storage, clock) == NEW, "it does not stop writes"
    storage.put(plan, body)
    assert [one.instant for one in recover(table_of(storage, clock, "third")._session)] == [instant]
    assert len(rollbacks(storage)) == 1
    assert unaccounted(storage) == []


def test_a_file_that_a_late_task_writes_is_found_by_the_second_look(dead: tuple[MemoryStorage, str]) -> None:
    storage, instant = dead
    clock = late_clock()
    (path, *_) = [info.path for info in storage.list("part=p0") if instant in info.name]
    recover(table_of(storage, clock, "second")._session)
    assert storage.head(path) is None
    storage.put(path, b"rows that must never show")
    assert [(one.invariant, one.where) for one in verify_table(storage, clock=clock).findings] == [("late-file", path)]
    recover(table_of(storage, clock, "third")._session)
    assert storage.head(path) is not None, "not before its time: the task may write again"
    clock.advance_ms(LATER_MS)
    recover(table_of(storage, clock, "fourth")._session)
    assert_undone(storage, clock, "second look")
    assert not [name for name in storage.list_folder(".hoodie/.temp").folders if name.startswith(instant)]


def test_the_second_look_costs_nothing_until_it_is_due_and_lists_no_partition(dead: tuple[MemoryStorage, str]) -> None:
    storage, _ = dead
    clock = late_clock()
    recover(table_of(storage, clock, "second")._session)
    watched = FaultyStorage(storage)
    recover(table_of(watched, clock, "third")._session)
    before = watched.operations
    for number in range(500):
        storage.put(sweep.note_path(f"2001010100000{number:04d}", clock.now_ms() + 1_000), b"")
    watched = FaultyStorage(storage)
    recover(table_of(watched, clock, "third")._session)
    assert watched.operations == before, "notes that are not due cost nothing"
    assert not [point for point in watched.history if point.startswith(("list:part", "list_folder:part"))]


def test_one_write_looks_at_some_files_again_and_leaves_the_rest_to_the_next(
    dead: tuple[MemoryStorage, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, _ = dead
    clock = late_clock()
    session = table_of(storage, clock, "second")._session
    recover(session)
    others = [f"2001010100000000{number}" for number in range(3)]
    for other in others:
        cancel_write(session, other, "test")
        storage.put(f".hoodie/.temp/{other}/part=p0/00000000-1-1_1-1-1_{other}.parquet.marker.CREATE", b"")
        storage.put(sweep.note_path(other, 1), b"")
    monkeypatch.setattr(sweep, "SWEPT_FILES_MAX", 2)
    left = []
    for _ in range(2):
        recover(session)
        left.append([name for name in storage.list_folder(".hoodie/.temp").folders if name in others])
    assert left == [others[2:], []]


def test_a_note_without_its_cancel_deletes_nothing(dead: tuple[MemoryStorage, str]) -> None:
    """A process that slept while the table was made anew leaves such a note."""
    storage, _ = dead
    clock = late_clock()
    newest = timeline(storage).completed_writes[-1].time
    (path, *_) = [info.path for info in storage.list() if newest in info.name and info.name.endswith(".parquet")]
    storage.put(f".hoodie/.temp/{newest[:-1]}9/{path}.marker.CREATE", b"")
    storage.put(sweep.note_path(f"{newest[:-1]}9", 1), b"")
    recover(table_of(storage, clock, "second")._session)
    assert visible(storage, clock) == OLD


def test_a_note_of_a_completed_write_without_markers_goes_once_it_is_due(dead: tuple[MemoryStorage, str]) -> None:
    """Its executor noted late files of an earlier one while another process deleted the last markers."""
    storage, _ = dead
    clock = late_clock()
    newest = timeline(storage).completed_writes[-1].time
    note = sweep.note_path(newest, clock.now_ms() + 60_000)
    storage.put(note, b"")
    recover(table_of(storage, clock, "second")._session)
    assert storage.head(note) is not None, "tasks of the earlier executor may still write"
    clock.advance_ms(61_000)
    recover(table_of(storage, clock, "third")._session)
    assert storage.head(note) is None
    assert visible(storage, clock) == OLD


def test_by_hand_a_dead_write_is_undone_once(dead: tuple[MemoryStorage, str]) -> None:
    storage, instant = dead
    clock = late_clock()
    table = table_of(storage, clock, "second")
    before = snapshot(storage)
    planned = table.rollback(instant, dry_run=True)
    assert snapshot(storage) == before
    assert planned.files
    assert planned.dry_run
    assert planned.rollback is None
    assert "simulated-dead" in planned.owner
    done = table.rollback(instant)
    assert done.files == planned.files
    assert done.rollback is not None
    assert_undone(storage, clock, "by hand")
    again = table.rollback(instant)
    assert again.note == f"rollback {done.rollback} undid it before"


def test_by_hand_a_live_write_is_refused_and_its_owner_named(dead: tuple[MemoryStorage, str]) -> None:
    storage, instant = dead
    before = snapshot(storage)
    with pytest.raises(Busy, match="simulated-dead"):
        table_of(storage, late_clock(by_ms=1_000), "second").rollback(instant, abandoned=True)
    assert snapshot(storage) == before


def test_by_hand_a_write_without_a_heartbeat_needs_the_word_that_it_is_abandoned(
    dead: tuple[MemoryStorage, str],
) -> None:
    storage, instant = dead
    storage.delete(f".hoodie/.heartbeat/{instant}")
    table = table_of(storage, late_clock(), "second")
    assert [one.reason.partition(":")[0] for one in table.recover().left] == ["no heartbeat"]
    with pytest.raises(InvalidRequest, match="--abandoned"):
        table.rollback(instant)
    assert table.rollback(instant, abandoned=True).files
    assert_undone(storage, late_clock(), "abandoned")


def test_by_hand_only_pending_writes_are_undone(dead: tuple[MemoryStorage, str]) -> None:
    storage, _ = dead
    table = table_of(storage, late_clock(), "second")
    before = snapshot(storage)
    with pytest.raises(InvalidRequest, match=r"is completed(.|\n)*`hudi-ops restore TABLE`"):
        table.rollback(timeline(storage).completed_writes[-1].time)
    with pytest.raises(InvalidRequest, match="no such instant"):
        table.rollback("20010101000000000")
    plan = ".hoodie/timeline/20300601000000000.clustering.requested"
    storage.put(plan, b"")
    with pytest.raises(Unsupported, match=r"clustering is a plan(.|\n)*`hudi-ops cancel TABLE 20300601000000000`"):
        table.rollback("20300601000000000")
    storage.delete(plan)
    assert snapshot(storage) == before


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("restore", "hudi-ops restore TABLE"),
        ("clean", "hudi-ops clean TABLE execute --instant 20300601000000000"),
        ("compaction", "hudi-ops compact TABLE execute --instant 20300601000000000"),
        ("clustering", "hudi-ops cluster TABLE execute --instant 20300601000000000"),
    ],
)
def test_recovery_names_the_command_that_finishes_a_pending_service(action: str, command: str) -> None:
    storage, clock = made(MERGE_ON_READ), ManualClock(NOW_MS, tick_ms=1)
    storage.put(f".hoodie/timeline/20300601000000000.{action}.requested", b"")
    table = table_of(storage, clock, "second")
    assert [f"`{command}`" in one.reason for one in table.recover().left] == [True]
    if action == "restore":
        with pytest.raises(Unsupported, match=f"a pending restore is not rolled back(.|\n)*`{command}`"):
            table.rollback("20300601000000000")


def test_by_hand_recovery_says_what_it_did(dead: tuple[MemoryStorage, str]) -> None:
    storage, instant = dead
    result = table_of(storage, late_clock(), "second").recover()
    assert [one.instant for one in result.rolled_back] == [instant]
    assert result.left == ()
    assert_undone(storage, late_clock(), "recovered")
    assert table_of(storage, late_clock(), "third").recover().rolled_back == ()


def test_a_rollback_of_ours_that_is_not_finished_is_not_said_to_be(tmp_path: Path) -> None:
    """Its target is off the timeline already; only its completed file is missing."""
    storage, instant = make_dead(tmp_path / "source")
    dies = DiesBehind("delete:.hoodie/timeline", "put:.hoodie/.commit_log/payload")
    with contextlib.suppress(Crash):
        recover(table_of(FaultyStorage(storage, dies), late_clock(), "first")._session)
    assert timeline(storage).find(instant) is None
    (begun,) = timeline(storage).pending
    told = table_of(storage, late_clock(2 * LATER_MS), "second").rollback(instant)
    assert told.note.startswith(f"rollback {begun.time} of it is pending")
    assert "hudi-ops recover" in told.note

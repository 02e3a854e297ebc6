"""What killed writers of Apache Hudi left is rolled back by ours when a heartbeat says so; the real one plays in tests/interop."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from hudi_ops.commit.recover import recover as recovery
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback_bodies import metadata_bytes
from hudi_ops.commit.recover.sweep import notes_of
from hudi_ops.concurrency.foreign import foreign_instants
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lease.own_clock import CLOCK_PROBE
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBehind, MoveBefore
from tests.protocol.crash_table import NEW, OLD, SECOND, make_base, unaccounted, visible
from tests.protocol.dead_writers import LATER_MS, kill_foreign, late_clock, rollbacks, snapshot, timeline
from tests.tables import NOW_MS, table_of


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    storage = make_base(tmp_path / "source", None)
    storage._clock = late_clock()
    return storage


@pytest.mark.parametrize("kind", ["commit", "deltacommit"])
@pytest.mark.parametrize("markers", ["direct", "server", "none"])
def test_what_its_markers_name_is_deleted_logs_too_and_without_any_what_carries_its_instant(
    storage: MemoryStorage, kind: str, markers: str
) -> None:
    instant, files = kill_foreign(storage, NOW_MS, kind=kind, markers=markers)
    # Hadoop's checksum files, beside each file that it wrote on a disk.
    storage.put(f"part=p0/.{files[0].rpartition('/')[2]}.crc", b"crc")
    storage.put(f".hoodie/.heartbeat/.{instant}.crc", b"crc")
    (undone,) = recover(table_of(storage, late_clock(), "ours")._session)
    assert list(undone.files) == files
    assert undone.action == kind
    assert visible(storage, late_clock()) == OLD
    assert len(rollbacks(storage)) == 1
    assert len(notes_of(storage.list_folder(".hoodie/.temp").folders).get(instant, ())) == (markers != "none")
    assert unaccounted(storage) == []
    log = load_log(storage, None)
    assert log is not None
    assert isinstance((log.fate(instant) or (0, None))[1], Cancel), "our own log knows"
    rollback = next(one for one in timeline(storage) if one.kind == "rollback")
    plan = read_plan(storage, timeline(storage), rollback)
    assert isinstance(plan, RollbackPlan)
    assert (plan.target, plan.target_action) == (instant, kind)
    assert {f"{part}/{name}" for part, names in plan.files.items() for name in names} == set(files)
    assert verify_table(storage, deep=True, clock=late_clock()).findings == ()


def test_a_marker_that_names_another_writers_file_deletes_nothing(storage: MemoryStorage) -> None:
    instant, _ = kill_foreign(storage, NOW_MS)
    (path, *_) = [info.path for info in storage.list("part=p0") if instant not in info.name and "parquet" in info.name]
    storage.put(f".hoodie/.temp/{instant}/{path}.marker.APPEND", b"")
    recover(table_of(storage, late_clock(), "ours")._session)
    assert visible(storage, late_clock()) == OLD


@pytest.mark.parametrize("age_ms", [0, 100_000])
def test_a_live_writer_is_left_alone(storage: MemoryStorage, age_ms: int) -> None:
    clock = late_clock()
    instant, _ = kill_foreign(storage, clock.now_ms() - age_ms)
    before = snapshot(storage)
    assert recover(table_of(storage, clock, "ours")._session) == []
    assert snapshot(storage) == before
    table_of(storage, clock, "ours").ingest(SECOND)
    assert visible(storage, clock) == NEW
    assert [one.time for one in timeline(storage).pending] == [instant]
    assert verify_table(storage, clock=clock).findings == ()


def test_one_without_a_heartbeat_is_left_alone(storage: MemoryStorage) -> None:
    """Writes stop before it: tests/protocol/test_silent_writers.py."""
    clock = late_clock()
    kill_foreign(storage, None)
    before = snapshot(storage)
    assert recover(table_of(storage, clock, "ours")._session) == []
    assert snapshot(storage) == before
    (finding,) = verify_table(storage, clock=clock).findings
    assert finding.invariant == "pending-unowned"
    assert "--abandoned" in finding.next_step


def test_a_heartbeat_that_is_renewed_before_the_lock_is_held_saves_its_writer(storage: MemoryStorage) -> None:
    instant, files = kill_foreign(storage, NOW_MS)
    moves = MoveBefore(f"put:{CLOCK_PROBE}", lambda: storage.put(f".hoodie/.heartbeat/{instant}", b""))
    assert recover(table_of(FaultyStorage(storage, moves), late_clock(), "ours")._session) == []
    assert moves.moved_at
    assert all(storage.head(path) is not None for path in files)


def test_a_machine_whose_clock_is_ahead_does_not_take_live_writers_for_dead(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = late_clock()
    storage._clock = ManualClock(now.now_ms())
    _, files = kill_foreign(storage, now.now_ms() - 1_000)
    ahead = ManualClock(now.now_ms() + 3_600_000)
    assert recover(table_of(storage, ahead, "ahead")._session) == []
    assert all(storage.head(path) is not None for path in files)
    monkeypatch.setattr(foreign_instants, "_is_expired", lambda *_: True)
    assert recover(table_of(storage, ahead, "ahead")._session), "without the storage's clock a live writer is undone"


def test_without_the_second_judgement_under_the_lock_a_writer_that_came_back_is_undone(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    instant, files = kill_foreign(storage, NOW_MS)
    heartbeat = f".hoodie/.heartbeat/{instant}"

    class BeatsAfterTheFirstLook:
        seen = False

        def fault_at(self, number: int, point: str) -> Fault | None:
            if self.seen and point == "list_folder:.hoodie/timeline":
                storage.put(heartbeat, b"")
            self.seen = self.seen or point == f"head:{heartbeat}"
            return None

    session = table_of(FaultyStorage(storage, BeatsAfterTheFirstLook()), late_clock(), "ours")._session
    found = timeline(storage).find(instant)
    assert found is not None
    assert recovery.rollback_dead_write(session, found) is None
    assert all(storage.head(path) is not None for path in files)
    monkeypatch.setattr(recovery, "is_dead", lambda *_: True)
    assert recovery.rollback_dead_write(session, found) is not None
    assert not any(storage.head(path) is not None for path in files)


@pytest.mark.parametrize("point", ["put:.hoodie/.commit_log/payload", "put_if_absent:.hoodie/timeline"])
def test_a_rollback_of_ours_that_apache_hudi_finishes_is_no_fault(storage: MemoryStorage, point: str) -> None:
    """It executes any rollback that it finds pending: while ours works, and after ours died behind its slot."""
    instant, _ = kill_foreign(storage, NOW_MS)
    clock = late_clock()
    with contextlib.suppress(Crash):
        recover(table_of(FaultyStorage(storage, DiesBehind("rollback.inflight", point)), clock, "ours")._session)
    (pending,) = [one for one in timeline(storage).pending if one.kind == "rollback"]
    theirs = metadata_bytes(storage, pending.time, 5, Instant(instant, "commit", State.INFLIGHT), [])
    storage.put(f".hoodie/timeline/{pending.time}_{instant_of_ms(clock.now_ms() + 7_000)}.rollback", theirs)
    clock.advance_ms(LATER_MS)
    recover(table_of(storage, clock, "second")._session)
    assert len(rollbacks(storage)) == 1
    assert unaccounted(storage) == []
    findings = verify_table(storage, clock=clock).findings
    assert [one.invariant for one in findings] == ([] if point.startswith("put_if") else ["foreign-instant"])


def test_every_delete_of_a_dead_strangers_files_follows_a_cancel(storage: MemoryStorage) -> None:
    instant, _ = kill_foreign(storage, NOW_MS)
    seen = []

    class ConflictWatch:
        def fault_at(self, number: int, point: str) -> Fault | None:
            log = load_log(storage, None)
            is_cancelled = log is not None and any(
                isinstance(one, Cancel) and one.instant == instant for one in log.entries
            )
            if point.startswith("delete:") and instant in point:
                seen.append(point)
                assert is_cancelled, point
            return None

    recover(table_of(FaultyStorage(storage, ConflictWatch()), late_clock(LATER_MS), "ours")._session)
    assert len(seen) > 4
    assert EXPIRY_MS < LATER_MS

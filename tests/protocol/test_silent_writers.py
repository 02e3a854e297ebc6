"""A pending write of Apache Hudi without a heartbeat: nobody passes it, or rolls it back, unless somebody says so."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops.commit.recover.rollback_bodies import plan_bytes
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import RolledBack, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.archived_history import archive
from tests.protocol.crash_table import NEW, OLD, SECOND, make_base, unaccounted, visible
from tests.protocol.dead_writers import LATER_MS, kill_foreign, late_clock, rollbacks, snapshot, timeline
from tests.protocol.foreign_table import make_foreign, opened
from tests.tables import NOW_MS, TIMELINE, table_of

ROLLBACK = instant_of_ms(NOW_MS + 60_000)


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    storage = make_base(tmp_path / "source", None)
    storage._clock = late_clock()
    return storage


def begin_their_rollback(storage: MemoryStorage, instant: str, files: list[str], rollback: str = ROLLBACK) -> None:
    """The rollback that Apache Hudi's next writer leaves when it refuses to go on."""
    plan = plan_bytes(storage, Instant(instant, "commit", State.INFLIGHT), files)
    storage.put(f".hoodie/timeline/{rollback}.rollback.requested", plan)
    storage.put(f".hoodie/timeline/{rollback}.rollback.inflight", b"")


def passing(storage: MemoryStorage, clock: ManualClock) -> Table:
    """A table whose writers pass such writes."""
    return Table(
        simulated_context(storage, clock, "ours"), conflicts=ConflictSettings(foreign_without_heartbeat="pass")
    )


@pytest.mark.parametrize("markers", ["direct", "server", "none"])
def test_a_write_stops_before_it_and_changes_nothing(storage: MemoryStorage, markers: str) -> None:
    instant, _ = kill_foreign(storage, None, markers=markers)
    before = snapshot(storage)
    with pytest.raises(Busy) as refused:
        table_of(storage, late_clock(), "ours").ingest(SECOND)
    text = str(refused.value)
    assert f"hudi-ops rollback TABLE {instant} --abandoned" in text
    assert f"begun {LATER_MS // 1000} s ago" in text
    assert ("no marker" if markers == "none" else f".hoodie/.temp/{instant}/") in text
    assert snapshot(storage) == before


def test_a_table_of_another_program_is_not_adopted_by_a_write_that_stops(storage: MemoryStorage) -> None:
    theirs = make_foreign(storage)
    kill_foreign(theirs, None)
    before = snapshot(theirs)
    with pytest.raises(Busy, match="without a heartbeat"):
        opened(theirs, late_clock(), "ours").ingest(SECOND)
    assert snapshot(theirs) == before


def test_a_removal_stops_before_it(storage: MemoryStorage) -> None:
    kill_foreign(storage, None)
    before = snapshot(storage)
    with pytest.raises(Busy, match="without a heartbeat"):
        table_of(storage, late_clock(), "ours").delete_partition("part=p0")
    assert snapshot(storage) == before


def test_who_asks_for_it_commits_past_it_with_a_warning(
    storage: MemoryStorage, caplog: pytest.LogCaptureFixture
) -> None:
    instant, files = kill_foreign(storage, None)
    with caplog.at_level(logging.WARNING):
        passing(storage, late_clock()).ingest(SECOND)
    assert f"committing past {instant}" in caplog.text
    assert visible(storage, late_clock()) == NEW
    assert [one.time for one in timeline(storage).pending] == [instant], "it is not rolled back unasked"
    assert all(storage.head(path) for path in files)


def test_one_that_appears_while_a_write_is_under_way_is_not_passed(storage: MemoryStorage) -> None:
    """With an instant below ours, and put on the timeline after we looked."""
    found: list[str] = []

    class Appears:
        def fault_at(self, number: int, point: str) -> Fault | None:
            if not found and point.startswith("put:part="):
                found.append(kill_foreign(storage, None)[0])
            return None

    with pytest.raises(Busy, match="without a heartbeat"):
        table_of(FaultyStorage(storage, Appears()), late_clock(), "ours").ingest(SECOND)
    assert found
    assert [one.time for one in timeline(storage).pending] == found
    assert visible(storage, late_clock()) == OLD


def test_one_that_ends_while_it_is_looked_at_stops_nobody(storage: MemoryStorage) -> None:
    instant, files = kill_foreign(storage, None, markers="none")

    def ends() -> None:
        for path in (*files, f".hoodie/timeline/{instant}.inflight", f".hoodie/timeline/{instant}.commit.requested"):
            storage.delete(path)

    moves = MoveBefore(f"head:.hoodie/.heartbeat/{instant}", ends)
    table_of(FaultyStorage(storage, moves), late_clock(), "ours").ingest(SECOND)
    assert moves.moved_at
    assert visible(storage, late_clock()) == NEW


@pytest.mark.parametrize("markers", ["direct", "server", "none"])
def test_abandoned_leaves_none_of_its_files(storage: MemoryStorage, markers: str) -> None:
    instant, files = kill_foreign(storage, None, markers=markers)
    checksums = [f"{one.rpartition('/')[0]}/.{one.rpartition('/')[2]}.crc" for one in files]
    for one in checksums:
        storage.put(one, b"crc")
    table = table_of(storage, late_clock(), "ours")
    assert list(table.rollback(instant, abandoned=True, dry_run=True).files) == files
    assert list(table.rollback(instant, abandoned=True).files) == files
    assert not [one for one in (*files, *checksums) if storage.head(one)]
    assert unaccounted(storage) == []
    table.ingest(SECOND)
    assert visible(storage, late_clock()) == NEW


def test_their_pending_rollback_is_finished_by_nobody_who_was_not_asked(storage: MemoryStorage) -> None:
    instant, files = kill_foreign(storage, None)
    begin_their_rollback(storage, instant, files)
    clock = late_clock(10 * LATER_MS)
    before = snapshot(storage)
    table = table_of(storage, clock, "ours")
    assert table.recover().rolled_back == ()
    with pytest.raises(InvalidRequest, match="--abandoned"):
        table.rollback(instant)
    with pytest.raises(Busy):
        table.ingest(SECOND)
    assert snapshot(storage) == before


@pytest.mark.parametrize("asked", ["rollback", "recover"])
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("markers", ["direct", "none"])
def test_their_pending_rollback_is_finished_where_it_is_asked_for(
    storage: MemoryStorage, asked: str, gone: bool, markers: str
) -> None:
    instant, files = kill_foreign(storage, None, markers=markers)
    begin_their_rollback(storage, instant, files)
    clock = late_clock(10 * LATER_MS)
    if gone:  # somebody took the write off by hand, and left the rollback
        storage.delete(f".hoodie/timeline/{instant}.inflight")
        storage.delete(f".hoodie/timeline/{instant}.commit.requested")
    findings = verify_table(storage, clock=clock).findings
    advice = next(one.next_step for one in findings if one.invariant == "rollback-pending")
    assert f"hudi-ops rollback TABLE {instant} --abandoned" in advice
    table = table_of(storage, clock, "ours")
    undone = (
        table.rollback(instant, abandoned=True) if asked == "rollback" else table.recover(abandoned=True).rolled_back[0]
    )
    assert (undone.rollback, list(undone.files)) == (ROLLBACK, files)
    assert not [one for one in files if storage.head(one)]
    assert timeline(storage).pending == ()
    (done,) = [one for one in timeline(storage) if one.kind == "rollback"]
    result = read_result(storage, timeline(storage), done)
    assert isinstance(result, RolledBack)
    assert result.targets == (instant,)
    table.ingest(SECOND)
    assert visible(storage, clock) == NEW
    assert unaccounted(storage) == []
    assert not verify_table(storage, deep=True, clock=clock).errors


def test_two_rollbacks_of_one_write_are_both_finished(storage: MemoryStorage) -> None:
    instant, files = kill_foreign(storage, None)
    for number in (0, 1):
        begin_their_rollback(storage, instant, files, instant_of_ms(NOW_MS + 60_000 + number))
    table_of(storage, late_clock(), "ours").rollback(instant, abandoned=True)
    assert timeline(storage).pending == ()
    assert len(rollbacks(storage)) == 2


def test_a_pending_rollback_that_completes_before_the_lock_is_left_as_it_is(storage: MemoryStorage) -> None:
    instant, files = kill_foreign(storage, None)
    begin_their_rollback(storage, instant, files)
    done = f".hoodie/timeline/{ROLLBACK}_{instant_of_ms(NOW_MS + 70_000)}.rollback"

    class AfterTheCancel:
        slots = 0

        def fault_at(self, number: int, point: str) -> Fault | None:
            self.slots += point.startswith("put_if_absent:.hoodie/.commit_log/0")
            if self.slots == 1 and point == "list_folder:.hoodie/timeline" and not storage.head(done):
                storage.put(done, b"")
            return None

    with pytest.raises(Busy, match="another process finished"):
        table_of(FaultyStorage(storage, AfterTheCancel()), late_clock(), "ours").rollback(instant, abandoned=True)
    assert all(storage.head(path) for path in files)


@pytest.mark.parametrize(
    "point", ["delete:part=p1", f"delete:.hoodie/timeline/{instant_of_ms(NOW_MS)}", "put:.hoodie/.commit_log/payload"]
)
def test_who_dies_while_finishing_it_leaves_what_the_next_recovery_finishes(storage: MemoryStorage, point: str) -> None:
    instant, files = kill_foreign(storage, None, markers="none")
    begin_their_rollback(storage, instant, files)
    with contextlib.suppress(Crash):
        table_of(FaultyStorage(storage, DiesBefore(point)), late_clock(), "dies").rollback(instant, abandoned=True)
    assert [one for one in timeline(storage).pending if one.kind == "rollback"]
    clock = late_clock(10 * LATER_MS)
    table_of(storage, clock, "ours").ingest(SECOND)
    assert timeline(storage).pending == ()
    assert not [one for one in files if storage.head(one)]
    assert visible(storage, clock) == NEW
    assert unaccounted(storage) == []


def test_their_rollback_of_a_write_that_completed_and_was_archived_deletes_nothing(storage: MemoryStorage) -> None:
    """An eager writer took a live one for dead, and died itself; the other completed, and its commit was archived."""
    template = [CommitMetadata.from_bytes(storage.get(path)) for path in _completed(storage)][-1]
    instant, files = kill_foreign(storage, None)
    begin_their_rollback(storage, instant, files)
    stats = tuple(
        replace(stat, path=path, partition_path=path.rpartition("/")[0])
        for stat, path in zip(template.stats, files, strict=False)
    )
    body = CommitMetadata(operation="INSERT", stats=stats, extra={"schema": template.extra["schema"]}).to_bytes()
    storage.put(f"{TIMELINE}/{instant}_{instant_of_ms(NOW_MS + 65_000)}.commit", body)
    later, done = instant_of_ms(NOW_MS + 70_000), instant_of_ms(NOW_MS + 71_000)
    for name in (f"{later}.commit.requested", f"{later}.inflight"):
        storage.put(f"{TIMELINE}/{name}", b"")
    last = CommitMetadata(operation="UPSERT", stats=(), extra={"schema": template.extra["schema"]})
    storage.put(f"{TIMELINE}/{later}_{done}.commit", last.to_bytes())
    archive(storage, TIMELINE, [one for one in timeline(storage).completed_writes if one.time <= instant])
    table = table_of(storage, late_clock(2 * LATER_MS), "ours")
    result = table.recover(abandoned=True)
    assert (result.rolled_back, "completed" in result.left[0].reason) == ((), True)
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest, match="would undo a completed"):
            table.rollback(instant, abandoned=True, dry_run=dry_run)
    assert all(storage.head(path) is not None for path in files)


def _completed(storage: MemoryStorage) -> list[str]:
    now = timeline(storage)
    return [now.path(one.file_name) for one in now.completed_writes]

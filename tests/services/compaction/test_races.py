"""Compactions among others: ingestion goes on and is never lost, and of several planners or executors one comes through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.concurrency.markers import put_marker
from hudi_ops.errors import Cancelled, Conflict, Corrupt, InvalidRequest, Unsupported
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, encode_block
from hudi_ops.services.compaction import service as compaction_service
from hudi_ops.services.compaction.choose import LeftReason
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plan_bytes import encode_compaction
from hudi_ops.timeline.content.plans import CompactionPlan, read_plan
from hudi_ops.timeline.names import State, completed_name, inflight_name, instant_of_ms, requested_name
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.compaction_table import AFTER_FOURTH, FOURTH, MODEL, log_files, make_logged, merged
from tests.protocol.crash_table import FIRST, unaccounted
from tests.protocol.log_actors import timeline_of
from tests.tables import MERGE_ON_READ, NOW_MS, rows, table_of

LOCK_FREE_POINT = "list_folder:part=p1"
"""Within planning: its state is read by then, its slot not yet claimed."""


def planned_logs(storage: MemoryStorage) -> set[str]:
    timeline = timeline_of(storage)
    (pending,) = (one for one in timeline.pending if one.action == "compaction")
    plan = read_plan(storage, timeline, pending)
    assert isinstance(plan, CompactionPlan)
    return {name for one in plan.slices for name in one.log_files}


def settled(storage: MemoryStorage, clock: ManualClock, model: dict[str, int]) -> None:
    """Everything is compacted, nothing is left over, and readers see the model."""
    table = table_of(storage, clock, "last")
    for _ in range(3):
        if table.compaction.run().instant is None:
            break
    assert (merged(storage, clock), log_files(storage, clock)) == (model, 0)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.recover()
    assert unaccounted(storage) == []
    assert verify_table(storage, deep=True, clock=clock).findings == ()


def test_what_completes_while_a_plan_is_made_is_taken_into_it() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    writer = table_of(storage, clock, "writer")
    plan = MoveBefore(LOCK_FREE_POINT, lambda: writer.ingest(FOURTH))
    made = table_of(FaultyStorage(storage, plan), clock, "planner").compaction.plan()
    assert plan.moved
    assert made.log_files_added == 2, "a log file for each group of the batch"
    instant = timeline_of(storage).completed_writes[-1].time
    assert sum(instant in name for name in planned_logs(storage)) == 2
    assert table_of(storage, clock, "executor").compaction.execute(instant=made.instant).log_files == 6
    settled(storage, clock, AFTER_FOURTH)


def test_steady_ingestion_starves_no_plan() -> None:
    """A write completes before each of the planner's looks at the log, without a lock between them."""
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    writer, model = table_of(storage, clock, "writer"), dict(MODEL)
    count = 0

    class Steady:
        def fault_at(self, number: int, point: str) -> None:
            nonlocal count
            if point.startswith(("list_folder:part", "list_folder:.hoodie/timeline")) and count < 6 and not self.busy:
                self.busy = True
                count += 1
                model["k0"] = 1_000 + count
                writer.ingest(rows(("k0", "p0", 1_000 + count, 10 + count, None)))
                self.busy = False

        busy = False

    faulty = FaultyStorage(storage, Steady())
    planner = table_of(faulty, clock, "planner")
    # The simulated lock is each process's own: no process waits, and slots alone decide.
    made = planner.compaction.plan()
    assert (made.instant is not None, count) == (True, 6)
    table_of(storage, clock, "executor").compaction.execute(instant=made.instant)
    assert merged(storage, clock) == model
    settled(storage, clock, model)


def rows_in_part(storage: MemoryStorage) -> None:
    """A writer without slots completes a log file whose rows have some columns only."""
    timeline = timeline_of(storage)
    writer = next(one for one in reversed(timeline.completed_writes) if one.action == "deltacommit")
    stat = CommitMetadata.from_bytes(storage.get(timeline.path(writer.file_name)), "").stats[0]
    time, completed = (str(int(writer.completion_time) + more) for more in (1, 2))
    path = stat.path.replace(writer.time, time)
    headers = {HeaderKey.INSTANT_TIME: time, HeaderKey.IS_PARTIAL: "true"}
    storage.put(path, encode_block(BlockKind.PARQUET_DATA, headers, b"some columns"))
    written = replace(stat, path=path, log_files=(path.rpartition("/")[2],))
    for name in (requested_name(time, "deltacommit"), inflight_name(time, "deltacommit")):
        storage.put(timeline.path(name), b"")
    body = CommitMetadata(operation="UPSERT", stats=(written,), extra={}).to_bytes()
    storage.put(timeline.path(completed_name(time, "deltacommit", completed)), body)


def test_compact_takes_its_plan_off_again_if_rows_in_part_came_while_it_was_made() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    plan = MoveBefore(LOCK_FREE_POINT, lambda: rows_in_part(storage))
    with pytest.raises(Unsupported, match="cannot be merged here"):
        table_of(FaultyStorage(storage, plan), clock, "planner").compaction.run()
    assert plan.moved
    assert timeline_of(storage).pending == ()
    # Now it is known before a plan is made: the other group is compacted, and this one named.
    planner = table_of(storage, clock, "planner")
    assert planner.compaction.run().slices == 1
    assert planner.compaction.explain().counts[LeftReason.UNMERGEABLE] == 1
    with pytest.raises(Unsupported, match="cannot be merged here"):
        planner.compaction.run()
    assert timeline_of(storage).pending == ()


def test_a_group_that_was_replaced_meanwhile_is_left_out() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    writer = table_of(storage, clock, "writer")
    overwritten = rows(("k0", "p0", 5, 9, None))
    plan = MoveBefore(LOCK_FREE_POINT, lambda: writer.ingest(overwritten, "insert_overwrite"))
    made = table_of(FaultyStorage(storage, plan), clock, "planner").compaction.plan()
    assert (made.groups_dropped, {one.partition_path for one in made.planned}) == (1, {"part=p1"})
    model = {key: value for key, value in MODEL.items() if key in {"k1", "k3", "k5", "k7", "n1", "n2"}} | {"k0": 5}
    assert merged(storage, clock) == model
    settled(storage, clock, model)


def test_a_group_that_was_replaced_after_it_was_planned_is_not_merged() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    made = table_of(storage, clock, "planner").compaction.plan()
    # As the strategy has it, removals wait for no plan of ours.
    table_of(storage, clock, "writer").truncate()
    done = table_of(storage, clock, "executor").compaction.execute(instant=made.instant)
    assert (done.replaced, done.slices) == (2, 0)
    settled(storage, clock, {})


def test_two_planners_share_no_group() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    other = table_of(storage, clock, "other")
    found = []
    plan = MoveBefore(LOCK_FREE_POINT, lambda: found.append(other.compaction.plan(partitions=["part=p0"])))
    made = table_of(FaultyStorage(storage, plan), clock, "planner").compaction.plan()
    assert [one.partition_path for one in found[0].planned] == ["part=p0"]
    assert [one.partition_path for one in made.planned] == ["part=p1"]
    assert made.groups_dropped == 1
    settled(storage, clock, MODEL)


def test_a_planner_whose_groups_are_all_taken_says_by_whom() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    other = table_of(storage, clock, "other")
    plan = MoveBefore(LOCK_FREE_POINT, lambda: other.compaction.plan())
    made = table_of(FaultyStorage(storage, plan), clock, "planner").compaction.plan()
    assert made.instant is None
    assert "taken by others (compaction" in made.note


def planned(storage: MemoryStorage, clock: ManualClock) -> str:
    made = table_of(storage, clock, "planner").compaction.plan()
    assert made.instant is not None
    return made.instant


def test_a_cancel_stops_an_execution_between_slices_and_nothing_of_it_stays() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    user = table_of(storage, clock, "user")

    def cancel(progress) -> None:
        cancel_write(user._session, instant, "no more")
        clock.advance_ms(31_000)

    with pytest.raises(Cancelled, match="no more"):
        table_of(storage, clock, "executor").compaction.execute(instant=instant, progress=cancel)
    assert timeline_of(storage).find(instant) is None
    assert not [info for info in storage.list() if info.name.endswith(f"_{instant}.parquet")]
    with pytest.raises(Cancelled, match="no more"):
        table_of(storage, clock, "executor").compaction.execute(instant=instant)
    settled(storage, clock, MODEL)


def test_who_was_taken_over_stops_and_leaves_the_new_owner_alone() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    done = []

    def sleep(progress) -> None:
        if not done:
            clock.advance_ms(EXPIRY_MS + 1_000)
            done.append(table_of(storage, clock, "second").compaction.execute(instant=instant))

    with pytest.raises(Cancelled, match="taken over by"):
        table_of(storage, clock, "first").compaction.execute(instant=instant, progress=sleep)
    assert (done[0].epoch, done[0].slices) == (2, 2)
    left = [info.name for info in storage.list() if info.name.endswith(f"_{instant}.parquet")]
    assert len(left) == 2
    assert all("-2-0_" in name for name in left)
    settled(storage, clock, MODEL)


def test_a_stop_leaves_the_plan_and_nothing_else() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)

    def stop(progress) -> None:
        raise Cancelled("stopped on request")

    with pytest.raises(Cancelled, match="stopped on request"):
        table_of(storage, clock, "executor").compaction.execute(instant=instant, progress=stop)
    found = timeline_of(storage).find(instant)
    assert found is not None
    assert found.states == {State.REQUESTED}
    assert read_lease(storage, instant) is None
    assert not [info for info in storage.list() if info.name.endswith(f"_{instant}.parquet")]
    settled(storage, clock, MODEL)


def test_a_zombie_that_writes_after_the_takeover_completed_is_removed_by_the_second_look() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    first = table_of(storage, clock, "first")
    assert take_over(first._session, instant, "compaction") is not None
    # Its task announced a file, and sleeps.
    zombie = next(info for info in storage.list("part=p0") if info.name.endswith(".parquet"))
    path = f"part=p0/{zombie.name.partition('_')[0]}_0-1-0_{instant}.parquet"
    put_marker(storage, instant, path, replaces=True)
    clock.advance_ms(EXPIRY_MS + 1_000)
    assert table_of(storage, clock, "second").compaction.execute(instant=instant).epoch == 2
    storage.put(path, storage.get(zombie.path))
    assert merged(storage, clock) == MODEL, "no instant names it"
    table_of(storage, clock, "writer").recover()
    assert storage.head(path) is not None, "the second look is not due"
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "writer").recover()
    assert storage.head(path) is None
    settled(storage, clock, MODEL)


def lagging_completion(storage: MemoryStorage, below: str) -> None:
    """A writer without slots completes below a plan, by a clock that lags, and puts a log file upon a planned group."""
    timeline = timeline_of(storage)
    writer = next(one for one in reversed(timeline.completed_writes) if one.action == "deltacommit")
    named = CommitMetadata.from_bytes(storage.get(timeline.path(writer.file_name))).stats[0]
    time, completed = (str(int(below) - less) for less in (900, 800))
    path = named.path.replace(writer.time, time)
    storage.put(path, bytes(storage.get(named.path)).replace(writer.time.encode(), time.encode(), 1))
    lost = replace(named, path=path, log_files=(path.rpartition("/")[2],))
    body = CommitMetadata(operation="UPSERT", stats=(lost,), extra={}).to_bytes()
    for name in (requested_name(time, "deltacommit"), inflight_name(time, "deltacommit")):
        storage.put(timeline.path(name), b"")
    storage.put(timeline.path(completed_name(time, "deltacommit", completed)), body)


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_log_file_below_the_plan_that_it_lacks_is_never_hidden(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    if when == "before":
        lagging_completion(storage, instant)
    moved = []

    def meanwhile(progress) -> None:
        if when == "while" and not moved:
            moved.append(lagging_completion(storage, instant))

    with pytest.raises(Conflict, match="is not in the plan"):
        table_of(storage, clock, "executor").compaction.execute(instant=instant, progress=meanwhile)
    found = timeline_of(storage).find(instant)
    assert found is not None
    assert found.states == {State.REQUESTED}
    unguarded = storage.copy()
    monkeypatch.setattr(compaction_service, "refuse_missing_log_files", lambda *args, **named: None)
    table_of(unguarded, clock, "executor").compaction.execute(instant=instant)
    assert "compaction-left-out" in {one.invariant for one in verify_table(unguarded, clock=clock).findings}
    # Taken off, its log files wait for the next plan, which is whole.
    table_of(storage, clock, "user").cancel(instant, force=True)
    made = table_of(storage, clock, "planner").compaction.plan()
    assert table_of(storage, clock, "executor").compaction.execute(instant=made.instant).log_files == 5


def test_a_plan_whose_file_is_gone_says_so_and_stays() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    lost = next(info.path for info in storage.list("part=p0") if ".log." in info.name)
    storage.delete(lost)
    with pytest.raises(Corrupt, match="is gone") as failed:
        table_of(storage, clock, "executor").compaction.execute(instant=instant)
    assert lost in str(failed.value)
    assert timeline_of(storage).find(instant).states == {State.REQUESTED}  # type: ignore[union-attr]
    assert "compaction-input-missing" in {one.invariant for one in verify_table(storage, clock=clock).findings}


def test_a_plan_that_apache_hudi_began_is_not_taken_without_a_word() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    storage.put(timeline_of(storage).path(inflight_name(instant, "compaction")), b"")
    # What it wrote, under a stage number above any epoch of ours, and which no marker names.
    base = next(info for info in storage.list("part=p0") if info.name.endswith(".parquet"))
    stray = f"part=p0/{base.name.partition('_')[0]}_0-47-79_{instant}.parquet"
    storage.put(stray, b"half a file")
    executor = table_of(storage, clock, "executor")
    with pytest.raises(InvalidRequest, match="leaves no heartbeat"):
        executor.compaction.execute(instant=instant)
    with pytest.raises(InvalidRequest, match="leaves no heartbeat"):
        executor.compaction.execute()
    assert executor.compaction.run().instant is None
    assert storage.head(stray) is not None
    assert executor.compaction.execute(instant=instant, abandoned=True).slices == 2
    assert storage.head(stray) is None
    settled(storage, clock, MODEL)


def test_a_plan_without_a_slot_is_executed_all_the_same() -> None:
    """As Apache Hudi schedules it: a requested file, and nothing in the log."""
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    twin = storage.copy()
    instant = planned(twin, clock)
    time = instant_of_ms(NOW_MS + 5_000)
    path = timeline_of(storage).path(requested_name(time, "compaction"))
    storage.put(path, twin.get(timeline_of(twin).path(requested_name(instant, "compaction"))))
    clock.advance_ms(10_000)
    done = table_of(storage, clock, "executor").compaction.execute()
    assert (done.instant, done.slices, done.epoch) == (time, 2, 1)
    settled(storage, clock, MODEL)


def test_log_files_are_merged_in_their_order_whatever_the_plans_is() -> None:
    batches = [rows(("k0", "p0", value, 2, None)) for value in (100, 101, 102)]
    storage, clock = make_logged(MERGE_ON_READ, FIRST, *batches), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    timeline = timeline_of(storage)
    found = timeline.find(instant, "compaction")
    assert found is not None
    plan = read_plan(storage, timeline, found)
    assert isinstance(plan, CompactionPlan)
    turned = tuple(replace(one, log_files=one.log_files[::-1]) for one in plan.slices)
    assert turned != plan.slices
    storage.put(timeline.path(found.file_name), encode_compaction(replace(plan, slices=turned)))
    assert merged(storage, clock)["k0"] == 102
    table_of(storage, clock, "executor").compaction.execute(instant=instant)
    assert merged(storage, clock)["k0"] == 102


def test_recovery_leaves_a_plan_and_a_live_executor_alone() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, clock)
    left = table_of(storage, clock, "other").recover().left
    assert [(one.instant, one.state) for one in left] == [(instant, "requested")]
    assert f"--instant {instant}" in left[0].reason
    assert take_over(table_of(storage, clock, "first")._session, instant, "compaction") is not None
    with pytest.raises(Unsupported, match=f"`hudi-ops cancel TABLE {instant}`"):
        table_of(storage, clock, "user").rollback(instant)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "other").recover()
    assert timeline_of(storage).find(instant) is not None
    done = table_of(storage, clock, "user").cancel(instant, force=True)
    assert (done.action, done.state) == ("compaction", "aborted")
    assert timeline_of(storage).find(instant) is None
    settled(storage, clock, MODEL)

"""Cleans cancel overdue plans, remove cancelled ones and tidy the queue; an ingestion removes at most one, without a listing."""

from __future__ import annotations

import json

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, inherit_lease
from hudi_ops.config.requests.cancel import CancelSettings
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.services.base.result import EndedPlans
from hudi_ops.services.cancel import overdue
from hudi_ops.services.cancel.overdue import cancel_overdue
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE, queue_path, read_aborted
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.compaction_table import make_logged
from tests.protocol.log_actors import timeline_of, whole_log
from tests.services.cancel.planned import planned
from tests.tables import NOW_MS, rows, table_of

HOUR_MS = 3_600_000


def written_later(storage: MemoryStorage, clock: ManualClock, writes: int = 1) -> None:
    """Let other writes complete: the table's own time goes on."""
    for number in range(writes):
        table_of(storage, clock, f"writer {number}").ingest(rows(("z", "p1", number, number, None)))


@pytest.mark.parametrize(
    ("policy", "hours", "writes", "is_overdue"),
    [
        ("after 6h", 7, 1, True),
        ("after 6h", 5, 1, False),
        ("after 3 instants", 1, 3, True),
        ("after 3 instants", 1, 2, False),
        ("after 1 instant", 0, 1, False),
        ("cancellable", 99, 5, False),
        ("never", 99, 5, False),
    ],
)
def test_a_clean_cancels_what_is_overdue(policy: str, hours: int, writes: int, is_overdue: bool) -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, cancel=policy)
    clock.advance_ms(hours * HOUR_MS)
    written_later(storage, clock, writes)
    table_of(storage, clock, "cleaner").clean.run(retain=1)
    timeline = timeline_of(storage)
    assert [one.time for one in timeline.aborted] == ([instant] if is_overdue else [])
    assert (timeline.find(instant) is None) == is_overdue
    if is_overdue:
        record = read_aborted(storage, timeline, timeline.aborted[0])
        assert record.cause == "policy"
        assert record.reason.startswith("it is overdue: ")


def test_an_overdue_plan_with_a_live_executor_stays() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, cancel="after 1h")
    clock.advance_ms(2 * HOUR_MS)
    written_later(storage, clock)
    inherit_lease(table_of(storage, clock, "executor").context, instant, "execute")
    assert cancel_overdue(table_of(storage, clock, "cleaner")._session).cancelled == ()
    clock.advance_ms(EXPIRY_MS + 1_000)
    assert cancel_overdue(table_of(storage, clock, "cleaner")._session).cancelled == (instant,)


def test_a_hard_table_cancels_an_overdue_plan_with_a_live_executor() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, cancel="after 1h")
    clock.advance_ms(2 * HOUR_MS)
    written_later(storage, clock)
    inherit_lease(table_of(storage, clock, "executor").context, instant, "execute")
    hard = UpkeepSettings(CleanSettings(automatic=False), ArchiveSettings(automatic=False), CancelSettings(hard=True))
    driven = cancel_overdue(table_of(storage, clock, "cleaner", upkeep=hard)._session)
    assert (driven.cancelled, driven.removed, driven.waiting) == ((instant,), (), (instant,))


def test_many_pending_plans_hide_no_overdue_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overdue, "PLANS_MAX", 1)
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    kept = planned(storage, cancel="never", partitions=("part=p0",))
    instant = planned(storage, cancel="after 1h", partitions=("part=p1",))
    clock.advance_ms(2 * HOUR_MS)
    written_later(storage, clock)
    assert cancel_overdue(table_of(storage, clock, "cleaner")._session).cancelled == (instant,)
    assert [one.time for one in timeline_of(storage).pending] == [kept]


def test_the_clock_of_this_machine_cancels_nothing() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS + 1_000 * HOUR_MS, tick_ms=1)
    planned(storage, cancel="after 1h")
    assert cancel_overdue(table_of(storage, clock, "cleaner")._session).cancelled == ()


def test_a_requested_cancel_is_executed_and_the_queue_tidied() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage)
    table = table_of(storage, clock, "user")
    table.request_cancel(instant)
    log = whole_log(storage)
    left = {
        "20200101000000000": json.dumps({"table_id": log.table_id, "slot": 1}).encode(),
        "20200101000000001": json.dumps({"table_id": "another", "slot": 1}).encode(),
        "20200101000000002": b"{",
    }
    for name, body in left.items():
        storage.put(queue_path(name), body)
    done = cancel_overdue(table._session)
    assert (done.cancelled, done.removed) == ((), (instant,))
    assert [info.name for info in storage.list(QUEUE)] == ["20200101000000001", "20200101000000002"]
    assert cancel_overdue(table._session).removed == ()


def test_a_queue_file_that_another_process_deletes_is_passed_over() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    path = queue_path("20200101000000000")
    storage.put(path, b"{}")
    gone = MoveBefore(f"get:{path}", lambda: storage.delete(path))
    assert cancel_overdue(table_of(FaultyStorage(storage, gone), clock, "cleaner")._session).removed == ()
    assert gone.moved


def pending(storage: MemoryStorage) -> list[str]:
    return [one.time for one in timeline_of(storage).pending]


@pytest.mark.parametrize("remove", [False, True], ids=["ingest", "delete-partition"])
def test_an_ingestion_removes_one_cancelled_plan_and_a_recovery_all(remove: bool) -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    plans = [planned(storage, max_bytes=1) for _ in range(2)]
    user = table_of(storage, clock, "user")
    for plan in plans:
        user.request_cancel(plan)
    other = storage.copy()
    table_of(other, clock, "recovery").recover()
    assert pending(other) == []
    for partition, left in (("part=p1", plans[1:]), ("part=p0", [])):
        if remove:
            table_of(storage, clock, "remover").delete_partition(partition)
        else:
            table_of(storage, clock, "writer").ingest(rows(("z", "p1", 1, 1, None)))
        assert pending(storage) == left
    assert {one.time for one in timeline_of(storage).aborted} == {*plans}


def test_an_ingestion_leaves_a_plan_that_needs_a_listing_to_the_next_clean() -> None:
    """Another program began the plan and left no markers, so only the table tells its files."""
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    other = planned(storage, max_bytes=1)
    foreign = planned(storage, max_bytes=1)
    storage.put(f".hoodie/timeline/{foreign}.compaction.inflight", b"")
    base = next(info for info in storage.list("part=p0") if info.name.endswith(".parquet"))
    file = f"part=p0/{base.name.partition('_')[0]}_9-9-9_{foreign}.parquet"
    storage.put(file, storage.get(base.path))
    user = table_of(storage, clock, "user")
    for plan in (foreign, other):
        asked = user.request_cancel(plan, force=True)
        assert asked.state == "cancelled"
    (row,) = user.plans(foreign)
    assert row.next == f"the next clean, or `hudi-ops cancel TABLE {foreign}`, removes it"
    counted = FaultyStorage(storage)
    for number in range(3):
        table_of(counted, clock, f"writer {number}").ingest(rows(("z", "p1", number, number, None)))
    assert pending(storage) == [foreign]
    assert "list:" not in counted.history
    assert storage.head(file) is not None
    table_of(storage, clock, "cleaner").clean.run(retain=1)
    assert pending(storage) == []
    assert storage.head(file) is None
    assert {one.time for one in timeline_of(storage).aborted} == {foreign, other}


def test_a_deeply_nested_queue_file_stops_no_clean() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    path = queue_path("20300101000000000")
    storage.put(path, b"[" * 200_000)
    assert cancel_overdue(table_of(storage, clock, "cleaner")._session).note
    assert [(one.invariant, one.where) for one in verify_table(storage).findings] == [("cancel-request-left", path)]


def test_a_dry_run_names_the_overdue_plans_and_changes_nothing() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    instant = planned(storage, cancel="after 6h")
    clock.advance_ms(7 * HOUR_MS)
    written_later(storage, clock)
    before = {info.path: storage.get(info.path) for info in storage.list()}
    table = table_of(storage, clock, "cleaner")
    told = table.cancel_overdue(dry_run=True)
    assert (told.cancelled, told.removed, told.dry_run) == ((instant,), (instant,), True)
    assert {info.path: storage.get(info.path) for info in storage.list()} == before
    done = table.cancel_overdue()
    assert (done.cancelled, done.removed) == ((instant,), (instant,))
    assert table.cancel_overdue(dry_run=True).note == "no plan is overdue or cancelled"


def test_an_overdue_plan_of_an_idle_table_is_cancelled() -> None:
    """Its own times stand still, so this clock and the storage's tell the age; one of them alone cancels nothing."""
    for of_process, of_storage, is_overdue in ((7, 7, True), (5, 5, False), (1_000, 0, False), (0, 1_000, False)):
        made, clock, other = make_logged(), ManualClock(NOW_MS, tick_ms=1), ManualClock(NOW_MS, tick_ms=1)
        instant = planned(made, cancel="after 6h")
        storage = made.copy(other)
        clock.advance_ms(of_process * HOUR_MS)
        other.advance_ms(of_storage * HOUR_MS)
        table = table_of(storage, clock, "cleaner")
        (row,) = table.plans()
        assert bool(row.overdue) == row.next.startswith("overdue now") == (of_process > 6)
        assert table.clean.run(retain=1).ended_first.cancelled == ((instant,) if is_overdue else ())


@pytest.mark.parametrize("is_hard", [False, True])
def test_a_clean_names_the_plans_that_it_ends(is_hard: bool) -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS, tick_ms=1)
    overdue, asked = planned(storage, cancel="after 1h", max_bytes=1), planned(storage, max_bytes=1)
    table_of(storage, clock, "user").request_cancel(asked)
    clock.advance_ms(2 * HOUR_MS)
    if is_hard:
        inherit_lease(table_of(storage, clock, "executor").context, overdue, "execute")
    hard = UpkeepSettings(
        CleanSettings(automatic=False), ArchiveSettings(automatic=False), CancelSettings(hard=is_hard)
    )
    table = table_of(storage.copy(clock), clock, "cleaner", upkeep=hard)
    wanted = EndedPlans((overdue,), (asked,), (overdue,)) if is_hard else EndedPlans((overdue,), (overdue, asked), ())
    before = {info.path for info in table.context.storage.list()}
    foreseen = table.clean.plan(retain=1, dry_run=True)
    assert foreseen.ended_first == wanted
    assert {info.path for info in table.context.storage.list()} == before
    done = table.clean.run(retain=1)
    assert (done.ended_first, done.as_dict()["ended_first"]["cancelled"]) == (wanted, (overdue,))
    assert len(foreseen.planned) == done.deleted

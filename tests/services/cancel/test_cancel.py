"""Cancel plans of compactions: before they are begun, while they run, after their executor died; only the record is left."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled, InvalidRequest, Unsupported
from hudi_ops.services.cancel.errors import (
    AlreadyCommitted,
    InstantArchived,
    InstantNotFound,
    NotCancellable,
    NotRequested,
)
from hudi_ops.services.cancel.request import REASON_CHARS_MAX
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE, queue_path, read_aborted
from hudi_ops.timeline.content.plans import CompactionPlan, read_plan
from hudi_ops.timeline.log.entries import Cancel, Plan
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.protocol.compaction_table import MODEL, make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.services.cancel.planned import history_until, planned
from tests.tables import LOGGED_WITH_METADATA, NOW_MS, rows, table_of

WHY = "the cluster is needed elsewhere"


def assert_aborted(storage: MemoryStorage, clock: ManualClock, instant: str) -> None:
    """Nothing of the plan is left but its record; rows are those before it, and the groups can be planned again."""
    timeline = timeline_of(storage)
    assert timeline.find(instant) is None
    (plan,) = (one for one in timeline.aborted if one.time == instant)
    record = read_aborted(storage, timeline, plan)
    assert record.table_id == whole_log(storage).table_id
    assert storage.list(QUEUE) == []
    assert merged(storage, clock) == MODEL
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "sweeper").recover()
    assert State.SWEPT in timeline_of(storage).aborted[0].states
    assert [info.path for info in storage.list() if instant in info.name and not info.path.startswith(".hoodie")] == []
    assert unaccounted(storage) == []
    again = table_of(storage, clock, "next").compaction.run()
    assert again.instant is not None
    assert again.instant > instant
    assert merged(storage, clock) == MODEL
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()


@pytest.mark.parametrize("definition", [None, LOGGED_WITH_METADATA], ids=["plain", "metadata"])
def test_a_plan_that_nobody_began_leaves_its_record_and_no_rollback(definition: object) -> None:
    storage = make_logged(*([definition] if definition else []))
    instant = planned(storage)
    clock = ManualClock(NOW_MS)
    table = table_of(storage, clock, "user")
    body = storage.get(f".hoodie/timeline/{instant}.compaction.requested")
    done = table.cancel(instant, WHY, requester="ada")
    assert (done.state, done.action, done.reason, done.requester) == ("aborted", "compaction", WHY, "ada")
    assert (done.rollback, done.files) == ("", 0)
    timeline = timeline_of(storage)
    assert [one.kind for one in timeline if one.kind == "rollback"] == []
    record = read_aborted(storage, timeline, timeline.aborted[0])
    assert (record.slot, record.cause, record.epochs) == (whole_log(storage).head, "request", ())
    assert State.SWEPT in timeline.aborted[0].states
    assert base64.b64decode(record.plan) == body
    assert table.cancel(instant, "again").as_dict() == done.as_dict()
    assert_aborted(storage, clock, instant)


def dies_at(storage: MemoryStorage, clock: ManualClock, number: int) -> FaultyStorage:
    """Let an executor die before its write of this number."""
    faulty = FaultyStorage(storage, FaultPlan.at(number, Fault.CRASH_BEFORE))
    with pytest.raises(Crash):
        table_of(faulty, clock, "executor").compaction.execute()
    return faulty


@pytest.mark.parametrize("definition", [None, LOGGED_WITH_METADATA], ids=["plain", "metadata"])
def test_a_plan_of_a_dead_executor_is_aborted_with_its_files(definition: object) -> None:
    storage = make_logged(*([definition] if definition else []))
    instant = planned(storage)
    clock = ManualClock(NOW_MS)
    number = len(history_until(storage, ".hoodie/.commit_log/payload"))
    dies_at(storage, clock, number)
    user = table_of(storage, clock, "user")
    asked = user.request_cancel(instant, WHY)
    assert asked.state == "cancelled"
    assert json.loads(storage.get(queue_path(instant)))["slot"] == whole_log(storage).head
    (row,) = user.plans()
    assert (row.state, row.reason, row.epoch) == ("cancelled", WHY, 1)
    with pytest.raises(Busy, match="has not stopped yet"):
        user.execute_cancel(instant)
    clock.advance_ms(EXPIRY_MS + 1_000)
    done = user.execute_cancel(instant)
    assert done.state == "aborted"
    assert done.files > 0
    assert len(done.rollback) == 17
    assert read_aborted(storage, timeline_of(storage), timeline_of(storage).aborted[0]).epochs == (1,)
    assert_aborted(storage, clock, instant)


def test_a_running_executor_stops_and_removes_the_plan_itself() -> None:
    storage = make_logged()
    instant = planned(storage)
    clock = ManualClock(NOW_MS)
    user = table_of(storage, clock, "user")
    asked = threading.Event()

    class Requests(FaultyStorage):
        """Storage of the executor: the cancel is requested when it puts its first base file."""

        def put(self, path: str, body: object) -> None:
            super().put(path, body)
            if path.endswith(".parquet") and not asked.is_set():
                asked.set()
                assert user.request_cancel(instant, WHY).state == "cancelled"
                (row,) = user.plans(instant)
                assert row.next == "its executor stops at its next look, and removes the plan"

    class Undoes(FaultyStorage):
        """Storage of an executor whose plan a user tries to roll back."""

        def put(self, path: str, body: object) -> None:
            super().put(path, body)
            if path.endswith(".parquet"):
                with pytest.raises(Unsupported) as refused:
                    user.rollback(instant)
                assert f"`hudi-ops cancel TABLE {instant}`" in refused.value.next_step

    twin = storage.copy()
    user = table_of(twin, clock, "user")
    table_of(Undoes(twin), clock, "executor").compaction.execute()
    user = table_of(storage, clock, "user")

    with pytest.raises(Cancelled, match=WHY) as error:
        table_of(Requests(storage), clock, "executor").compaction.execute()
    assert error.value.exit_code == 12
    assert asked.is_set()
    assert user.cancel(instant).state == "aborted"
    assert_aborted(storage, clock, instant)


def test_a_cancel_that_comes_after_the_decision_helps_the_commit_to_its_end() -> None:
    storage = make_logged()
    instant = planned(storage)
    clock = ManualClock(NOW_MS)
    number = len(history_until(storage, f".hoodie/timeline/{instant}_"))
    dies_at(storage, clock, number)
    assert timeline_of(storage).find(instant).state is State.INFLIGHT  # type: ignore[union-attr]
    with pytest.raises(AlreadyCommitted, match="its files are part of the table"):
        table_of(storage, clock, "user").request_cancel(instant, WHY)
    assert timeline_of(storage).find(instant).is_completed  # type: ignore[union-attr]
    assert storage.list(QUEUE) == []
    assert merged(storage, clock) == MODEL


def test_what_cannot_be_cancelled_is_refused_and_changes_nothing() -> None:
    storage = make_logged()
    clock = ManualClock(NOW_MS)
    table = table_of(storage, clock, "user")
    write = timeline_of(storage).completed_writes[-1].time
    plain = planned(storage, cancel="never")
    cases: list[tuple[type[InvalidRequest], str, Callable[[], object]]] = [
        (InvalidRequest, "is not an instant", lambda: table.cancel("yesterday")),
        (InstantNotFound, "no such instant", lambda: table.cancel("20300101000000000")),
        (AlreadyCommitted, "completed", lambda: table.cancel(write)),
        (NotCancellable, "was not planned as cancellable", lambda: table.cancel(plain)),
        (NotCancellable, "was not planned as cancellable", lambda: table.cancel(plain, dry_run=True)),
        (NotRequested, "no cancel of this plan was requested", lambda: table.execute_cancel(plain)),
        (InvalidRequest, "cannot be the reason", lambda: table.cancel(plain, "", force=True)),
        (InvalidRequest, "cannot be the reason", lambda: table.cancel(plain, "x" * (REASON_CHARS_MAX + 1), force=True)),
        (InvalidRequest, "cannot be the reason", lambda: table.cancel(plain, "a\nb", force=True)),
        (InvalidRequest, "no such plan", lambda: table.plans("20300101000000000")),
    ]
    before = {info.path: storage.get(info.path) for info in storage.list()}
    for kind, text, call in cases:
        with pytest.raises(kind, match=text) as error:
            call()
        assert error.value.exit_code == 2
    assert {info.path: storage.get(info.path) for info in storage.list()} == before
    assert table.cancel(plain, dry_run=True, force=True).state == "cancellable"
    assert {info.path: storage.get(info.path) for info in storage.list()} == before
    assert table.cancel(plain, WHY, force=True).state == "aborted"


def test_a_plan_that_another_program_began_is_busy_until_it_has_ended() -> None:
    storage, clock = make_logged(), ManualClock(NOW_MS)
    instant = planned(storage)
    storage.put(f".hoodie/timeline/{instant}.compaction.inflight", b"")
    table = table_of(storage, clock, "user")
    before = {info.path: storage.get(info.path) for info in storage.list()}
    for call in (lambda: table.cancel(instant), lambda: table.cancel(instant, dry_run=True)):
        with pytest.raises(Busy, match="does not look at cancels") as error:
            call()
        assert f"`hudi-ops cancel TABLE {instant} --force`" in error.value.next_step
    assert {info.path: storage.get(info.path) for info in storage.list()} == before
    assert table.cancel(instant, force=True).state == "aborted"
    assert_aborted(storage, clock, instant)


def test_an_archived_instant_is_refused() -> None:
    storage = make_logged()
    clock = ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "user")
    first = timeline_of(storage).completed_writes[0].time
    for number in range(4):
        table.ingest(rows(("a", "p0", 100 + number, 100 + number, None)))
    table.compaction.run()
    assert table.archive.run(keep_min=2, keep_max=2).instants > 0
    with pytest.raises(InstantArchived, match="was archived"):
        table.cancel(first)


def test_a_pending_write_names_the_rollback() -> None:
    storage = make_logged()
    clock = ManualClock(NOW_MS)
    faulty = FaultyStorage(storage.copy())
    table_of(faulty, ManualClock(NOW_MS), "trial").ingest(rows(("a", "p0", 9, 9, None)))
    at = next(number for number, point in enumerate(faulty.history, 1) if "put" in point and ".commit_log/0" in point)
    dying = FaultyStorage(storage, FaultPlan.at(at, Fault.CRASH_BEFORE))
    with pytest.raises(Crash):
        table_of(dying, clock, "writer").ingest(rows(("a", "p0", 9, 9, None)))
    (write,) = timeline_of(storage).pending
    with pytest.raises(NotCancellable, match="is a write") as error:
        table_of(storage, clock, "user").cancel(write.time)
    assert f"hudi-ops rollback TABLE {write.time}" in error.value.next_step


def test_the_policy_is_in_the_slot_and_in_the_plan() -> None:
    storage = make_logged()
    instant = planned(storage, cancel="after 6h or 20 instants")
    (entry,) = (one for one in whole_log(storage).entries if isinstance(one, Plan))
    assert (entry.cancellable, entry.cancel_after_hours, entry.cancel_after_instants) == (True, 6.0, 20)
    timeline = timeline_of(storage)
    plan = read_plan(storage, timeline, timeline.find(instant))  # type: ignore[arg-type]
    assert isinstance(plan, CompactionPlan)
    assert {name.removeprefix("hudi_ops."): value for name, value in plan.extra.items()} == {
        "cancellable": "true",
        "cancel_after_hours": "6",
        "cancel_after_instants": "20",
    }
    (row,) = table_of(storage, ManualClock(NOW_MS), "user").plans()
    assert row.policy == "cancellable, overdue after 6 h or 20 instants"


def test_the_cancel_names_who_asked_and_why() -> None:
    storage = make_logged()
    instant = planned(storage)
    table = table_of(storage, ManualClock(NOW_MS), "user")
    table.request_cancel(instant, WHY, requester="ada")
    table.request_cancel(instant, "another reason", requester="bob")
    (entry,) = (one for one in whole_log(storage).entries if isinstance(one, Cancel))
    assert (entry.reason, entry.cause, entry.requester) == (WHY, "request", "ada")
    with pytest.raises(Cancelled, match=WHY):
        table.compaction.execute(instant=instant)


def test_a_missing_queue_file_is_made_again() -> None:
    storage = make_logged()
    instant = planned(storage)
    table = table_of(storage, ManualClock(NOW_MS), "user")
    table.request_cancel(instant, WHY)
    body = storage.get(queue_path(instant))
    storage.delete(queue_path(instant))
    table.request_cancel(instant, WHY)
    assert storage.get(queue_path(instant)) == body


def test_a_truncated_record_is_reported_and_not_trusted() -> None:
    storage = make_logged()
    instant = planned(storage)
    clock = ManualClock(NOW_MS)
    table = table_of(storage, clock, "user")
    table.cancel(instant, WHY)
    path = f".hoodie/timeline/{instant}.compaction.aborted"
    storage.put(path, storage.get(path)[:20])
    assert table.plans(aborted=True)[0].next.startswith("its record cannot be read")
    assert table.cancel(instant).reason == WHY
    findings = verify_table(storage, clock=clock).findings
    assert [one.invariant for one in findings] == ["aborted-unreadable"]

"""Records of aborted plans: they leave the timeline once swept and old, hold the boundary until then, and are found after it."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Corrupt
from hudi_ops.services.inspect.summary import describe_timeline
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.cancel import aborted_history
from hudi_ops.timeline.cancel.aborted import AbortedPlan, read_aborted
from hudi_ops.timeline.cancel.aborted_history import FOLDER, ArchivedPlan, add_records, find_aborted, load_aborted
from hudi_ops.timeline.names import State, aborted_name, swept_name
from hudi_ops.verify import verify_table
from tests.definitions import Definition
from tests.fault_plans import MoveBefore
from tests.protocol.log_actors import timeline_of
from tests.services.archive.aborted_tables import (
    abort,
    aborted_table,
    assert_archived,
    assert_recorded,
    moved,
    passed_table,
    write,
)
from tests.services.archive.archived_tables import archived, assert_whole
from tests.tables import LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, table_of

MODEL = {"k9": 21}


def record(instant: str, reason: str = "why", plan: bytes = b"plan", **facts: object) -> ArchivedPlan:
    body = AbortedPlan("id", instant, "compaction", 7, reason, **facts).with_plan(plan).to_bytes()  # type: ignore[arg-type]
    return ArchivedPlan.of(body, "here", instant)


@pytest.mark.parametrize("definition", [MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["plain", "metadata"])
def test_swept_records_leave_with_the_writes_around_them(definition: Definition) -> None:
    storage, clock, plans = aborted_table(definition)
    timeline = timeline_of(storage)
    before = {plan.time: read_aborted(storage, timeline, plan) for plan in timeline.aborted}
    assert [*before] == [*plans]
    assert_recorded(storage, clock, plans)
    told = archived(storage, clock).as_dict()
    assert (told["aborted"], told["boundary"] > plans[-1]) == (2, True)
    assert_archived(storage, clock, plans)
    assert {plan: find_aborted(storage, timeline_of(storage), plan) for plan in plans} == before
    shown = {row.time: row for row in describe_timeline(storage, archived=True)}
    assert [(shown[plan].state, shown[plan].archived, shown[plan].note) for plan in plans] == [
        ("aborted", True, "reason 1"),
        ("aborted", True, "reason 2"),
    ]
    assert_whole(storage, clock, MODEL)


def test_a_record_above_the_boundary_stays_and_explain_says_why() -> None:
    storage, clock, plans = aborted_table()
    late = abort(storage, clock, "reason 3")
    table = table_of(storage, clock, "user")
    explained = table.archive.explain(keep_min=3, keep_max=4)
    assert explained.aborted == len(plans)
    why = {one.instant: one.why for one in explained.verdicts}
    assert [why[plan] for plan in (*plans, late)] == ["", "", "the completed write before it stays"]
    assert archived(storage, clock).aborted == len(plans)
    assert [one.time for one in timeline_of(storage).aborted] == [late]
    assert_recorded(storage, clock, (*plans, late))


def test_a_plan_that_is_not_swept_holds_the_boundary() -> None:
    """An executor may still write its file, and below the timeline's start readers would take it for rows."""
    storage, clock, plans = aborted_table()
    table = table_of(storage, clock, "user", metadata_compact_after=1)
    waiting = abort(storage, clock, "reason 3", begun=True)
    write(storage, clock, *range(22, 30))
    assert State.SWEPT not in timeline_of(storage).aborted[-1].states
    table.metadata.compact()
    done = archived(storage, clock)
    assert f"a later write looks once more for files of the undone instant {waiting}" in done.stopped_by
    assert done.boundary is not None
    assert plans[-1] < done.boundary < waiting
    assert (done.aborted, [one.time for one in timeline_of(storage).aborted]) == (len(plans), [waiting])
    clock.advance_ms(EXPIRY_MS + 1_000)
    again = archived(storage, clock, "second")
    assert (again.aborted, again.boundary is not None and again.boundary > waiting) == (1, True)
    assert_archived(storage, clock, (*plans, waiting))


def test_a_plan_that_is_not_swept_stays_where_another_archiver_passed_it() -> None:
    """Apache Hudi's archiver does not know the marks: the record waits for the second look, and then goes."""
    storage, clock, plans = aborted_table()
    timeline = timeline_of(storage)
    storage.delete(timeline.path(swept_name(plans[0], "compaction")))
    storage.put(f".hoodie/.temp/{plans[0]}.{clock.now_ms() + EXPIRY_MS}/sweep", b"")
    for instant in timeline:
        if instant.time < timeline.completed_writes[-3].time:
            for info in storage.list(timeline.folder):
                if info.name.startswith(instant.time) and "aborted" not in info.name:
                    storage.delete(info.path)
    archived(storage, clock)
    assert [one.time for one in timeline_of(storage).aborted] == [plans[0]]
    clock.advance_ms(EXPIRY_MS + 1_000)
    archived(storage, clock, "second")
    assert_archived(storage, clock, plans)


def test_a_late_file_of_an_archived_plan_is_reported() -> None:
    storage, clock, plans = aborted_table(MERGE_ON_READ)
    archived(storage, clock)
    base = next(info for info in storage.list("part=p1") if info.name.endswith(".parquet"))
    late = f"part=p1/{base.name.partition('_')[0]}_9-9-9_{plans[0]}.parquet"
    storage.put(late, storage.get(base.path))
    found = [(one.severity, one.invariant, one.where) for one in verify_table(storage).findings]
    assert ("error", "leftover-visible", late) in found


@pytest.mark.parametrize("damage", [b"", b"{", b'{"table_id": "t"}'])
def test_a_record_that_cannot_be_read_stays_and_is_reported(damage: bytes) -> None:
    storage, clock, plans = aborted_table()
    storage.put(timeline_of(storage).path(aborted_name(plans[0], "compaction")), damage)
    assert archived(storage, clock).aborted == 1
    assert [one.time for one in timeline_of(storage).aborted] == [plans[0]]
    assert {one.invariant for one in verify_table(storage).findings} == {"aborted-unreadable"}
    assert table_of(storage, clock, "user").cancel(plans[0]).reason == "reason 1"
    assert "cannot be read" in table_of(storage, clock, "user").plans(plans[0])[0].next


def test_a_history_file_that_cannot_be_read_is_reported_and_stops_no_archiver() -> None:
    storage, clock, plans = aborted_table(archived_before=True)
    (info,) = storage.list(FOLDER)
    storage.put(info.path, b"no parquet")
    assert archived(storage, clock).aborted == 2
    assert timeline_of(storage).aborted == ()
    findings = verify_table(storage).findings
    assert [(one.invariant, one.where) for one in findings] == [("aborted-unreadable", info.path)]
    user = table_of(storage, clock, "user")
    with pytest.raises(Corrupt, match="cannot be read"):
        user.plans(aborted=True)
    assert (user.cancel(plans[0]).state, user.cancel(plans[0]).reason) == ("aborted", "reason 0")


def test_an_aborter_that_slept_puts_its_record_back_and_the_next_run_removes_it() -> None:
    storage, clock, plans = aborted_table()
    before = find_aborted(storage, timeline_of(storage), plans[0])
    assert before is not None
    archived(storage, clock)
    timeline = timeline_of(storage)
    poor = AbortedPlan(before.table_id, plans[0], "compaction", before.slot, "reason 1").to_bytes()
    storage.put(timeline.path(aborted_name(plans[0], "compaction")), poor)
    storage.put(timeline.path(swept_name(plans[1], "compaction")), b"")
    assert_recorded(storage, clock, plans)
    write(storage, clock, 22)  # its recovery marks the record
    archived(storage, clock, "second")
    assert_archived(storage, clock, plans)
    assert find_aborted(storage, timeline_of(storage), plans[0]) == before
    assert_whole(storage, clock, {"k9": 22})


def test_archivers_at_the_same_time_lose_no_record() -> None:
    """Before each operation of one, the other moves all records, and one more that lies between them."""
    base, _, plans = passed_table()
    mark = timeline_of(base).path(swept_name(plans[1], "compaction"))
    base.delete(mark)
    undisturbed = FaultyStorage(base.copy())
    assert moved(undisturbed, ManualClock(NOW_MS)) == 1
    for number in range(1, len(undisturbed.history) + 1):
        storage, clock = base.copy(), ManualClock(NOW_MS + 3_600_000, tick_ms=1)

        def move(storage: MemoryStorage = storage, clock: ManualClock = clock) -> None:
            storage.put(mark, b"")
            moved(storage, clock, "other")

        plan = MoveBefore.at(number, move)
        moved(FaultyStorage(storage, plan), clock)
        assert plan.moved
        moved(storage, clock, "third")
        assert_archived(storage, clock, plans, plan.moved_at)


def test_ten_thousand_records_are_one_file() -> None:
    storage = MemoryStorage()
    times = [str(20260101000000000 + number) for number in range(10_000)]
    for start in range(0, 10_000, 2_500):
        add_records(storage, [record(time, plan=time.encode() * 20) for time in times[start : start + 2_500]])
    faulty = FaultyStorage(storage)
    assert [one.instant for one in load_aborted(faulty)] == times
    assert [point.partition(":")[0] for point in faulty.history] == ["list_folder", "open_input"]
    assert sum(info.size_bytes for info in storage.list(FOLDER)) < 1 << 20


def test_a_large_file_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    add_records(storage, [record("20260101000000001")])
    monkeypatch.setattr(aborted_history, "MERGED_BYTES_MAX", 10)
    add_records(storage, [record("20260101000000002")])
    assert len(storage.list(FOLDER)) == 2
    assert [one.instant for one in load_aborted(storage)] == ["20260101000000001", "20260101000000002"]


def test_of_two_records_of_one_plan_the_one_that_says_more_counts_in_any_order() -> None:
    rich, poor = record("20260101000000001", files=("p/a.parquet",)), record("20260101000000001", plan=b"")
    names = set()
    for order in ((rich, poor), (poor, rich)):
        storage = MemoryStorage()
        for one in order:
            add_records(storage, [one])
        names.add(storage.list(FOLDER)[0].name)
        (found,) = load_aborted(storage, with_plan=True)
        assert found.files == ("p/a.parquet",)
    assert len(names) == 1


def test_fields_of_later_releases_are_kept() -> None:
    storage = MemoryStorage()
    body = AbortedPlan("id", "20260101000000001", "compaction", 7, "why").to_bytes()
    add_records(storage, [ArchivedPlan.of(body[:-1] + b',"later":1}', "here", "20260101000000001")])
    add_records(storage, [record("20260101000000002")])
    (info,) = storage.list(FOLDER)
    assert '"later":1' in aborted_history.read_records(storage, info.path)["20260101000000001"].record
    assert {one.name for one in fields(AbortedPlan)} > {"plan"}


def test_a_record_whose_instant_is_no_time_is_reported_and_stays_on_the_timeline() -> None:
    storage, clock, plans = aborted_table(MERGE_ON_READ)
    impossible = "20260231000000000"
    path = f".hoodie/timeline/{aborted_name(impossible, 'compaction')}"
    storage.put(path, AbortedPlan("id", impossible, "compaction", 7, "why").with_plan(b"plan").to_bytes())
    storage.put(f".hoodie/timeline/{swept_name(impossible, 'compaction')}", b"")
    shown = {row.instant: row.next for row in table_of(storage, clock, "user").plans(aborted=True)}
    assert {*shown} == {*plans, impossible}
    assert "has an instant that is no time" in shown[impossible]
    assert archived(storage, clock).aborted == len(plans)
    assert storage.head(path) is not None
    assert {one.where for one in verify_table(storage).findings} == {path}
    assert [row.instant for row in table_of(storage, clock, "user").plans(aborted=True)] == sorted([*plans, impossible])


@pytest.mark.parametrize("missing", ["instant", "record"])
def test_a_file_of_the_history_with_a_missing_value_is_damaged(missing: str) -> None:
    storage, clock, _ = aborted_table(MERGE_ON_READ)
    archived(storage, clock)
    (info,) = storage.list_folder(FOLDER).files
    table = pq.read_table(pa.BufferReader(storage.get(info.path)))
    place = table.schema.get_field_index(missing)
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(place, missing, pa.nulls(table.num_rows, pa.string())), sink)
    storage.put(info.path, sink.getvalue().to_pybytes())
    with pytest.raises(Corrupt, match="without a value"):
        table_of(storage, clock, "user").plans(aborted=True)
    assert [(one.invariant, one.where) for one in verify_table(storage).findings] == [("aborted-unreadable", info.path)]

"""Clusterings among writers: ingestion is never refused, touched groups are left out whole, and no row is lost or doubled."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy, Cancelled, Conflict, Unsupported
from hudi_ops.services.clustering.layout import SORT_AND_SIZE
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.log.entries import Cancel, Plan
from hudi_ops.timeline.names import requested_name
from hudi_ops.verify import verify_table
from tests.definitions import Definition
from tests.fault_plans import MoveBefore
from tests.protocol.compaction_table import merged
from tests.protocol.crash_table import FIRST, OLD, unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.tables import (
    BY_HAND,
    BY_RECORD_INDEX,
    DEFINITION,
    LOGGED_WITH_METADATA,
    MERGE_ON_READ,
    NOW_MS,
    made,
    rows,
    table_of,
)

LOOKED_UP = replace(BY_RECORD_INDEX, index="bloom", metadata=False)
DEFINITIONS = {
    "buckets": DEFINITION,
    "buckets, logged": LOGGED_WITH_METADATA,
    "bloom": LOOKED_UP,
    "record index": BY_RECORD_INDEX,
}
UPDATE = rows(("k0", "p0", 100, 2, None))
ALL = rows(*((f"k{n}", f"p{n % 2}", 200 + n, 3, None) for n in range(8)))
AFTER_UPDATE = OLD | {"k0": 100}
AFTER_ALL = {f"k{n}": 200 + n for n in range(8)}


@pytest.fixture(params=DEFINITIONS)
def definition(request: pytest.FixtureRequest) -> Definition:
    return DEFINITIONS[request.param]


@pytest.fixture
def storage(definition: Definition) -> MemoryStorage:
    return made(definition, FIRST)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def settled(storage: MemoryStorage, clock: ManualClock, model: dict[str, int]) -> None:
    """Readers see the model, no file is left over, and the metadata table agrees with the files."""
    assert merged(storage, clock) == model
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "last").recover()
    assert unaccounted(storage) == []
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()
    assert merged(storage, clock) == model


def planned_groups(storage: MemoryStorage) -> int:
    timeline = timeline_of(storage)
    (pending,) = timeline.pending
    plan = read_plan(storage, timeline, pending)
    assert isinstance(plan, ReplacePlan)
    return len(plan.groups)


def test_a_touched_group_is_left_out_and_the_others_complete(storage: MemoryStorage, clock: ManualClock) -> None:
    table_of(storage, clock, "planner").clustering.plan(sort_by="value")
    groups = planned_groups(storage)
    done = table_of(storage, clock, "writer").ingest(UPDATE)
    assert done.ended_plans == ()
    result = table_of(storage, clock, "executor").clustering.execute()
    assert (result.groups, result.left_out) == (groups - 1, 1)
    assert timeline_of(storage).find(result.instant).kind == "replacecommit"
    settled(storage, clock, AFTER_UPDATE)
    table_of(storage, clock, "writer").ingest(ALL)
    settled(storage, clock, AFTER_ALL)


@pytest.mark.parametrize(
    "point", ["put:part=p1", "put:.hoodie/.commit_log/payload"], ids=["amid the work", "before the slot"]
)
def test_a_group_that_a_write_touches_meanwhile_is_left_out(
    storage: MemoryStorage, clock: ManualClock, point: str
) -> None:
    table_of(storage, clock, "planner").clustering.plan(sort_by="value")
    groups = planned_groups(storage)
    writer = table_of(storage, clock, "writer")
    move = MoveBefore(point, lambda: writer.ingest(UPDATE))
    result = table_of(FaultyStorage(storage, move), clock, "executor").clustering.execute()
    assert (result.groups, result.left_out, result.completion_time is not None) == (groups - 1, 1, True)
    settled(storage, clock, AFTER_UPDATE)


def test_a_write_of_every_group_ends_the_plan_at_once(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    done = table_of(storage, clock, "writer").ingest(ALL)
    assert done.ended_plans == (plan,)
    settled(storage, clock, AFTER_ALL)
    assert [one.time for one in timeline_of(storage).aborted] == [plan]
    assert table_of(storage, clock, "executor").clustering.execute().note == "no clustering is planned"


def test_a_write_that_completed_above_the_plan_is_archived_behind_it() -> None:
    storage, clock = made(MERGE_ON_READ, FIRST), ManualClock(NOW_MS, tick_ms=1)

    def meanwhile() -> None:
        table_of(storage, clock, "other", upkeep=BY_HAND).ingest(rows(("k1", "p1", 101, 2, None)))
        table_of(storage, clock, "planner").clustering.plan(sort_by="value")

    plan = MoveBefore("put:.hoodie/.commit_log/payload", meanwhile)
    write = table_of(FaultyStorage(storage, plan), clock, "writer", upkeep=BY_HAND).ingest(UPDATE)
    assert plan.moved
    for number in range(6):
        table_of(storage, clock, "other", upkeep=BY_HAND).ingest(rows(("k7", "p1", 300 + number, 3 + number, None)))
    done = table_of(storage, clock, "archiver").archive.run(keep_min=1, keep_max=2)
    assert done.instants > 0
    assert f"{write.instant}: it completed after the pending clustering" in done.stopped_by
    table_of(storage, clock, "executor").clustering.execute()
    assert merged(storage, clock) == AFTER_UPDATE | {"k1": 101, "k7": 305}
    assert verify_table(storage, deep=True, clock=clock).findings == ()


@pytest.mark.parametrize("is_begun", [False, True], ids=["before the work", "amid the work"])
def test_a_plan_whose_groups_were_all_touched_cancels_itself(
    storage: MemoryStorage, clock: ManualClock, *, is_begun: bool
) -> None:
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    writer = table_of(storage, clock, "writer")

    def write() -> None:
        for part in ("p0", "p1"):
            assert writer.ingest(ALL.filter(pc.field("part") == part)).ended_plans == ()

    if not is_begun:
        write()
    moved = FaultyStorage(storage, MoveBefore("put:part=p1", write)) if is_begun else storage
    result = table_of(moved, clock, "executor").clustering.execute(instant=plan)
    assert (result.instant, result.completion_time) == (plan, None)
    assert "touched every file group of the plan since it was made. The plan was cancelled" in result.note
    (cancel,) = (entry for entry in whole_log(storage).entries if isinstance(entry, Cancel))
    assert (cancel.instant, cancel.cause) == (plan, "ingestion")
    settled(storage, clock, AFTER_ALL)
    assert [one.time for one in timeline_of(storage).aborted] == [plan]
    again = table_of(storage, clock, "executor").clustering.run(sort_by="value")
    assert again.completion_time is not None
    settled(storage, clock, AFTER_ALL)


def test_a_group_that_a_write_touches_while_the_plan_is_made_is_not_planned(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    groups = table_of(storage, clock, "reader").clustering.explain(sort_by="value").counts["planned"]
    writer = table_of(storage, clock, "writer")
    move = MoveBefore("put:.hoodie/.commit_log/payload", lambda: writer.ingest(UPDATE))
    made_plan = table_of(FaultyStorage(storage, move), clock, "planner").clustering.plan(sort_by="value")
    assert made_plan.groups_dropped == 1
    assert planned_groups(storage) == groups - 1
    assert table_of(storage, clock, "executor").clustering.execute().left_out == 0
    settled(storage, clock, AFTER_UPDATE)


def test_a_plan_of_which_nothing_remains_is_not_published(storage: MemoryStorage, clock: ManualClock) -> None:
    writer = table_of(storage, clock, "writer")
    move = MoveBefore("put:.hoodie/.commit_log/payload", lambda: writer.ingest(ALL))
    made_plan = table_of(FaultyStorage(storage, move), clock, "planner").clustering.plan(sort_by="value")
    assert made_plan.instant is not None, "it is chosen again from the table as it is then"
    assert [entry.instant for entry in whole_log(storage).entries if isinstance(entry, Plan)] == [made_plan.instant]
    assert table_of(storage, clock, "executor").clustering.execute().left_out == 0
    settled(storage, clock, AFTER_ALL)


def test_an_overwrite_takes_the_groups_of_its_partition(storage: MemoryStorage, clock: ManualClock) -> None:
    table_of(storage, clock, "planner").clustering.plan(sort_by="value")
    table_of(storage, clock, "writer").delete_partition("part=p0")
    result = table_of(storage, clock, "executor").clustering.execute()
    assert result.left_out >= 1
    settled(storage, clock, {key: value for key, value in OLD.items() if value % 2})


def test_a_write_that_began_before_the_clustering_completed_reads_its_result(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """The keys of the write were looked up in groups that are replaced when it decides."""
    table_of(storage, clock, "planner").clustering.plan(sort_by="value")
    executor = table_of(storage, clock, "executor")
    move = MoveBefore("put:.hoodie/.commit_log/payload", executor.clustering.execute)
    table_of(FaultyStorage(storage, move), clock, "writer").ingest(UPDATE)
    settled(storage, clock, AFTER_UPDATE)


def test_ingestion_first_leaves_out_the_groups_of_running_writes(clock: ManualClock) -> None:
    storage = made(DEFINITION, FIRST)
    first = ConflictSettings(strategy="ingestion-first")
    table_of(storage, clock, "planner").clustering.plan(sort_by="value")
    results = []

    def execute() -> None:
        results.append(table_of(storage, clock, "executor", conflicts=first).clustering.execute())

    move = MoveBefore("put:part=p0", execute)
    table_of(FaultyStorage(storage, move), clock, "writer", conflicts=first).ingest(UPDATE)
    assert (results[0].left_out, results[0].completion_time is not None) == (1, True)
    settled(storage, clock, AFTER_UPDATE)


def test_a_running_write_that_may_touch_everything_is_waited_for(storage: MemoryStorage, clock: ManualClock) -> None:
    """It has not announced yet what it touches. The executor waits, and gives up only after `conflicts.wait_s`."""
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    waited_s = []

    def execute() -> None:
        executor = table_of(storage, clock, "executor")
        for _ in range(2):
            before_s = clock.monotonic_s()
            with pytest.raises(Conflict, match="is under way and touches the same"):
                executor.clustering.execute(instant=plan)
            waited_s.append(clock.monotonic_s() - before_s)

    move = MoveBefore("inflight", execute)
    table_of(FaultyStorage(storage, move), clock, "writer").ingest(UPDATE)
    assert 10 <= waited_s[0] < 12
    assert waited_s[1] < 1, "a process waits once for a write that does not move"
    assert table_of(storage, clock, "executor").clustering.execute(instant=plan).left_out == 1
    settled(storage, clock, AFTER_UPDATE)


@pytest.mark.parametrize("parts", [1, 2], ids=["at once", "one after the other"])
def test_writes_leave_something_of_a_plan_that_is_not_cancellable(clock: ManualClock, parts: int) -> None:
    """What remains of it completes; a write that would take the last of it is refused before it writes anything."""
    storage = made(DEFINITION, FIRST)
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value", cancel="never").instant
    halves = [ALL.filter(pc.equal(ALL["part"], part)) for part in ("p0", "p1")]
    if parts == 2:
        table_of(storage, clock, "first").ingest(halves[0])
    faulty = FaultyStorage(storage)
    with pytest.raises(Busy, match=f"clustering {plan}") as refused:
        table_of(faulty, clock, "last").ingest(halves[1] if parts == 2 else ALL)
    assert f"`hudi-ops cancel TABLE {plan} --force`" in refused.value.next_step
    assert not any(point.startswith("put:part=") for point in faulty.history), "no file was written in vain"
    done = table_of(storage, clock, "executor").clustering.execute(instant=plan)
    assert (done.completion_time is not None, bool(done.left_out)) == (True, parts == 2)
    table_of(storage, clock, "last").ingest(ALL)
    settled(storage, clock, AFTER_ALL)


def test_a_write_beside_a_plan_that_it_must_not_end_is_refused_before_it_writes(clock: ManualClock) -> None:
    """It waits once for the plan to complete. Without an executor, later writes of the process do not wait."""
    storage = made(DEFINITION, FIRST)
    table_of(storage, clock, "planner").clustering.plan(sort_by="value", cancel="never", on_overlap="cancel")
    faulty = FaultyStorage(storage)
    writer = table_of(faulty, clock, "writer")
    waited_s = []
    for _ in range(2):
        before_s = clock.monotonic_s()
        with pytest.raises(Busy, match="is pending on the same file groups"):
            writer.ingest(UPDATE)
        waited_s.append(clock.monotonic_s() - before_s)
    assert (10 <= waited_s[0] < 12, waited_s[1] < 1) == (True, True)
    assert not any("commit.requested" in point or "put:part=" in point for point in faulty.history)


def test_two_executors_never_both_complete(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    second = table_of(storage, clock, "second")
    results = []

    def overtake() -> None:
        clock.advance_ms(EXPIRY_MS + 1_000)
        results.append(second.clustering.execute(instant=plan))

    move = MoveBefore("put:.hoodie/.commit_log/payload", overtake)
    with pytest.raises((Cancelled, Conflict)):
        table_of(FaultyStorage(storage, move), clock, "first").clustering.execute(instant=plan)
    assert results[0].epoch == 2
    settled(storage, clock, OLD)


def test_a_plan_that_merges_buckets_is_refused(clock: ManualClock) -> None:
    storage = made(DEFINITION, rows(*((f"n{n}", "p0", n, 1, None) for n in range(20))))
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    timeline = timeline_of(storage)
    found = read_plan(storage, timeline, timeline.find(plan))
    assert isinstance(found, ReplacePlan)
    one, two = found.groups
    merged_groups = (replace(one, slices=(*one.slices, *two.slices)),)
    body = encode_clustering(replace(found, strategy=SORT_AND_SIZE, groups=merged_groups))
    path = timeline.path(requested_name(plan, "clustering"))
    storage.delete(path)
    storage.put(path, body)
    with pytest.raises(Unsupported, match="merges several buckets") as refused:
        table_of(storage, clock, "executor").clustering.execute(instant=plan)
    assert f"`hudi-ops cancel TABLE {plan} --force`; then plan again" in str(refused.value)
    assert [one.time for one in timeline_of(storage).pending] == [plan]

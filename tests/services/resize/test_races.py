"""Resizes among writers and executors: groups that a write touched are left out whole, and no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.markers import put_marker
from hudi_ops.errors import Cancelled, Conflict, Corrupt, Unsupported
from hudi_ops.index.resizes import RESIZE_STRATEGY
from hudi_ops.index.ring import INITIAL, parse_ring
from hudi_ops.index.ring_files import committed_path, new_rings, put_rings, resize_extra, ring_path
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import requested_name
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.services.resize.hand_plans import P0, P1, Wanted, child_logs, plan_of_nodes, rings_of, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, changes, opened, plan_of
from tests.tables import NOW_MS, TIMELINE, by_key, made, rows

KEYS = range(24)
OLD = {f"k{n}": n for n in KEYS}
OF_P0 = {key: value for key, value in OLD.items() if value % 2 == 0}


def batch(value: int, keys: range = KEYS, part: int | None = None) -> Any:
    return rows(*((f"k{n}", f"p{n % 2}", value + n, value, None) for n in keys if part in (None, n % 2)))


@pytest.fixture(params=[True, False] if SOAK else [True], ids=lambda found: f"{'' if found else 'no '}metadata table")
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    return made(replace(CONSISTENT, metadata=request.param), batch(0))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def settled(storage: MemoryStorage, clock: ManualClock, model: dict[str, int]) -> None:
    """Readers see the model, no file is left over, and later writes find every key."""
    for listing in ("auto", "storage"):
        assert by_key(opened(storage, "reader", clock), listing=listing) == model
    clock.advance_ms(EXPIRY_MS + 1_000)
    opened(storage, "last", clock).recover()
    assert [path for path in unaccounted(storage) if "/.bucket_index/" not in path] == []
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()
    assert by_key(opened(storage, "reader", clock)) == model
    opened(storage, "later", clock).ingest(batch(9_000))
    assert by_key(opened(storage, "reader", clock)) == model | {f"k{n}": 9_000 + n for n in KEYS}


def planned(storage: MemoryStorage, clock: ManualClock) -> str:
    return plan_of_nodes(opened(storage, clock=clock), Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1))


def overwrite(storage: MemoryStorage, clock: ManualClock) -> Callable[[], object]:
    table = opened(storage, "other", clock)
    return lambda: table.ingest(rows(("k1", "p1", 701, 700, None)), operation="insert_overwrite")


AFTER_OVERWRITE = OF_P0 | {"k1": 701}


def test_an_overwrite_takes_the_groups_of_its_partition_with_their_child_logs(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    plan = planned(storage, clock)
    opened(storage, "writer", clock).ingest(batch(100))
    overwrite(storage, clock)()
    assert any(path.startswith(P1) for path in child_logs(storage, plan))
    result = run_plan(opened(storage, "executor", clock), plan)
    assert (result.groups, result.left_out) == (2, 1)
    assert child_logs(storage, plan)
    assert not any(path.startswith(P1) for path in child_logs(storage, plan))
    rings = rings_of(opened(storage, clock=clock), [P0, P1])
    assert rings[P0].instant == plan
    assert rings[P1].instant not in {plan, INITIAL}
    table = opened(storage, "reader", clock)
    assert {row["id"] for row in table.changes("20000101000000000").to_arrow().to_pylist()} == set(AFTER_OVERWRITE)
    settled(storage, clock, {f"k{n}": 100 + n for n in KEYS if n % 2 == 0} | {"k1": 701})


@pytest.mark.parametrize(
    "point", ["put:part=p0", "put:.hoodie/.commit_log/payload"], ids=["amid the work", "before the slot"]
)
def test_a_group_that_is_overwritten_meanwhile_is_left_out(
    storage: MemoryStorage, clock: ManualClock, point: str
) -> None:
    plan = planned(storage, clock)
    move = MoveBefore(point, overwrite(storage, clock))
    result = run_plan(opened(FaultyStorage(storage, move), "executor", clock), plan)
    assert move.moved
    assert (result.groups, result.left_out) == (2, 1)
    settled(storage, clock, AFTER_OVERWRITE)


@pytest.mark.parametrize(
    "point", ["put:part=p0", "put:.hoodie/.commit_log/payload"], ids=["amid the work", "before the slot"]
)
def test_a_write_that_meets_the_plan_costs_it_no_group(storage: MemoryStorage, clock: ManualClock, point: str) -> None:
    plan = planned(storage, clock)
    writer = opened(storage, "writer", clock)
    move = MoveBefore(point, lambda: writer.ingest(batch(100)))
    result = run_plan(opened(FaultyStorage(storage, move), "executor", clock), plan)
    assert move.moved
    assert (result.groups, result.left_out) == (3, 0)
    settled(storage, clock, {f"k{n}": 100 + n for n in KEYS})


def test_child_logs_of_a_left_out_group_that_come_late_are_deleted_before_the_decision(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """The partition is left out because of its ring; a write that then completes names child logs in it."""
    planner = opened(storage, clock=clock)
    plan = plan_of_nodes(planner, Wanted((0,)), Wanted((1, 2), P1))
    overwrite(storage, clock)()
    ring = rings_of(planner, [P1])[P1]
    writer = opened(storage, "writer", clock)
    put = []

    def write() -> None:
        # As of a writer that read the ring before the overwrite: the test completes its commit by hand.
        writer.ingest(batch(100, part=0))
        timeline = timeline_of(storage)
        last = timeline.completed_writes[-1]
        path = timeline.path(last.file_name)
        metadata = CommitMetadata.from_bytes(storage.get(path), path)
        child = next(stat for stat in metadata.stats if plan in stat.path)
        (change,) = (one for one in changes(plan_of(storage)) if one.partition_path == P1)
        name = child.file_name.replace(child.file_id, f"{change.prefixes[0]}-0")
        late = replace(child, path=f"{P1}/{name}", file_id=f"{change.prefixes[0]}-0", partition_path=P1)
        storage.put(late.path, storage.get(child.path))
        storage.put(path, replace(metadata, stats=(*metadata.stats, late)).to_bytes())
        put.append(late.path)

    move = MoveBefore("put:.hoodie/.commit_log/payload", write)
    result = run_plan(opened(FaultyStorage(storage, move), "executor", clock), plan)
    assert (result.groups, result.left_out) == (1, 1)
    assert put
    assert storage.head(put[0]) is None
    assert rings_of(planner, [P1])[P1].instant == ring.instant
    assert by_key(opened(storage, "reader", clock)) == {f"k{n}": 100 + n for n in KEYS if n % 2 == 0} | {"k1": 701}


def test_a_plan_of_which_nothing_remains_cancels_itself(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)), Wanted((1, 2)), on_overlap="pass")
    opened(storage, "writer", clock).ingest(batch(100))
    opened(storage, "other", clock).delete_partition(P0)
    result = run_plan(opened(storage, "executor", clock), plan)
    assert (result.instant, result.completion_time) == (plan, None)
    assert "touched every file group of the plan since it was made. The plan was cancelled" in result.note
    (cancel,) = (entry for entry in whole_log(storage).entries if isinstance(entry, Cancel))
    assert (cancel.instant, cancel.cause) == (plan, "ingestion")
    assert child_logs(storage, plan) == []
    assert storage.head(ring_path(P0, plan)) is None
    settled(storage, clock, {f"k{n}": 100 + n for n in KEYS if n % 2})


def test_a_plan_of_another_ring_is_not_executed(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)), seq_no=3)
    with pytest.raises(
        Conflict, match="the hash ring of partition part=p0 changed since the resize was planned"
    ) as found:
        run_plan(opened(storage, "executor", clock), plan)
    assert f"`hudi-ops cancel TABLE {plan} --force`; then plan again" in str(found.value)
    opened(storage, "user", clock).cancel(plan)
    settled(storage, clock, OLD)


def test_a_resize_of_the_same_partition_that_completed_first_leaves_the_groups_out(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    first = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)))
    second = plan_of_nodes(opened(storage, clock=clock), Wanted((1, 2)))
    run_plan(opened(storage, "executor", clock), second)
    result = run_plan(opened(storage, "executor", clock), first)
    assert (result.completion_time, result.note != "") == (None, True)
    settled(storage, clock, OLD)


def test_a_ring_that_a_foreign_executor_left_is_replaced(storage: MemoryStorage, clock: ManualClock) -> None:
    """It holds all groups of the plan, of which one is left out."""
    plan = planned(storage, clock)
    overwrite(storage, clock)()
    ring = rings_of(opened(storage, clock=clock), [P0])[P0]
    for path in (P0, P1):
        storage.put(ring_path(path, plan), replace(ring, instant=plan, partition_path=path, seq_no=1).to_bytes())
    run_plan(opened(storage, "executor", clock), plan)
    found = parse_ring(storage.get(ring_path(P0, plan)), "", P0, plan)
    assert len(found.prefixes) == len(ring.prefixes)
    assert not {*found.prefixes} <= {*ring.prefixes}
    assert storage.head(committed_path(P1, plan)) is None
    assert by_key(opened(storage, "reader", clock)) == AFTER_OVERWRITE


def test_a_second_execution_changes_nothing(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = planned(storage, clock)
    run_plan(opened(storage, "executor", clock), plan)
    before = {info.path: bytes(storage.get(info.path)) for info in storage.list()}
    again = run_plan(opened(storage, "second", clock), plan)
    assert (again.instant, again.note) == (plan, "it was completed before")
    assert run_plan(opened(storage, "second", clock)).note == "no resize is planned"
    assert {info.path: bytes(storage.get(info.path)) for info in storage.list()} == before
    settled(storage, clock, OLD)


def test_two_executors_never_both_complete(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = planned(storage, clock)
    second = opened(storage, "second", clock)
    results = []

    def overtake() -> None:
        clock.advance_ms(EXPIRY_MS + 1_000)
        results.append(run_plan(second, plan))

    move = MoveBefore("put:.hoodie/.commit_log/payload", overtake)
    with pytest.raises((Cancelled, Conflict)):
        run_plan(opened(FaultyStorage(storage, move), "first", clock), plan)
    assert results[0].epoch == 2
    settled(storage, clock, OLD)


def test_a_write_that_read_the_old_ring_is_routed_again(storage: MemoryStorage, clock: ManualClock) -> None:
    plan = planned(storage, clock)
    executor = opened(storage, "executor", clock)
    move = MoveBefore("put:.hoodie/.commit_log/payload", lambda: run_plan(executor, plan))
    opened(FaultyStorage(storage, move), "writer", clock).ingest(batch(100))
    assert move.moved
    settled(storage, clock, {f"k{n}": 100 + n for n in KEYS})


def test_a_session_that_wrote_a_moment_ago_follows_the_new_ring(storage: MemoryStorage, clock: ManualClock) -> None:
    writer = opened(storage, "writer", clock)
    writer.ingest(batch(100))
    run_plan(opened(storage, "executor", clock), planned(storage, clock))
    writer.ingest(batch(200))
    settled(storage, clock, {f"k{n}": 200 + n for n in KEYS})


def test_kinds_do_not_take_each_others_plans(clock: ManualClock) -> None:
    storage = made(CONSISTENT, batch(0))
    resize = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)))
    table = opened(storage, "executor", clock)
    with pytest.raises(Unsupported, match=f"{resize} is a resize, not a clustering") as refused:
        table.clustering.execute(instant=resize)
    assert f"run `hudi-ops resize TABLE execute --instant {resize}`" in str(refused.value)
    assert table.clustering.execute().note == "no clustering is planned"
    (row,) = table.plans()
    assert row.next == f"`hudi-ops resize TABLE execute --instant {resize}` executes it"
    (left,) = table.recover().left
    assert f"`hudi-ops resize TABLE execute --instant {resize}` executes it" in left.reason
    path = f"{TIMELINE}/{requested_name(resize, 'clustering')}"
    plan = plan_of(storage)
    storage.put(path, encode_clustering(replace(plan, strategy="x.SparkSortAndSizeExecutionStrategy")))
    table = opened(storage, "executor", clock)
    with pytest.raises(Unsupported, match=f"{resize} is a clustering, not a resize"):
        run_plan(table, resize)
    assert run_plan(table).note == "no resize is planned"
    assert table.plans()[0].next == f"`hudi-ops cluster TABLE execute --instant {resize}` executes it"


@pytest.mark.parametrize("said", ["children", "parents", "whole"])
def test_a_plan_that_does_not_fit_its_ring_is_refused(clock: ManualClock, said: str) -> None:
    storage = made(CONSISTENT, batch(0))
    instant = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)), Wanted((1, 2)))
    plan, path = plan_of(storage), f"{TIMELINE}/{requested_name(instant, 'clustering')}"
    one, two = plan.groups
    broken = {
        "children": (replace(one, extra=two.extra), two),
        "parents": (replace(one, slices=two.slices), two),
        "whole": (replace(one, slices=(*one.slices, *two.slices)),),
    }[said]
    storage.put(path, encode_clustering(ReplacePlan("CLUSTER", broken, RESIZE_STRATEGY)))
    before = {info.path for info in storage.list(P0)}
    with pytest.raises(
        Corrupt, match="a group of the resize plan does not fit the hash ring of its partition"
    ) as found:
        run_plan(opened(storage, "executor", clock), instant)
    assert f"hudi-ops cancel TABLE {instant} --force" in str(found.value)
    assert {info.path for info in storage.list(P0)} == before
    assert by_key(opened(storage, clock=clock)) == OLD


def test_a_late_sweep_of_the_executor_leaves_the_rows_of_writers(clock: ManualClock) -> None:
    """Its markers stayed behind the completion, and one of an executor before it."""
    storage = made(CONSISTENT, batch(0))
    plan = planned(storage, clock)
    opened(storage, "writer", clock).ingest(batch(100))
    run_plan(opened(storage, "executor", clock), plan)
    logs = child_logs(storage, plan)
    for path in [*logs, f"{P0}/00000000-0000-4000-8000-000000000000-0_0-7-0_{plan}.parquet"]:
        put_marker(storage, plan, path, replaces=False)
    clock.advance_ms(EXPIRY_MS + 1_000)
    opened(storage, "last", clock).recover()
    clock.advance_ms(EXPIRY_MS + 1_000)
    opened(storage, "last", clock).recover()
    assert child_logs(storage, plan) == logs
    settled(storage, clock, {f"k{n}": 100 + n for n in KEYS})


def test_a_completed_file_comes_back_without_the_child_logs_that_the_resize_deleted(clock: ManualClock) -> None:
    storage = made(CONSISTENT, batch(0))
    plan = planned(storage, clock)
    done = opened(storage, "writer", clock).ingest(batch(100))
    overwrite(storage, clock)()
    run_plan(opened(storage, "executor", clock), plan)
    model = by_key(opened(storage, "reader", clock))
    timeline = timeline_of(storage)
    storage.delete(timeline.path(timeline.find(done.instant).file_name))
    clock.advance_ms(EXPIRY_MS + 1_000)
    opened(storage, "last", clock).recover()
    assert timeline_of(storage).find(done.instant).is_completed
    settled(storage, clock, model)


def test_the_ring_of_a_resize_follows_from_its_commit_alone() -> None:
    storage = made(CONSISTENT, batch(0))
    table = opened(storage)
    instant = plan_of_nodes(table, Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1))
    run_plan(table, instant)
    body = {path: storage.get(ring_path(path, instant)) for path in (P0, P1)}
    commit = next(info.path for info in storage.list(TIMELINE) if info.path.endswith(".replacecommit"))
    found = new_rings(storage.get(commit), commit)
    assert sorted(found) == [P0, P1]
    for path in (P0, P1):
        storage.delete(ring_path(path, instant))
    put_rings(storage, found, instant)
    assert {path: storage.get(ring_path(path, instant)) for path in (P0, P1)} == body
    bad = CommitMetadata(operation="CLUSTER", extra=resize_extra({P0: INITIAL}, {P1: ()}), replaced={})
    with pytest.raises(Corrupt, match="name different partitions"):
        new_rings(bad.to_bytes(), "x")

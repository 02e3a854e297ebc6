"""A cancel at any moment of an index build removes all of it, and the same index can be built at once."""

from __future__ import annotations

import contextlib

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled
from hudi_ops.services.cancel.errors import AlreadyCommitted
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from tests.bounds import bound
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.services.indexing.built import (
    EVERY,
    KEYS,
    VALUES,
    At,
    build,
    cancel_build,
    execute,
    metadata_state,
    plan_build,
)
from tests.tables import DEFINITION, NOW_MS, WITH_METADATA

STEP = bound(7, 3, 1)
"""Between two storage operations of an execution before which its plan is cancelled."""


def planned(definition, names) -> tuple[MemoryStorage, str, tuple[object, ...]]:
    """A table with the plan of a build, the plan's instant, and the state of its metadata table."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(definition).copy(clock)
    before = metadata_state(storage)
    return storage, plan_build(storage, clock, names), before


def finish_cancel(storage: MemoryStorage, clock: ManualClock, instant: str, story: str) -> None:
    """Remove what a cancelled executor could not; it is dead by then."""
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "second").recover()
    timeline = load_timeline(storage, load_config(storage))
    assert timeline.find(instant) is None, story
    assert [one.time for one in timeline.aborted] == [instant], story


@pytest.mark.full("repeats what quick proves with a like case")
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize(
    ("definition", "names"),
    [(WITH_METADATA, ("bloom_filters", "record_index")), (DEFINITION, EVERY), (WITH_METADATA, VALUES)],
    ids=["two more", "the first", "a secondary index"],
)
def test_a_cancel_at_any_moment_leaves_nothing_of_the_build(definition, names) -> None:
    base, instant, before = planned(definition, names)
    trial = FaultyStorage(base.copy(ManualClock(NOW_MS + 1_000, tick_ms=1)))
    execute(trial, ManualClock(NOW_MS + 1_000, tick_ms=1))
    outcomes = {"cancelled": 0, "completed": 0}
    for number in range(1, len(trial.history) + 1, STEP):
        clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
        storage = base.copy(clock)
        told: list[object] = []

        def move(storage=storage, clock=clock, told=told) -> None:
            try:
                told.append(cancel_build(storage, clock, instant).state)
            except (AlreadyCommitted, Busy) as error:  # it holds the lock, or has decided
                told.append(error)

        story = f"before operation {number}, {trial.history[number - 1]}"
        with contextlib.suppress(Cancelled):
            execute(FaultyStorage(storage, At(number, move)), clock)
        rows = read_rows(storage, clock)
        if {*names} <= {*load_config(storage).metadata_partitions}:
            outcomes["completed"] += 1
            assert all(isinstance(one, (AlreadyCommitted, Busy)) for one in told), (story, told)
        else:
            outcomes["cancelled"] += 1
            finish_cancel(storage, clock, instant, story)
            assert metadata_state(storage) == before, story
            build(storage, clock, names)
        assert {*names} <= {*load_config(storage).metadata_partitions}, story
        assert faults_of(storage, clock) == [], story
        table_of(storage, clock, "writer").ingest(LATER)
        assert read_rows(storage, clock) == {**rows, "k6": 66, "n4": 4}, story
        assert faults_of(storage, clock) == [], story
    assert outcomes["cancelled"] >= 10, outcomes
    assert outcomes["completed"] >= 1, outcomes


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize(
    "point",
    ["put_if_absent:.hoodie/metadata/record_index", "put:.hoodie/hoodie.properties"],
    ids=["filled", "announced"],
)
def test_an_abort_that_dies_anywhere_is_finished(fault: Fault, point: str) -> None:
    """The executor died before or after the announcement; then the cancel dies at every change."""
    base, instant, before = planned(WITH_METADATA, ("bloom_filters", "record_index"))
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
    trial = FaultyStorage(base.copy(clock))
    execute(trial, clock)
    number = next(at for at, one in enumerate(trial.history, 1) if one.startswith(point)) + 1
    died = left_dead(base, number)

    def aborts(storage: FaultyStorage, clock: ManualClock) -> None:
        cancel_build(storage, clock, instant)

    for left in fault_sweep(
        died,
        aborts,
        fault,
        "cancelling an index build",
        points=10,
        only_changes=True,
        clock=lambda: ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1),
    ):
        finish_cancel_of(left.storage, left.clock, instant, left.story)
        assert metadata_state(left.storage) == before, left.story
        build(left.storage, left.clock, ("bloom_filters", "record_index"))
        assert faults_of(left.storage, left.clock) == [], left.story


def left_dead(base: MemoryStorage, number: int) -> MemoryStorage:
    """What an executor leaves that dies before an operation."""
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
    storage = base.copy(clock)
    with contextlib.suppress(Crash):
        execute(FaultyStorage(storage, FaultPlan.at(number, Fault.CRASH_BEFORE)), clock)
    return storage


def finish_cancel_of(storage: MemoryStorage, clock: ManualClock, instant: str, story: str) -> None:
    """Another process cancels it again, as a user does after a crash."""
    clock.advance_ms(EXPIRY_MS + 1_000)
    assert cancel_build(storage, clock, instant, "second").state == "aborted", story
    table_of(storage, clock, "third").recover()
    assert load_timeline(storage, load_config(storage)).find(instant) is None, story


def test_a_cancel_of_a_plan_that_no_process_began_leaves_a_foreign_build_alone() -> None:
    """Apache Hudi may build the same index meanwhile: only the plan goes."""
    storage, instant, _ = planned(WITH_METADATA, ("bloom_filters",))
    storage.put(".hoodie/metadata/bloom_filters/.bloom-filters-0000-0_1.log.1_0-0-0", b"of another program")
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
    assert cancel_build(storage, clock, instant).state == "aborted"
    assert storage.list(".hoodie/metadata/bloom_filters")


def test_a_drop_of_an_index_under_construction_cancels_the_build_and_says_so() -> None:
    storage, instant, before = planned(WITH_METADATA, ("bloom_filters", "record_index"))
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
    trial = FaultyStorage(base := storage.copy(clock))
    execute(trial, clock)
    assert base is not storage
    announced = next(at for at, one in enumerate(trial.history, 1) if one == "put:.hoodie/hoodie.properties") + 1
    died = left_dead(storage, announced)
    assert load_config(died).metadata_partitions_inflight == ("bloom_filters", "record_index")
    clock = ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1)
    done = table_of(died, clock, "dropper").indexing.drop(["record_index"])
    assert (done.dropped, done.ended_builds) == ((), (instant,))
    assert metadata_state(died) == before
    shown = {one.name: one for one in table_of(died, clock, "reader").indexing.show()}
    assert [(shown[name].state, shown[name].note) for name in KEYS] == [("absent", "")] * 2

"""Crash and fail a compaction at every storage operation of plan and execution: rows never change, and another actor finishes it.

After each end a reader merges what is left and sees the model's rows. Then, once the dead executor's lease has expired, another
process compacts: afterwards no log file is left, `verify` finds nothing, and every file is one that a completed instant names.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, HudiOpsError
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.protocol.compaction_table import AFTER_FOURTH, FOURTH, MODEL, log_files, make_logged, merged, table_of
from tests.protocol.crash_table import START_MS, unaccounted
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import SOAK, changes, visited

NOW_MS = START_MS + 60_000
CRASHES = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
ERRORS = [one for one in Fault if one not in CRASHES]
PHASES = {"plan": (30, 5), "execute": (60, 14), "run": (85, 19)}
"""Storage operations of each, at least, and how many of them change something: a sweep that visits fewer has gone blind."""


def do(storage, clock: ManualClock, actor: str, phase: str) -> None:
    table = table_of(storage, clock, actor)
    if phase == "plan":
        table.plan_compaction()
    elif phase == "execute":
        table.execute_compaction()
    else:
        table.compact()


def base_for(phase: str) -> MemoryStorage:
    storage = make_logged()
    if phase == "execute":
        table_of(storage, ManualClock(NOW_MS - 1_000), "planner").plan_compaction()
    return storage


def rehearsed(base: MemoryStorage, phase: str) -> Sequence[str]:
    """The storage operations of a phase that nothing disturbs."""
    storage = FaultyStorage(base.copy())
    do(storage, ManualClock(NOW_MS), "first", phase)
    return storage.history


def finish(storage: MemoryStorage, clock: ManualClock, actor: str, story: str, model=None, late=lambda: 0) -> None:
    """Another process compacts what is left, once every dead lease has expired; after it lands what the first had put."""
    wanted = MODEL if model is None else model
    assert merged(storage.copy(), clock) == wanted, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, actor)
    for _ in range(3):
        if table.compact().instant is None:
            break
    assert merged(storage, clock) == wanted, story
    assert log_files(storage, clock) == 0, story
    late()
    assert merged(storage, clock) == wanted, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.recover()
    assert unaccounted(storage) == [], story
    assert verify_table(storage, deep=True, clock=clock).findings == (), story


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("phase", list(PHASES))
def test_crash_at_every_storage_operation(phase: str, fault: Fault) -> None:
    base = base_for(phase)
    history = rehearsed(base, phase)
    numbers = visited(history, fault)
    for number in numbers:
        clock, storage = ManualClock(NOW_MS), base.copy()
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        with contextlib.suppress(Crash):
            do(faulty, clock, "first", phase)
        finish(storage, clock, "second", faulty.fired[0])
    writes = len(changes(history))
    print(
        f"crash points of compaction, {phase}, {fault.name}: {len(numbers)} of {len(history)}, of which {writes} write"
    )
    points, least = PHASES[phase]
    assert len(history) >= points
    assert writes >= least
    assert len(numbers) >= (points if SOAK else least if fault is Fault.CRASH_AFTER else least // 3)


@pytest.mark.parametrize("fault", CRASHES)
def test_ingestion_goes_on_after_every_crash(fault: Fault) -> None:
    base = make_logged()
    numbers = visited(rehearsed(base, "run"), fault)
    for number in numbers:
        clock, storage = ManualClock(NOW_MS), base.copy()
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        with contextlib.suppress(Crash):
            table_of(faulty, clock, "first").compact()
        (story,) = faulty.fired
        # Neither waits nor is refused, though the dead compactor's lease looks alive.
        before_s = clock.monotonic_s()
        assert table_of(storage, clock, "writer").ingest(FOURTH).instant is not None, story
        assert clock.monotonic_s() - before_s < 1, story
        finish(storage, clock, "second", story, AFTER_FOURTH)
    print(f"ingests after a crashed compaction, {fault.name}: {len(numbers)}")
    assert len(numbers) >= (90 if SOAK else 19 if fault is Fault.CRASH_AFTER else 6)


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("phase", ["plan", "execute"])
def test_an_error_at_every_storage_operation_leaves_rows_and_plan(phase: str, fault: Fault) -> None:
    base = base_for(phase)
    numbers = visited(rehearsed(base, phase), fault)
    plan = next((one.time for one in timeline_of(base).pending), "")
    for number in numbers:
        clock, storage = ManualClock(NOW_MS), base.copy()
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        failed = None
        try:
            do(faulty, clock, "first", phase)
        except HudiOpsError as error:
            failed = error
        story = f"{faulty.fired[0]}: {failed}"
        found = timeline_of(storage).find(plan)
        if failed is not None and found is not None and not found.is_completed:
            assert State.REQUESTED in found.states, story
        # A payload of a plan that was cancelled by then stays: bytes that no slot names, as of any write.
        is_bytes_of_nobody = phase == "plan" and "/payload/" in story.splitlines()[0]
        finish(storage, clock, "second", story, late=int if is_bytes_of_nobody else faulty.land)
    print(f"error points of compaction, {phase}, {fault.name}: {len(numbers)}")
    every, writes = PHASES[phase]
    least = {"ERROR_BEFORE": every if SOAK else every // 4, "ERROR_AFTER": writes, "LANDS_LATER": writes}
    assert len(numbers) >= least.get(fault.name, 3)


@pytest.mark.parametrize("fault", CRASHES)
def test_the_second_executor_is_crashed_too(fault: Fault) -> None:
    base, runs = base_for("execute"), 0
    for first in itertools.count(3, 3 if SOAK else 17):
        clock, crashed = ManualClock(NOW_MS), base.copy()
        faulty = FaultyStorage(crashed, FaultPlan.at(first, fault))
        with contextlib.suppress(Crash):
            do(faulty, clock, "first", "execute")
        if not faulty.fired:
            break
        for second in itertools.count(1, 1 if SOAK else 4):
            clock, storage = ManualClock(NOW_MS + EXPIRY_MS + 1_000), crashed.copy()
            again = FaultyStorage(storage, FaultPlan.at(second, fault))
            with contextlib.suppress(Crash):
                do(again, clock, "second", "execute")
            finish(storage, clock, "third", f"{faulty.fired[0]}, then {again.fired[:1]}")
            runs += 1
            if not again.fired:
                break
    print(f"crash points of a crashed execution's resumption, {fault.name}: {runs}")
    assert runs > (1_000 if SOAK else 60)


def test_a_second_executor_is_told_who_is_at_it() -> None:
    storage, clock = base_for("execute"), ManualClock(NOW_MS)
    (plan,) = (one.time for one in timeline_of(storage).pending)

    class Stops:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.CRASH_BEFORE if ".parquet" in point and point.startswith("put:") else None

    with contextlib.suppress(Crash):
        table_of(FaultyStorage(storage, Stops()), clock, "first").execute_compaction(plan)
    with pytest.raises(Busy, match="simulated-first"):
        table_of(storage, clock, "second").execute_compaction(plan)
    clock.advance_ms(EXPIRY_MS + 1_000)
    done = table_of(storage, clock, "second").execute_compaction(plan)
    assert (done.epoch, done.slices) == (2, 2)
    assert table_of(storage, clock, "third").execute_compaction(plan).note == "it was completed before"

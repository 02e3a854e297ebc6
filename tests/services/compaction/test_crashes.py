"""Crash and fail a compaction at every storage operation of plan and execution: rows never change, and another actor finishes it.

After each end a reader merges what is left and sees the model's rows. Then, once the dead executor's lease has expired, another
process compacts: afterwards no log file is left, `verify` finds nothing, and every file is one that a completed instant names.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.protocol.compaction_table import AFTER_FOURTH, FOURTH, MODEL, log_files, make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, fault_sweep
from tests.tables import NOW_MS, table_of

PHASES = {"plan": (30, 5), "execute": (60, 14), "run": (85, 19)}
"""Storage operations of each, at least, and how many of them change something: a sweep that visits fewer has gone blind."""
JUDGED: defaultdict[str, JudgedStates] = defaultdict(JudgedStates)
"""What `finish` has judged, by phase: crashes and errors leave some states alike."""


def do(storage, clock: ManualClock, actor: str, phase: str) -> None:
    table = table_of(storage, clock, actor)
    if phase == "plan":
        table.compaction.plan()
    elif phase == "execute":
        table.compaction.execute()
    else:
        table.compaction.run()


def base_for(phase: str) -> MemoryStorage:
    storage = make_logged()
    if phase == "execute":
        table_of(storage, ManualClock(NOW_MS - 1_000), "planner").compaction.plan()
    return storage


def first(phase: str) -> Callable[[FaultyStorage, ManualClock], None]:
    """The executor that goes wrong."""
    return lambda storage, clock: do(storage, clock, "first", phase)


def finish(storage: MemoryStorage, clock: ManualClock, actor: str, story: str, model=None, late=lambda: 0) -> None:
    """Another process compacts what is left, once every dead lease has expired; after it lands what the first had put."""
    wanted = MODEL if model is None else model
    assert merged(storage.copy(), clock) == wanted, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, actor)
    for _ in range(3):
        if table.compaction.run().instant is None:
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
    points, writes = PHASES[phase]
    runs = points if SOAK else writes if fault is Fault.CRASH_AFTER else writes // 3
    what = f"a compaction, {phase}"
    for left in fault_sweep(
        base_for(phase), first(phase), fault, what, points=points, writes=writes, runs=runs, judged=JUDGED[phase]
    ):
        finish(left.storage, left.clock, "second", left.story)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", CRASHES)
def test_ingestion_goes_on_after_every_crash(fault: Fault) -> None:
    runs, what = 90 if SOAK else 19 if fault is Fault.CRASH_AFTER else 6, "a compaction, then an ingest"
    for left in fault_sweep(make_logged(), first("run"), fault, what, points=85, runs=runs, judged=JUDGED[what]):
        # Neither waits nor is refused, though the dead compactor's lease looks alive.
        before_s = left.clock.monotonic_s()
        assert table_of(left.storage, left.clock, "writer").ingest(FOURTH).instant is not None, left.story
        assert left.clock.monotonic_s() - before_s < 1, left.story
        finish(left.storage, left.clock, "second", left.story, AFTER_FOURTH)


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("phase", ["plan", "execute"])
def test_an_error_at_every_storage_operation_leaves_rows_and_plan(phase: str, fault: Fault) -> None:
    base = base_for(phase)
    plan = next((one.time for one in timeline_of(base).pending), "")
    every, writes = PHASES[phase]
    least = {"ERROR_BEFORE": every if SOAK else every // 4, "ERROR_AFTER": writes, "LANDS_LATER": writes}
    what, runs = f"a compaction, {phase}", least.get(fault.name, 3)
    for left in fault_sweep(base, first(phase), fault, what, points=every, runs=runs, judged=JUDGED[phase]):
        found = timeline_of(left.storage).find(plan)
        if left.error is not None and found is not None and not found.is_completed:
            assert State.REQUESTED in found.states, left.story
        # A payload of a plan that was cancelled by then stays: bytes that no slot names, as of any write.
        is_unnamed_payload = phase == "plan" and "/payload/" in left.faulty.fired[0]
        finish(left.storage, left.clock, "second", left.story, late=int if is_unnamed_payload else left.land)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", CRASHES)
def test_the_second_executor_is_crashed_too(fault: Fault) -> None:
    every, judged = JudgedStates(every=True), JudgedStates()

    def second(storage: FaultyStorage, clock: ManualClock) -> None:
        do(storage, clock, "second", "execute")

    for left in fault_sweep(
        base_for("execute"),
        first("execute"),
        fault,
        "an execution",
        points=60,
        step=3 if SOAK else 17,
        first=3,
        judged=every,
    ):
        if not left.story:
            continue
        again = fault_sweep(
            left.storage,
            second,
            fault,
            step=1 if SOAK else 4,
            clock=lambda: ManualClock(NOW_MS + EXPIRY_MS + 1_000),
            judged=judged,
        )
        for twice in again:
            finish(twice.storage, twice.clock, "third", f"{left.story}, then {twice.story}")
    print(f"the second execution: {judged.points} points, {len(judged.states)} states")
    assert judged.points > (1_000 if SOAK else 60)
    assert len(judged.states) > 20


def test_a_second_executor_is_told_who_is_at_it() -> None:
    storage, clock = base_for("execute"), ManualClock(NOW_MS)
    (plan,) = (one.time for one in timeline_of(storage).pending)

    class Stops:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.CRASH_BEFORE if ".parquet" in point and point.startswith("put:") else None

    with contextlib.suppress(Crash):
        table_of(FaultyStorage(storage, Stops()), clock, "first").compaction.execute(instant=plan)
    with pytest.raises(Busy, match="simulated-first"):
        table_of(storage, clock, "second").compaction.execute(instant=plan)
    clock.advance_ms(EXPIRY_MS + 1_000)
    done = table_of(storage, clock, "second").compaction.execute(instant=plan)
    assert (done.epoch, done.slices) == (2, 2)
    assert table_of(storage, clock, "third").compaction.execute(instant=plan).note == "it was completed before"

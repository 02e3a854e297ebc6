"""Crash and fail a clustering at every storage operation of plan and execution: rows never change, and another actor finishes it.

The executor has one plan group to leave out. After each end readers see the model's rows. Then, once the dead executor's lease has
expired, another process clusters: afterwards `verify` finds nothing, and every file is one that a completed instant names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.protocol.compaction_table import AFTER_FOURTH, FOURTH, MODEL, make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, fault_sweep
from tests.tables import LOGGED_WITH_METADATA, NOW_MS, rows, table_of

PHASES = {"plan": (30, 5), "execute": (60, 12)}
"""Storage operations of each, at least, and how many of them change something: a sweep that visits fewer has gone blind."""
JUDGED: defaultdict[str, JudgedStates] = defaultdict(JudgedStates)
"""What `finish` has judged, by phase: crashes and errors leave some states alike."""
TOUCHING = rows(("k0", "p0", 102, 5, None))
AFTER_TOUCHING = MODEL | {"k0": 102}


def do(storage: MemoryStorage | FaultyStorage, clock: ManualClock, actor: str, phase: str) -> None:
    api = table_of(storage, clock, actor).clustering
    if phase == "plan":
        api.plan(sort_by="value")
    else:
        api.execute(engine="local")


def base_for(phase: str) -> MemoryStorage:
    storage = make_logged(LOGGED_WITH_METADATA)
    clock = ManualClock(NOW_MS - 5_000, tick_ms=1)
    if phase == "execute":
        do(storage, clock, "planner", "plan")
    table_of(storage, clock, "writer").ingest(TOUCHING)
    return storage


def first(phase: str) -> Callable[[FaultyStorage, ManualClock], None]:
    """The process that goes wrong."""
    return lambda storage, clock: do(storage, clock, "first", phase)


def finish(
    storage: MemoryStorage,
    clock: ManualClock,
    story: str,
    model: dict[str, int] = AFTER_TOUCHING,
    late: Callable[[], object] = lambda: 0,
) -> None:
    """Another process clusters, once every dead lease has expired; after it lands what the first had put."""
    assert merged(storage.copy(), clock) == model, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, "second")
    table.clustering.run(sort_by="value")
    assert merged(storage, clock) == model, story
    late()
    assert merged(storage, clock) == model, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.recover()
    assert unaccounted(storage) == [], story
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == (), story


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("phase", list(PHASES))
def test_crash_at_every_storage_operation(phase: str, fault: Fault) -> None:
    points, writes = PHASES[phase]
    runs = points if SOAK else writes if fault is Fault.CRASH_AFTER else writes // 3
    what = f"a clustering, {phase}"
    for left in fault_sweep(
        base_for(phase), first(phase), fault, what, points=points, writes=writes, runs=runs, judged=JUDGED[phase]
    ):
        finish(left.storage, left.clock, left.story)


@pytest.mark.full("goes wrong at each of many points")
def test_ingestion_goes_on_after_every_crash() -> None:
    points, writes = PHASES["execute"]
    for left in fault_sweep(
        base_for("execute"),
        first("execute"),
        Fault.CRASH_AFTER,
        "a clustering, then an ingest",
        points=points,
        runs=writes,
    ):
        # Neither waits nor is refused, though the dead executor's lease looks alive.
        before_s = left.clock.monotonic_s()
        assert table_of(left.storage, left.clock, "writer").ingest(FOURTH).instant is not None, left.story
        assert left.clock.monotonic_s() - before_s < 1, left.story
        finish(left.storage, left.clock, left.story, AFTER_FOURTH | {"k0": 102})


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("phase", list(PHASES))
def test_an_error_at_every_storage_operation_leaves_rows_and_plan(phase: str, fault: Fault) -> None:
    base = base_for(phase)
    plan = next((one.time for one in timeline_of(base).pending), "")
    every, writes = PHASES[phase]
    least = {"ERROR_BEFORE": every if SOAK else every // 4, "ERROR_AFTER": writes, "LANDS_LATER": writes}
    what, runs = f"a clustering, {phase}", least.get(fault.name, 3)
    for left in fault_sweep(base, first(phase), fault, what, points=every, runs=runs, judged=JUDGED[phase]):
        found = timeline_of(left.storage).find(plan)
        if left.error is not None and found is not None and not found.is_completed:
            assert State.REQUESTED in found.states, left.story
        # A payload of a plan that was cancelled by then stays: bytes that no slot names, as of any write.
        is_unnamed_payload = phase == "plan" and "/payload/" in left.faulty.fired[0]
        finish(left.storage, left.clock, left.story, late=int if is_unnamed_payload else left.land)

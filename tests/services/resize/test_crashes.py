"""Crash and fail the execution of a resize at every storage operation: rows never change, and another actor finishes it.

Two groups have child logs, and one is left out since its partition was overwritten. After each end readers see the model's rows.
Then, once the dead executor's lease has expired, another process executes the plan.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, Left, fault_sweep
from tests.services.resize.hand_plans import P0, P1, Wanted, plan_of_nodes, rings_of, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, opened
from tests.tables import NOW_MS, by_key, made, rows

POINTS, WRITES = 60, 15
"""Storage operations of an execution, at least, and how many of them change something."""
JUDGED = JudgedStates()
"""What `finish` has judged: crashes and errors leave some states alike."""
KEYS = range(24)
MODEL = {f"k{n}": 100 + n for n in KEYS if n % 2 == 0} | {"k1": 701}


def base() -> tuple[MemoryStorage, str]:
    storage = made(replace(CONSISTENT, metadata=True), rows(*((f"k{n}", f"p{n % 2}", n, 1, None) for n in KEYS)))
    clock = ManualClock(NOW_MS - 5_000, tick_ms=1)
    plan = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1))
    writer = opened(storage, "writer", clock)
    writer.ingest(rows(*((f"k{n}", f"p{n % 2}", 100 + n, 2, None) for n in KEYS)))
    writer.ingest(rows(("k1", "p1", 701, 3, None)), operation="insert_overwrite")
    return storage, plan


def execute(storage: FaultyStorage, clock: ManualClock) -> None:
    run_plan(opened(storage, "first", clock))


def finish(left: Left, plan: str) -> None:
    """Another process executes the plan, once every dead lease has expired; afterwards the table is whole."""
    storage, clock, story = left.storage, left.clock, left.story
    assert by_key(opened(storage, "reader", clock)) == MODEL, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = opened(storage, "second", clock)
    run_plan(table)
    assert rings_of(table, [P0])[P0].instant == plan, story
    left.land()
    for listing in ("auto", "storage"):
        assert by_key(opened(storage, "reader", clock), listing=listing) == MODEL, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.recover()
    assert [path for path in unaccounted(storage) if "/.bucket_index/" not in path] == [], story
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == (), story
    opened(storage, "writer", clock).ingest(rows(*((f"k{n}", f"p{n % 2}", 900 + n, 9, None) for n in KEYS)))
    assert by_key(opened(storage, "reader", clock)) == {f"k{n}": 900 + n for n in KEYS}, story


@pytest.mark.parametrize("fault", CRASHES)
def test_crash_at_every_storage_operation(fault: Fault) -> None:
    start, plan = base()
    runs = bound(3, WRITES if fault is Fault.CRASH_AFTER else WRITES // 3, POINTS)
    most = bound(3, None, None)
    for left in fault_sweep(
        start, execute, fault, "a resize", points=POINTS, writes=WRITES, runs=runs, most=most, judged=JUDGED
    ):
        finish(left, plan)


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("fault", ERRORS)
def test_an_error_at_every_storage_operation_leaves_rows_and_plan(fault: Fault) -> None:
    start, plan = base()
    for left in fault_sweep(start, execute, fault, "a resize", points=POINTS, judged=JUDGED):
        found = timeline_of(left.storage).find(plan)
        if left.error is not None and found is not None and not found.is_completed:
            assert State.REQUESTED in found.states, left.story
        finish(left, plan)


@pytest.mark.full("goes wrong at each of many points")
def test_ingestion_goes_on_after_every_crash() -> None:
    start, plan = base()
    for left in fault_sweep(start, execute, Fault.CRASH_AFTER, "a resize, then an ingest", points=POINTS, runs=WRITES):
        before_s = left.clock.monotonic_s()
        opened(left.storage, "writer", left.clock).ingest(rows(("k0", "p0", 100, 3, None)))
        assert left.clock.monotonic_s() - before_s < 1, left.story
        finish(left, plan)

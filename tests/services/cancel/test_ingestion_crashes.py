"""Crash and fail an ingestion that ends a plan, at every storage operation: another process finishes, and no row is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE, read_aborted
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.fault_plans import DiesBefore
from tests.protocol.compaction_table import MODEL, make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, fault_sweep
from tests.services.cancel.rewriting import execute_rewrite, plan_rewrite
from tests.tables import LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, rows, table_of

DEFINITIONS = {"plain": MERGE_ON_READ, "metadata": LOGGED_WITH_METADATA}
CHANGE = rows(("k4", "p0", 444, 9, None))
AFTER = MODEL | {"k4": 444}
POINTS, WRITES = 40, 13
"""Storage operations of the ingestion, at least, and how many of them change something."""
JUDGED: defaultdict[tuple[str, str], JudgedStates] = defaultdict(JudgedStates)
"""What `finish` has judged, by kind of table and state of the plan: crashes and errors leave some states alike."""


@cache
def _made(state: str, kind: str) -> MemoryStorage:
    """A table with a plan: not begun, or begun by an executor that died."""
    storage = make_logged(DEFINITIONS[kind])
    clock = ManualClock(NOW_MS, tick_ms=1)
    instant = plan_rewrite(table_of(storage, clock, "planner"))
    if state == "begun":
        dying = FaultyStorage(storage, DiesBefore("^put:.hoodie/.commit_log/payload"))
        with pytest.raises(Crash):
            execute_rewrite(table_of(dying, clock, "executor"), instant)
    return storage


def base(state: str, kind: str) -> Callable[[ManualClock], MemoryStorage]:
    return lambda clock: _made(state, kind).copy(clock)


def finish(storage: MemoryStorage, clock: ManualClock, plan: str, story: str, late: Callable[[], object]) -> None:
    """Let another process write the row again, and the second look pass."""
    assert merged(storage.copy(), clock) in (MODEL, AFTER), story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, "second")
    table.ingest(CHANGE)
    late()
    for _ in range(3):  # a dead rollback is finished, the plan is removed, then the second look is due
        clock.advance_ms(EXPIRY_MS + 1_000)
        table.recover()
    table.clean.run()  # tidies a queue file that landed late
    timeline = timeline_of(storage)
    cancelled = {entry.instant: entry for entry in whole_log(storage).entries if isinstance(entry, Cancel)}
    (aborted,) = timeline.aborted
    assert aborted.time == plan, story
    assert State.SWEPT in aborted.states, story
    assert read_aborted(storage, timeline, aborted).by == cancelled[plan].by, story
    assert timeline.pending == (), story
    assert storage.list(QUEUE) == [], story
    assert unaccounted(storage) == [], story
    assert merged(storage, clock) == AFTER, story
    plan_rewrite(table)
    execute_rewrite(table)
    assert merged(storage, clock) == AFTER, story
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == (), story


EVERY = [
    (kind, state, fault) for kind in DEFINITIONS for state in ("planned", "begun") for fault in (*CRASHES, *ERRORS)
]
CASES = [
    one
    for one in EVERY
    if SOAK
    or (one[0] == "plain" and (one[1] == "planned" or one[2] in CRASHES))
    or one[1:] == ("begun", Fault.CRASH_AFTER)
]
"""Kind, state of the plan, and fault. The plain run leaves out most of the cases with a metadata table."""


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize(("kind", "state", "fault"), CASES, ids=str)
def test_an_ingestion_that_ends_a_plan_goes_wrong_at_every_storage_operation(
    kind: str, state: str, fault: Fault
) -> None:
    (plan,) = (one.time for one in timeline_of(_made(state, kind)).pending)
    swept = fault_sweep(
        base(state, kind),
        lambda storage, clock: table_of(storage, clock, "first").ingest(CHANGE),
        fault,
        f"an ingestion that ends a plan that is {state}, {kind}",
        points=POINTS,
        writes=WRITES,
        runs=POINTS if SOAK else WRITES // 3,
        clock=lambda: ManualClock(NOW_MS + 10_000, tick_ms=1),
        judged=JUDGED[kind, state],
    )
    for left in swept:
        # A payload of a write that was cancelled by then stays: bytes that no slot names.
        is_unnamed = fault is Fault.LANDS_LATER and "/payload/" in left.story
        finish(left.storage, left.clock, plan, left.story, late=int if is_unnamed else left.land)

"""Crash and fail request and execution of a cancel at every storage operation: another process finishes, and rows never change.

At the end the plan is either aborted or still pending and complete: a request that never reached its slot leaves the plan to its
executor. Once the cancel is swept, no file, marker, delta or queue file of the plan exists.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable
from functools import cache

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE, read_aborted
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.protocol.compaction_table import MODEL, make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, fault_sweep
from tests.services.cancel.planned import history_until, planned
from tests.tables import LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, table_of

DEFINITIONS = {"plain": MERGE_ON_READ, "metadata": LOGGED_WITH_METADATA}
STATES = ("planned", "begun", "requested")
FLOORS = {"planned": (20, 6), "begun": (25, 10), "requested": (20, 8)}
"""Storage operations of a cancel in each state, at least, and how many of them change something."""
JUDGED: defaultdict[tuple[str, str], JudgedStates] = defaultdict(JudgedStates)
"""What `finish` has judged, by kind of table and state of the plan: crashes and errors leave some states alike."""


@cache
def _made(state: str, kind: str) -> MemoryStorage:
    """A table with a plan: not begun; begun by an executor that died; or begun, and its cancel is requested."""
    storage = make_logged(DEFINITIONS[kind])
    instant = planned(storage)
    clock = ManualClock(NOW_MS, tick_ms=1)
    if state != "planned":
        at = len(history_until(storage, ".hoodie/.commit_log/payload"))
        dying = FaultyStorage(storage, FaultPlan.at(at, Fault.CRASH_BEFORE))
        with contextlib.suppress(Crash):
            table_of(dying, clock, "executor").compaction.execute()
    if state == "requested":
        table_of(storage, clock, "requester").request_cancel(instant)
    return storage


def base(state: str, kind: str) -> Callable[[ManualClock], MemoryStorage]:
    return lambda clock: _made(state, kind).copy(clock)


def plan_of(state: str, kind: str) -> str:
    (plan,) = timeline_of(_made(state, kind)).pending
    return plan.time


def finish(storage: MemoryStorage, clock: ManualClock, instant: str, story: str, late: Callable[[], object]) -> None:
    """Let another process end the plan, one way or the other, and the second look pass."""
    assert merged(storage.copy(), clock) == MODEL, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, "second")
    was_requested = any(isinstance(one, Cancel) and one.instant == instant for one in whole_log(storage).entries)
    if was_requested:
        assert table.cancel(instant).state == "aborted", story
    late()
    table.recover()
    if not was_requested:
        with contextlib.suppress(InvalidRequest, Busy):
            table.cancel(instant)
    for _ in range(2):  # the rollback of a dead aborter is finished, then the second look is due
        clock.advance_ms(EXPIRY_MS + 1_000)
        table.recover()
    timeline = timeline_of(storage)
    assert table.cancel(instant).state == "aborted", story  # a queue file that landed late goes
    (plan,) = timeline.aborted
    assert State.SWEPT in plan.states, story
    assert read_aborted(storage, timeline, plan).instant == instant, story
    assert storage.list(QUEUE) == [], story
    assert timeline.pending == (), story
    assert unaccounted(storage) == [], story
    assert merged(storage, clock) == MODEL, story
    assert table.compaction.run().instant is not None, story
    assert merged(storage, clock) == MODEL, story
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == (), story


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("fault", [*CRASHES, *ERRORS], ids=str)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_cancel_goes_wrong_at_every_storage_operation(kind: str, state: str, fault: Fault) -> None:
    instant = plan_of(state, kind)
    points, writes = FLOORS[state]
    runs = points if SOAK else writes // 3
    swept = fault_sweep(
        base(state, kind),
        lambda storage, clock: table_of(storage, clock, "first").cancel(instant, wait_s=0),
        fault,
        f"a cancel of a plan that is {state}, {kind}",
        points=points,
        writes=writes,
        runs=runs,
        clock=lambda: ManualClock(NOW_MS + 10 * EXPIRY_MS),
        judged=JUDGED[kind, state],
    )
    for left in swept:
        finish(left.storage, left.clock, instant, left.story, left.land)

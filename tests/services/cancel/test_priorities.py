"""Priorities between services: a plan cancels an overlapping, cancellable plan of a lower one; equal ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Cancelled
from hudi_ops.services.cancel.overdue import cancel_overdue
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.log.entries import Cancel, Plan
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.compaction_table import MODEL, log_files, make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.tables import NOW_MS, table_of

FIRST = ConflictSettings(priority={"compaction": 2, "clustering": 1})


@pytest.fixture
def storage() -> MemoryStorage:
    return make_logged()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def compactor(storage: MemoryStorage | FaultyStorage, clock: ManualClock, **settings: Any) -> Table:
    return table_of(storage, clock, "compactor", **{"conflicts": FIRST, **settings})


def cancels(storage: MemoryStorage) -> list[Cancel]:
    return [entry for entry in whole_log(storage).entries if isinstance(entry, Cancel)]


def settled(storage: MemoryStorage, clock: ManualClock) -> None:
    assert merged(storage, clock) == MODEL
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "last").recover()
    cancel_overdue(table_of(storage, clock, "last")._session)
    assert unaccounted(storage) == []
    assert verify_table(storage, deep=True, clock=clock).findings == ()
    assert merged(storage, clock) == MODEL


def test_a_plan_of_higher_priority_cancels_a_lower_one(storage: MemoryStorage, clock: ManualClock) -> None:
    lower = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    done = compactor(storage, clock).compaction.plan()
    assert (done.instant is not None, done.ended_plans) == (True, (lower,))
    (cancel,) = cancels(storage)
    assert (cancel.instant, cancel.cause, cancel.requester) == (lower, "priority", cancel.owner)
    entries = whole_log(storage).entries
    own = next(entry for entry in entries if isinstance(entry, Plan) and entry.instant == done.instant)
    assert entries.index(own) == entries.index(cancel) + 1, "no other decision comes between them"
    with pytest.raises(Cancelled, match="a compaction of higher priority was planned on the same file groups"):
        table_of(storage, clock, "executor").clustering.execute(instant=lower)
    compactor(storage, clock).compaction.execute()
    assert log_files(storage, clock) == 0
    settled(storage, clock)
    assert [one.time for one in timeline_of(storage).aborted] == [lower]


def test_an_executor_of_the_lower_plan_ends(storage: MemoryStorage, clock: ManualClock) -> None:
    lower = table_of(storage, clock, "planner").clustering.plan(sort_by="value").instant
    results = []
    move = MoveBefore(
        "put:.hoodie/.commit_log/payload", lambda: results.append(compactor(storage, clock).compaction.run())
    )
    with pytest.raises(Cancelled):
        table_of(FaultyStorage(storage, move), clock, "executor").clustering.execute(instant=lower)
    assert results[0].completion_time is not None
    settled(storage, clock)


@pytest.mark.parametrize(
    ("settings", "cancel"),
    [
        (ConflictSettings(), "cancellable"),
        (ConflictSettings(priority={"compaction": 3, "clustering": 3}), "cancellable"),
        (ConflictSettings(priority={"clustering": 1}), "cancellable"),
        (FIRST, "never"),
    ],
    ids=["none given", "equal", "lower", "not cancellable"],
)
def test_other_plans_stay(storage: MemoryStorage, clock: ManualClock, settings: ConflictSettings, cancel: str) -> None:
    lower = table_of(storage, clock, "planner").clustering.plan(sort_by="value", cancel=cancel).instant
    done = compactor(storage, clock, conflicts=settings).compaction.plan()
    assert (done.instant, done.ended_plans, cancels(storage)) == (None, (), [])
    assert f"taken by others (clustering {lower})" in done.note
    table_of(storage, clock, "executor").clustering.execute(instant=lower)
    settled(storage, clock)


def test_a_plan_on_other_groups_stays(storage: MemoryStorage, clock: ManualClock) -> None:
    table_of(storage, clock, "planner").clustering.plan(sort_by="value", partitions=["part=p0"])
    done = compactor(storage, clock).compaction.plan(partitions=["part=p1"])
    assert (done.instant is not None, done.ended_plans, cancels(storage)) == (True, (), [])
    table_of(storage, clock, "executor").clustering.execute()
    compactor(storage, clock).compaction.execute()
    settled(storage, clock)


def test_a_plan_that_appears_while_another_is_made_is_cancelled_too(storage: MemoryStorage, clock: ManualClock) -> None:
    planner = table_of(storage, clock, "planner")
    lower = []
    move = MoveBefore("list_folder:part=p1", lambda: lower.append(planner.clustering.plan(sort_by="value").instant))
    done = compactor(FaultyStorage(storage, move), clock).compaction.plan()
    assert done.ended_plans == tuple(lower)
    compactor(storage, clock).compaction.execute()
    settled(storage, clock)


def test_a_lower_plan_leaves_out_the_groups_of_a_higher_one(storage: MemoryStorage, clock: ManualClock) -> None:
    move = MoveBefore("put:.hoodie/.commit_log/payload", lambda: compactor(storage, clock).compaction.plan())
    lower = table_of(FaultyStorage(storage, move), clock, "lower", conflicts=FIRST).clustering.plan(sort_by="value")
    assert (lower.groups_dropped, lower.ended_plans, cancels(storage)) == (2, (), [])
    compactor(storage, clock).compaction.execute()
    table_of(storage, clock, "executor").clustering.execute()
    settled(storage, clock)

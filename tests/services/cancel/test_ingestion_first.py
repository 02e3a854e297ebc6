"""Ingestion ends overlapping plans that replace groups: it commits at once, and the plan is aborted with the reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE, queue_path, read_aborted
from hudi_ops.timeline.log.entries import Cancel, Complete
from hudi_ops.timeline.state import TableState
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.protocol.compaction_table import make_logged, merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.services.cancel.planned import planned
from tests.services.cancel.rewriting import RewriteRequest, execute_rewrite, plan_rewrite
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, WITH_METADATA, made, rows, table_of

BATCHES = (rows(*((f"k{n}", f"p{n % 2}", n, 0, None) for n in range(8))), rows(("k1", "p1", 11, 1, None)))
AFTER = {f"k{n}": n for n in range(8)} | {"k1": 11, "k2": 22}
DEFINITIONS = {
    "cow": DEFINITION,
    "mor": MERGE_ON_READ,
    "cow-metadata": WITH_METADATA,
    "mor-metadata": LOGGED_WITH_METADATA,
}
NOT_CANCELLABLE = RewriteRequest(cancel="never")
ONCE = ConflictSettings(retries=0)
FIRST_COMMITTER = ConflictSettings(strategy="first-committer")
CHANGE = rows(("k2", "p0", 22, 5, None))


@pytest.fixture(params=DEFINITIONS)
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    return made(DEFINITIONS[request.param], *BATCHES)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def cancels(storage: MemoryStorage) -> list[Cancel]:
    return [entry for entry in whole_log(storage).entries if isinstance(entry, Cancel)]


def begun(storage: MemoryStorage, clock: ManualClock, instant: str) -> None:
    """Let an executor take the plan over and write its files, and die before it decides."""
    dying = FaultyStorage(storage, DiesBefore("^put:.hoodie/.commit_log/payload"))
    with pytest.raises(Crash):
        execute_rewrite(table_of(dying, clock, "executor"), instant)


@pytest.fixture
def logged() -> MemoryStorage:
    """A merge-on-read table: what conflicts does not depend on the kind of table."""
    return made(MERGE_ON_READ, *BATCHES)


def test_the_kind_itself_replaces_groups_and_keeps_rows(storage: MemoryStorage, clock: ManualClock) -> None:
    plan_rewrite(table_of(storage, clock, "planner"))
    done = execute_rewrite(table_of(storage, clock, "executor"))
    assert timeline_of(storage).find(done.instant).kind == "replacecommit"
    assert merged(storage, clock) == AFTER | {"k2": 2}
    table_of(storage, clock, "ingest").ingest(CHANGE)
    assert merged(storage, clock) == AFTER
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()


@pytest.mark.parametrize("is_begun", [False, True], ids=["planned", "running"])
def test_a_write_commits_at_once_and_the_plan_is_aborted(
    storage: MemoryStorage, clock: ManualClock, *, is_begun: bool
) -> None:
    plan = plan_rewrite(table_of(storage, clock, "planner"))
    if is_begun:
        begun(storage, clock, plan)
    before_ms = clock.now_ms()
    done = table_of(storage, clock, "ingest").ingest(CHANGE)
    assert clock.now_ms() - before_ms < EXPIRY_MS, "it does not wait for the executor's lease"
    assert done.ended_plans == (plan,)
    (cancel,) = cancels(storage)
    assert (cancel.instant, cancel.cause, cancel.by, cancel.requester) == (
        plan,
        "ingestion",
        done.instant,
        cancel.owner,
    )
    own = next(
        entry for entry in whole_log(storage).entries if isinstance(entry, Complete) and entry.instant == done.instant
    )
    log = whole_log(storage).entries
    assert log.index(own) == log.index(cancel) + 1, "no other decision comes between them"
    assert [info.path for info in storage.list(QUEUE)] == [queue_path(plan)]
    assert merged(storage, clock) == AFTER
    with pytest.raises(Cancelled, match=f"{done.instant} wrote to the same file groups first"):
        execute_rewrite(table_of(storage, clock, "late"), plan)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "sweeper").recover()
    timeline = timeline_of(storage)
    (aborted,) = timeline.aborted
    assert read_aborted(storage, timeline, aborted).by == done.instant
    assert storage.list(QUEUE) == []
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "sweeper").recover()
    assert unaccounted(storage) == []
    assert merged(storage, clock) == AFTER
    plan_rewrite(table_of(storage, clock, "again"))
    execute_rewrite(table_of(storage, clock, "again"))
    assert merged(storage, clock) == AFTER
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()


def test_a_write_to_other_groups_leaves_the_plan(logged: MemoryStorage, clock: ManualClock) -> None:
    storage = logged
    plan_rewrite(table_of(storage, clock, "planner"), RewriteRequest(partitions=("part=p1",)))
    table_of(storage, clock, "ingest").ingest(CHANGE)
    execute_rewrite(table_of(storage, clock, "executor"))
    assert cancels(storage) == []
    assert merged(storage, clock) == AFTER


def test_a_write_waits_for_a_plan_that_is_not_cancellable(logged: MemoryStorage, clock: ManualClock) -> None:
    storage = logged
    plan = plan_rewrite(table_of(storage, clock, "planner"), NOT_CANCELLABLE)
    (row,) = table_of(storage, clock, "user").plans(plan)
    assert row.policy == "not cancellable, writes to its file groups wait"
    before = {info.path for info in storage.list() if not info.path.startswith(".hoodie")}
    with pytest.raises(Busy, match=plan) as refused:
        table_of(storage, clock, "ingest", conflicts=ONCE).ingest(CHANGE)
    assert refused.value.details["other"] == plan
    assert {info.path for info in storage.list() if not info.path.startswith(".hoodie")} == before
    assert plan not in {cancel.instant for cancel in cancels(storage)}, "its own attempt alone was cancelled"
    execute_rewrite(table_of(storage, clock, "executor"), plan)
    table_of(storage, clock, "ingest").ingest(CHANGE)
    assert merged(storage, clock) == AFTER


def test_a_plan_that_completed_first_wins(logged: MemoryStorage, clock: ManualClock) -> None:
    """The write began before the plan completed: it is tried again upon the new groups, and cancels nothing."""
    storage = logged
    plan = plan_rewrite(table_of(storage, clock, "planner"))
    table = table_of(storage, clock, "ingest", conflicts=ONCE)
    read = table._session.newest_extra

    def complete_first(state: TableState) -> Mapping[str, str]:
        execute_rewrite(table_of(storage, clock, "executor", conflicts=FIRST_COMMITTER), plan)
        return read(state)

    table._session.newest_extra = complete_first
    with pytest.raises(Conflict, match=plan):
        table.ingest(CHANGE)
    assert plan not in {cancel.instant for cancel in cancels(storage)}
    table_of(storage, clock, "ingest").ingest(CHANGE)
    assert merged(storage, clock) == AFTER


def test_ingestion_never_ends_a_compaction_unless_the_plan_says_so(clock: ManualClock) -> None:
    storage = make_logged()
    plan = planned(storage)
    table_of(storage, clock, "ingest").ingest(CHANGE)
    assert cancels(storage) == []
    table_of(storage, clock, "executor").compaction.execute(instant=plan)
    literal = planned(make_again := make_logged(), on_overlap="cancel")
    table_of(make_again, clock, "ingest").ingest(CHANGE)
    assert [cancel.instant for cancel in cancels(make_again)] == [literal]
    (row,) = table_of(make_again, clock, "user").plans(literal)
    assert row.policy == "cancellable, ended by writes to its file groups"
    with pytest.raises(Cancelled):
        table_of(make_again, clock, "executor").compaction.execute(instant=literal)


def test_a_write_that_fails_after_its_cancel_leaves_the_plan_cancelled(
    logged: MemoryStorage, clock: ManualClock
) -> None:
    storage = logged
    plan = plan_rewrite(table_of(storage, clock, "planner"))
    trial = FaultyStorage(storage.copy())
    table_of(trial, ManualClock(clock.now_ms(), tick_ms=1), "ingest").ingest(CHANGE)
    slots = [
        number for number, point in enumerate(trial.history, 1) if "commit_log/0" in point and point.startswith("put")
    ]
    with pytest.raises(Crash):
        table_of(FaultyStorage(storage, FaultPlan.at(slots[-1], Fault.CRASH_BEFORE)), clock, "ingest").ingest(CHANGE)
    assert [cancel.instant for cancel in cancels(storage)] == [plan]
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "next").ingest(CHANGE)
    assert merged(storage, clock) == AFTER
    assert [one.time for one in timeline_of(storage).aborted] == [plan]
    assert storage.list(QUEUE) == []

"""Named interleavings of cancels with executors, aborters, planners, ingestion, restores and archivers.

The numbers are those of the list in docs/reliability.md, which names the tests of the others. A move is made by another process
right before one storage operation of the first.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Cancelled, Conflict
from hudi_ops.services.cancel.errors import NotRequested
from hudi_ops.services.cancel.overdue import cancel_overdue
from hudi_ops.services.clustering.service import ClusterResult
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.compaction_table import merged
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of, whole_log
from tests.services.cancel.rewriting import RewriteRequest, execute_rewrite, plan_rewrite
from tests.tables import DEFINITION, NOW_MS, made, rows, table_of

PAYLOAD = "^put:.hoodie/.commit_log/payload"
"""Where an executor or a writer has done its work and holds the lock for its decision."""
HELD = {f"k{n}": n for n in range(8)}
CHANGE = rows(("k2", "p0", 22, 5, None))
CHANGED = HELD | {"k2": 22}


class World:
    """A table of two partitions, its clock, and processes by name."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS, tick_ms=1)
        self.storage: MemoryStorage = made(DEFINITION, rows(*((f"k{n}", f"p{n % 2}", n, 0, None) for n in range(8))))

    def table(self, actor: str, **settings: object) -> Table:
        return table_of(self.storage, self.clock, actor, **settings)

    def disturbed(self, actor: str, plan: object, **settings: object) -> Table:
        """A process that something happens to."""
        return table_of(FaultyStorage(self.storage, plan), self.clock, actor, **settings)

    def plan(self, request: RewriteRequest | None = None) -> str:
        return plan_rewrite(self.table("planner"), request)

    def aborted(self) -> list[str]:
        return [one.time for one in timeline_of(self.storage).aborted]

    def cancelled(self) -> list[str]:
        return [entry.instant for entry in whole_log(self.storage).entries if isinstance(entry, Cancel)]

    def settled(self, model: dict[str, int]) -> None:
        """Let the second look pass, and compare everything."""
        for _ in range(2):
            self.clock.advance_ms(EXPIRY_MS + 1_000)
            self.table("sweeper").recover()
        cancel_overdue(self.table("sweeper")._session)
        assert all(State.SWEPT in one.states for one in timeline_of(self.storage).aborted)
        assert self.storage.list(QUEUE) == []
        # A restore marks the writes that it undoes, too.
        assert [path for path in unaccounted(self.storage) if not path.startswith(f"{MARKS}/")] == []
        assert merged(self.storage, self.clock) == model
        assert verify_table(self.storage, deep=True, clock=self.clock).findings == ()


@pytest.fixture
def world() -> World:
    return World()


def moved(move: Callable[[], object], point: str) -> MoveBefore:
    return MoveBefore(point, move)


def test_1_a_request_comes_between_the_work_and_the_decision(world: World) -> None:
    plan = world.plan()
    executor = world.disturbed(
        "executor", moved(lambda: world.table("user").request_cancel(plan), f"put:.hoodie/.commit_log/payload/{plan}")
    )
    with pytest.raises(Cancelled):
        execute_rewrite(executor, plan)
    assert world.aborted() == [plan]
    world.settled(HELD)


def test_3_a_cleaner_meets_a_plan_that_was_decided_and_not_completed(world: World) -> None:
    plan = world.plan()
    with pytest.raises(Crash):
        execute_rewrite(world.disturbed("executor", DiesBefore(f"put_if_absent:.hoodie/timeline/{plan}_")), plan)
    world.clock.advance_ms(EXPIRY_MS + 1_000)
    world.table("cleaner").clean.run()
    found = timeline_of(world.storage).find(plan)
    assert found is not None
    assert found.is_completed
    world.settled(HELD)


def test_6_an_executor_sleeps_past_its_lease_and_writes_after_the_abort(world: World) -> None:
    plan = world.plan()

    def abort() -> None:
        world.clock.advance_ms(EXPIRY_MS + 1_000)
        assert world.table("user").cancel(plan).state == "aborted"

    sleeper = moved(abort, f"^put:{rows_folder(world)}")
    with pytest.raises(Cancelled):
        execute_rewrite(world.disturbed("executor", sleeper), plan)
    assert sleeper.moved
    assert world.aborted() == [plan]
    world.settled(HELD)


def rows_folder(world: World) -> str:
    """The folder of the first data file that a plan rewrites."""
    return next(info.path.rpartition("/")[0] for info in world.storage.list() if info.name.endswith(".parquet"))


def test_8_two_processes_abort_one_plan(world: World) -> None:
    plan = world.plan()
    with pytest.raises(Crash):
        execute_rewrite(world.disturbed("executor", DiesBefore(PAYLOAD)), plan)
    world.clock.advance_ms(EXPIRY_MS + 1_000)
    other: list[str] = []
    first = moved(lambda: other.append(world.table("other").cancel(plan).state), f"delete:{rows_folder(world)}")
    assert world.disturbed("first", first).cancel(plan).state == "aborted"
    assert other == ["cancelled"], "it leaves the removal to the first"
    rollbacks = [one for one in timeline_of(world.storage) if one.kind == "rollback"]
    assert len(rollbacks) == 1
    world.settled(HELD)


def test_10_an_aborter_dies_before_the_queue_file_and_the_table_is_archived_and_cleaned(world: World) -> None:
    plan = world.plan()
    with pytest.raises(Crash):
        world.disturbed("user", DiesBefore(f"delete:{QUEUE}/{plan}")).cancel(plan)
    assert world.aborted() == [plan]
    assert [info.name for info in world.storage.list(QUEUE)] == [plan]
    world.clock.advance_ms(EXPIRY_MS + 1_000)
    table = world.table("upkeep")
    table.recover()
    table.archive.run(keep_min=1, keep_max=1)
    table.clean.run()
    assert world.storage.list(QUEUE) == []
    assert merged(world.storage, world.clock) == HELD


def test_12_a_cancel_that_was_not_requested_is_not_executed(world: World) -> None:
    plan = world.plan()
    with pytest.raises(NotRequested, match=plan):
        world.table("user").execute_cancel(plan)
    execute_rewrite(world.table("executor"), plan)
    world.settled(HELD)


def test_15_a_plan_that_was_published_after_a_write_began_is_ended_by_it(world: World) -> None:
    plans: list[str] = []
    writer = world.disturbed("writer", moved(lambda: plans.append(world.plan()), "^put:.hoodie/.temp/"))
    done = writer.ingest(CHANGE)
    assert done.instant < plans[0]
    assert world.cancelled() == plans
    world.settled(CHANGED)
    assert world.aborted() == plans


@pytest.mark.parametrize("strategy", ["ingestion-first", "first-committer"])
def test_16_a_plan_is_ready_while_a_write_is_under_way(world: World, strategy: str) -> None:
    plan = world.plan()
    settings = ConflictSettings(strategy=strategy, early_detection=False, retries=0)
    results: list[ClusterResult] = []

    def complete() -> None:
        results.append(execute_rewrite(world.table("executor", conflicts=settings), plan))

    writer = world.disturbed("writer", moved(complete, "^put:.hoodie/.temp/"), conflicts=settings)
    if strategy == "ingestion-first":
        writer.ingest(CHANGE)
        assert results[0].left_out == 1
    else:
        with pytest.raises(Conflict, match=plan):
            writer.ingest(CHANGE)
        world.table("writer").ingest(CHANGE)
        assert results[0].left_out == 0
    world.settled(CHANGED)
    assert world.aborted() == []


def test_18_a_second_plan_on_the_groups_of_a_pending_one_is_not_made(world: World) -> None:
    plan = world.plan()
    second = world.table("planner").clustering.plan(sort_by="id", rewrite=True)
    assert second.instant is None
    assert f"taken by others (clustering {plan})" in second.note
    world.table("user").request_cancel(plan)
    again = world.plan()
    execute_rewrite(world.table("executor"), again)
    world.settled(HELD)


def test_19_a_plan_on_the_groups_of_a_cancelled_one_completes_while_that_is_removed(world: World) -> None:
    plan = world.plan()
    with pytest.raises(Crash):
        execute_rewrite(world.disturbed("executor", DiesBefore(PAYLOAD)), plan)
    world.clock.advance_ms(EXPIRY_MS + 1_000)
    next_plans: list[str] = []

    def plan_and_execute() -> None:
        next_plans.append(world.plan())
        execute_rewrite(world.table("second"), next_plans[0])

    aborter = moved(plan_and_execute, f"delete:{rows_folder(world)}")
    assert world.disturbed("user", aborter).cancel(plan).state == "aborted"
    found = timeline_of(world.storage).find(next_plans[0])
    assert found is not None
    assert found.is_completed
    world.settled(HELD)


def test_24_a_plan_completes_while_a_cleaner_finds_it_overdue(world: World) -> None:
    plan = world.plan(RewriteRequest(("part=p0",), cancel="after 1 instant"))
    world.table("writer").ingest(rows(("k1", "p1", 1, 5, None)))
    world.clock.advance_ms(EXPIRY_MS + 1_000)
    world.table("writer").ingest(rows(("k1", "p1", 1, 6, None)))
    cleaner = moved(lambda: execute_rewrite(world.table("executor"), plan), f".hoodie/.heartbeat/{plan}")
    driven = cancel_overdue(world.disturbed("cleaner", cleaner)._session)
    assert cleaner.moved
    assert (driven.cancelled, driven.removed) == ((), ())
    assert world.cancelled() == []
    world.settled(HELD)


def test_32_a_restore_ends_the_plans_after_its_savepoint(world: World) -> None:
    saved = world.table("user").savepoints.create().instant
    world.table("writer").ingest(CHANGE)
    plan = world.plan()

    def restore() -> None:
        world.clock.advance_ms(EXPIRY_MS + 1_000)
        user = world.table("user")
        user.savepoints.restore(saved)

    sleeper = moved(restore, f"^put:{rows_folder(world)}")
    with pytest.raises((Cancelled, Conflict)):
        execute_rewrite(world.disturbed("executor", sleeper), plan)
    assert sleeper.moved
    assert plan in world.cancelled()
    world.settled(HELD)


def test_35_many_stale_requests_are_tidied_without_the_lock(world: World) -> None:
    table_id = whole_log(world.storage).table_id
    for number in range(1_000):
        world.storage.put(f"{QUEUE}/{20200101000000000 + number}", f'{{"table_id": "{table_id}", "slot": 3}}'.encode())
    table = world.table("cleaner")
    taken: list[str] = []
    acquire = table.context.locks.acquire
    table.context.locks.acquire = lambda timeout_s, purpose: taken.append(purpose) or acquire(timeout_s, purpose)
    cancel_overdue(table._session)
    assert world.storage.list(QUEUE) == []
    assert taken == []

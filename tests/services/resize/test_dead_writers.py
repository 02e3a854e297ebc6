"""The rollback of a dead writer of ours takes its child logs away, and leaves those of others, whatever became of the resize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.files.names import is_child_log_of, parse_data_file
from hudi_ops.index.ring import initial_ring
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.verify import verify_table
from hudi_ops.view.columns.slices import newest_slices
from tests.fault_plans import DiesBehind, MoveBefore
from tests.protocol.log_actors import timeline_of
from tests.services.resize.aborted import KEYS, PAYLOAD, PLANNED_GROUPS, archive_all, batch, cancel, model_of
from tests.services.resize.hand_plans import P0, child_logs, plan_of_nodes, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, hashes_of, opened
from tests.tables import NOW_MS, by_key, made, rows
from tests.views import view_anew

AMID = "^put:part=p0/."
"""The first log file of a write that has begun."""
CHILD = f"{P0}/.000"
"""Log files of children: a plan by hand names them so."""
NODES = initial_ring(P0, 4).nodes_of(hashes_of([f"k{n}" for n in KEYS])).tolist()
OF_DEAD = [n for n in KEYS if n % 2 == 0 and NODES[n] in {0, 1}]
OF_OTHERS = [n for n in KEYS if n % 2 == 0 and NODES[n] == 2]
"""Keys of buckets that the resize changes; the last two of its three parents become one bucket."""
MODEL = model_of(0) | {f"k{n}": 500 + n for n in OF_OTHERS}


def keyed(numbers: list[int], value: int) -> pa.Table:
    return rows(*((f"k{n}", "p0", value + n, value, None) for n in numbers))


@dataclass
class Left:
    """A table with a resize, a completed write beside it, and a writer that died behind its child logs."""

    storage: MemoryStorage
    clock: ManualClock
    plan: str = ""
    dead: str = ""

    def open(self, actor: str, faults: object = None) -> Table:
        return opened(FaultyStorage(self.storage, faults) if faults else self.storage, actor, self.clock)

    def publish(self) -> None:
        self.plan = plan_of_nodes(self.open("planner"), *PLANNED_GROUPS)

    def die(self, move: Callable[[], object], point: str = AMID, at: str = PAYLOAD) -> None:
        """Let a writer die before its slot, once it has put child logs; others make a move when it comes to a point."""
        plan = MoveBefore(point, move)
        inner = FaultyStorage(self.storage, plan)
        with pytest.raises(Crash):
            opened(FaultyStorage(inner, DiesBehind(CHILD, at)), "dead", self.clock).ingest(keyed(OF_DEAD, 900))
        assert plan.moved
        (self.dead,) = (one.time for one in timeline_of(self.storage).pending if one.action == "deltacommit")
        assert len(self.of_dead()) >= 2

    def write(self) -> None:
        """Complete a write to a parent of the merge, of which the dead writer has another one."""
        self.open("writer").ingest(keyed(OF_OTHERS, 500))

    def of_dead(self) -> list[str]:
        """Its log files in children."""
        logs = ((path, parse_data_file(path.rpartition("/")[2])) for path in child_logs(self.storage, self.plan))
        return [path for path, name in logs if name is not None and is_child_log_of(name, self.dead)]

    def recover(self) -> set[str]:
        """Roll the dead writer back; returns its files."""
        self.clock.advance_ms(EXPIRY_MS + 1_000)
        undone = {one.instant: one for one in self.open("second").recover().rolled_back}
        assert self.of_dead() == []
        return set(undone[self.dead].files)

    def check(self, model: dict[str, int] = MODEL) -> None:
        for listing in ("auto", "storage"):
            assert by_key(self.open("reader"), listing=listing) == model
        assert [*map(str, verify_table(self.storage, deep=True, index=True, clock=self.clock).findings)] == []

    def end(self) -> None:
        """The rows are those of the completed write; then archive everything, and update every key."""
        self.check()
        table = self.open("last")
        archive_all(table)
        table.ingest(batch(3_000))
        self.check(model_of(3_000))


@pytest.fixture(params=[True, False], ids=["metadata table", "no metadata table"])
def left(request: pytest.FixtureRequest) -> Left:
    storage = made(replace(CONSISTENT, metadata=request.param), batch(0))
    return Left(storage, ManualClock(NOW_MS, tick_ms=1))


def dead_before_and_after(left: Left, order: str) -> list[str]:
    """Plan a resize, complete a write, and let another one die; its instant is older than the plan's, or newer.

    Returns:
        The child logs of the completed write.
    """
    if order == "older":
        left.die(lambda: (left.publish(), left.write()))
        assert left.dead < left.plan
    else:
        left.publish()
        left.die(left.write)
        assert left.plan < left.dead
    kept = sorted({*child_logs(left.storage, left.plan)} - {*left.of_dead()})
    assert len(kept) == 1
    return kept


@pytest.mark.parametrize("order", ["older", "newer"])
def test_only_its_child_logs_go_while_the_resize_is_pending(left: Left, order: str) -> None:
    kept = dead_before_and_after(left, order)
    logs = left.of_dead()
    assert {*logs} < left.recover()
    assert child_logs(left.storage, left.plan) == kept
    left.check()
    assert run_plan(left.open("executor"), left.plan).left_out == 0
    left.end()


@pytest.mark.parametrize("order", ["older", "newer"])
def test_only_its_child_logs_go_after_the_resize_completed(left: Left, order: str) -> None:
    kept = dead_before_and_after(left, order)
    run_plan(left.open("executor"), left.plan)
    logs = left.of_dead()
    assert logs, "the executor leaves them to the writer's rollback"
    for listing in ("auto", "storage"):
        assert by_key(left.open("reader"), listing=listing) == MODEL, "readers leave them out"
    seen = {file.path for slice_ in newest_slices(view_anew(left.storage)).objects() for file in slice_.logs}
    assert seen.isdisjoint(logs), "a view built anew leaves them out"
    compaction = left.open("planner").compaction.plan()
    assert {*logs} < left.recover()
    assert left.open("executor").compaction.execute(instant=compaction.instant).slices == 1, (
        "its plan names none of them"
    )
    assert child_logs(left.storage, left.plan) == kept
    left.end()


@pytest.mark.parametrize("order", ["older", "newer"])
def test_nothing_of_it_is_left_after_the_resize_was_aborted(left: Left, order: str) -> None:
    dead_before_and_after(left, order)
    cancel(left.storage, left.clock, left.plan)
    assert child_logs(left.storage, left.plan) == []
    left.recover()
    left.end()


def test_child_logs_that_it_puts_after_the_abort_go(left: Left) -> None:
    """It has read that the resize is pending, sleeps while others abort it, writes its child logs and dies."""
    left.publish()
    left.write()
    left.die(lambda: cancel(left.storage, left.clock, left.plan), CHILD, at=f"delete:{CHILD}")
    logs = left.of_dead()
    assert {*logs} < left.recover()
    assert child_logs(left.storage, left.plan) == []
    left.end()

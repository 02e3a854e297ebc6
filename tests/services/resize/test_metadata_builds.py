"""Builds of the metadata table beside resizes of ours: complete, left out in part, or cancelled; readers see each row once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.services.resize.hand_plans import Wanted, child_logs, plan_of_nodes, run_plan
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, by_key, made, rows, table_of

CONSISTENT = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=2, buckets_max=8)
EVERY = ("files", "column_stats", "partition_stats", "bloom_filters")
KEYS = 60


def batch(value: int, count: int = KEYS) -> Any:
    return rows(*[(f"k{n}", f"p{n % 2}", value, value, None) for n in range(count)])


class World:
    """A table with a planned split, and rows that a write put into parents and children."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS, tick_ms=1)
        self.storage: MemoryStorage = made(CONSISTENT, batch(1), clock=ManualClock(NOW_MS - 60_000, tick_ms=1))
        self.table = self.opened()
        self.resize = plan_of_nodes(self.table, Wanted((0,)), Wanted((1,), "part=p1"))
        self.table.ingest(batch(2, 20))
        self.model = {f"k{n}": 2 if n < 20 else 1 for n in range(KEYS)}

    def opened(self, storage: Any = None, actor: str = "tester") -> Table:
        return table_of(storage or self.storage, self.clock, actor, upkeep=BY_HAND)

    def check(self) -> None:
        assert verify_table(self.storage, deep=True, index=True, clock=self.clock).findings == ()
        reader = self.opened(actor="reader")
        assert by_key(reader, listing="metadata") == by_key(reader, listing="storage") == self.model
        for value in (1, 2):
            kept = {key: one for key, one in self.model.items() if one == value}
            assert by_key(reader, where=f"value = {value}", listing="metadata") == kept


@pytest.fixture
def world() -> World:
    return World()


def test_a_resize_that_completes_after_the_build_is_read_by_the_metadata_table(world: World) -> None:
    before = world.opened().ring()
    assert sum(child.log_files for ring in before for child in ring.pending) == len(
        child_logs(world.storage, world.resize)
    )
    assert world.opened(actor="builder").indexing.run(partitions=EVERY).instant
    world.check()
    assert world.opened(actor="reader").ring() == before  # as the metadata table lists it
    assert run_plan(world.table, world.resize).splits == 2
    world.check()


@pytest.mark.parametrize("point", [":.hoodie/metadata/files/", "put:.hoodie/.index_defs"])
def test_a_resize_that_completes_during_the_build_is_in_the_next_round(world: World, point: str) -> None:
    plan = MoveBefore(point, lambda: run_plan(world.opened(actor="executor"), world.resize))
    built = world.opened(FaultyStorage(world.storage, plan), "builder").indexing.run(partitions=EVERY)
    assert (plan.moved, built.rounds) == (True, 1)
    world.check()


def test_a_resize_that_is_cancelled_after_the_build_takes_its_logs_along(world: World) -> None:
    world.opened(actor="builder").indexing.run(partitions=EVERY)
    world.table.cancel(world.resize, "not needed")
    assert child_logs(world.storage, world.resize) == []
    world.check()


def test_a_part_that_a_resize_leaves_out_goes_from_the_built_partitions(world: World) -> None:
    """Method: an overwrite replaces the parents of one plan group."""
    lost = next(path for path in child_logs(world.storage, world.resize) if path.startswith("part=p0"))
    body = world.storage.get(lost)
    world.opened(actor="builder").indexing.run(partitions=EVERY)
    world.table.ingest(rows(("k0", "p0", 7, 3, None)), operation="insert_overwrite")
    done = run_plan(world.table, world.resize)
    assert (done.splits, done.left_out) == (1, 1)
    world.model = {
        key: 7 if key == "k0" else value for key, value in world.model.items() if key == "k0" or int(key[1:]) % 2
    }
    assert verify_table(world.storage, deep=True, index=True, clock=world.clock).findings == ()
    assert by_key(world.opened(actor="reader")) == world.model
    world.storage.put(lost, body)  # an executor that died could have left it
    (left,) = verify_table(world.storage, deep=True, clock=world.clock).findings
    assert (left.severity, left.invariant, left.where) == ("error", "resize-log-left", lost)
    assert left.what.startswith(f"the resize {world.resize} left this bucket out")


def test_log_file_of_a_failed_write_beside_a_resize_is_no_damage_of_an_index(world: World) -> None:
    world.opened().indexing.run(partitions=list(EVERY))
    table = world.opened()
    path = child_logs(world.storage, world.resize)[0]
    writer = table._session.loader.load().timeline.completed_writes[-1].time
    failed = f"{int(writer) + 1:017d}"  # on no timeline: its writer failed, and was rolled back
    name, body = f"{path.rpartition('.log.')[0]}.log.9_0-77-78", world.storage.get(path)
    assert writer.encode() in body
    run_plan(table, world.resize)
    world.check()
    world.storage.put(name, body.replace(writer.encode(), failed.encode()))
    found = verify_table(world.storage, deep=True, index=True, clock=world.clock).findings
    assert [str(one) for one in found if one.severity == "error"] == []
    assert by_key(world.opened(actor="reader"), listing="storage") == world.model

"""Resizes beside compactions, cleans, savepoints and restores: the table shows the rows of a model, and nothing is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.services.resize.hand_plans import Wanted, plan_of_nodes, run_plan
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, by_key, made, rows, table_of

FIRST = {f"k{n}": 100 + n for n in range(40)}


class World:
    """A table of two partitions with four buckets each, one of which is to be split, and its rows."""

    def __init__(self, *, metadata: bool) -> None:
        definition = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=4, buckets_max=16, metadata=metadata)
        self.clock = ManualClock(NOW_MS, tick_ms=1)
        self.storage: MemoryStorage = made(definition, rows(*_rows(FIRST, 1)))
        self.model = dict(FIRST)
        self.time = 1

    @property
    def table(self) -> Table:
        return table_of(self.storage, self.clock, "one", upkeep=BY_HAND)

    def upsert(self, first: int, last: int) -> str:
        self.time += 1
        new = {f"k{n}": self.time * 1000 + n for n in range(first, last)}
        self.model |= new
        instant = self.table.ingest(rows(*_rows(new, self.time))).instant
        assert instant is not None
        return instant

    def check(self, model: dict[str, int] | None = None) -> None:
        assert by_key(self.table) == (self.model if model is None else model)
        assert verify_table(self.storage, deep=True, index=True, clock=self.clock).findings == ()


def _rows(values: dict[str, int], time: int) -> list[Any]:
    return [(key, f"p{int(key[1:]) % 2}", value, time, None) for key, value in values.items()]


@pytest.fixture(params=[False, True], ids=["no metadata", "metadata"])
def world(request: pytest.FixtureRequest) -> World:
    return World(metadata=request.param)


def test_children_are_compacted_and_cleaned_with_what_writers_put_there(world: World) -> None:
    plan_of_nodes(world.table, Wanted((1,)))
    world.upsert(20, 60)
    world.upsert(0, 10)
    run_plan(world.table)
    world.check()
    world.upsert(5, 15)
    assert world.table.compaction.run().instant is not None
    world.check()
    assert world.table.clean.run(retain=1).deleted > 0
    world.check()
    world.upsert(0, 70)
    world.check()


def test_a_compaction_plan_keeps_a_resize_off_its_groups(world: World) -> None:
    world.upsert(0, 40)
    world.table.compaction.plan()
    planned = world.table.resize.plan(split_bytes=1, merge_bytes=0)
    assert planned.instant is None
    assert planned.counts["in a pending plan"] == 8
    world.table.compaction.execute()
    assert world.table.resize.plan(split_bytes=1, merge_bytes=0).instant is not None
    world.upsert(0, 40)
    planned = world.table.compaction.plan()
    assert (planned.counts["planned"], planned.counts["in a pending plan"]) == (4, 4)
    world.check()


@pytest.mark.parametrize("executed", [False, True], ids=["pending", "completed"])
def test_a_restore_undoes_a_resize_and_what_was_written_beside_it(world: World, executed: bool) -> None:
    world.table.savepoints.create()
    plan_of_nodes(world.table, Wanted((1,)))
    world.upsert(20, 60)
    if executed:
        run_plan(world.table)
        world.upsert(5, 15)
    world.check()
    world.table.savepoints.restore()
    world.model = dict(FIRST)
    world.check()
    world.upsert(5, 50)
    world.check()


def test_a_restore_to_a_write_beside_a_resize_keeps_its_rows(world: World) -> None:
    plan_of_nodes(world.table, Wanted((1,)))
    world.upsert(20, 60)
    world.table.savepoints.create()
    saved = dict(world.model)
    run_plan(world.table)
    world.upsert(5, 15)
    world.table.savepoints.restore()
    world.model = saved
    world.check()
    world.upsert(5, 50)
    world.check()

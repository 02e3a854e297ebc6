"""Child logs whose write was undone, or that an executor deleted before it died: no row comes back, and none is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.names import requested_name
from tests.fault_plans import DiesBefore
from tests.services.resize.hand_plans import P1, Wanted, plan_of_nodes, run_plan
from tests.services.resize.modelled import KEYS, Modelled, numbered
from tests.services.resize.ringed_tables import CONSISTENT, hashes_of

SLOT = "put:.hoodie/.commit_log/payload"


@pytest.mark.parametrize("metadata", [False, True], ids=["no metadata", "metadata"])
@pytest.mark.parametrize("is_executed_first", [False, True], ids=["executed afterwards", "executed before"])
def test_rows_that_a_restore_undid_do_not_come_back_with_the_resize(metadata: bool, is_executed_first: bool) -> None:
    table = Modelled(replace(CONSISTENT, metadata=metadata))
    resize = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((1, 2)))
    table.write(numbered(KEYS, 100))
    savepoint, saved = table.open().savepoints.create().instant, dict(table.rows)
    table.write(numbered(KEYS, 5000))
    if is_executed_first:
        run_plan(table.open("executor"), resize)
    table.open("user").savepoints.restore(savepoint)
    table.rows = saved
    table.check()
    if not is_executed_first:
        run_plan(table.open("executor"), resize)
    table.check()
    table.open().savepoints.delete(str(savepoint))
    for value in range(5):
        table.write({"k30": value})
    keeper = table.open("keeper")
    keeper.clean.run(retain=1)
    keeper.archive.run(keep_min=2, keep_max=3)
    table.check()


def test_a_group_that_a_dead_executor_left_out_stays_left_out_although_the_cause_was_undone() -> None:
    table = Modelled(replace(CONSISTENT, metadata=False), numbered(range(24)))
    resize = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1))
    table.write(numbered(range(24), 100))
    table.write(numbered(range(200, 220, 2), 100))
    savepoint, saved = table.open().savepoints.create().instant, dict(table.rows)
    table.overwrite({"k0": 9000})
    with pytest.raises(Crash):
        run_plan(table.open("executor", FaultyStorage(table.storage, DiesBefore(SLOT))), resize)
    table.clock.advance_ms(1_000_000)
    table.open("user").savepoints.restore(savepoint)
    table.rows = saved
    table.check()
    done = run_plan(table.open("other executor"), resize)
    assert (done.groups, done.left_out) == (1, 2)
    table.check()


def test_a_plan_that_was_away_for_a_moment_is_a_resize_again() -> None:
    table = Modelled(replace(CONSISTENT, metadata=False), numbered(range(24)))
    resize = plan_of_nodes(table.open("planner"), Wanted((0,)))
    session = table.open("long")._session
    state = session.loader.load()
    path = state.timeline.path(requested_name(resize, "clustering"))
    body = table.storage.get(path)
    table.storage.delete(path)
    assert session.resizes.pending(state) == []
    assert session.resizes.unread(state) == [resize]
    table.storage.put(path, body)
    assert [one.instant for one in session.resizes.pending(session.loader.load())] == [resize]


class SiblingWrites:
    """A plan without faults: before each child log of a write another one completes in a parent of the same child."""

    def __init__(self, table: Modelled, resize: str, keys: list[str]) -> None:
        self.table, self.mark, self.keys = table, f"_{resize}.log.", keys
        self.count, self.is_writing = 0, False

    def fault_at(self, number: int, point: str) -> None:
        if self.is_writing or not (point.startswith("put:part=p0/.") and self.mark in point):
            return
        self.is_writing, self.count = True, self.count + 1
        self.table.write(dict.fromkeys(self.keys, 1000 + self.count), actor="fast")
        self.is_writing = False


def test_a_write_that_lost_its_version_goes_far_ahead_of_the_others() -> None:
    keys = [f"k{n}" for n in range(0, 40, 2)]
    table = Modelled(replace(CONSISTENT, metadata=False), dict.fromkeys(keys, 0))
    nodes = dict(zip(keys, table.ring().nodes_of(hashes_of(keys)).tolist(), strict=True))
    resize = plan_of_nodes(table.open("planner"), Wanted((1, 2)))
    siblings = SiblingWrites(table, resize, [key for key, node in nodes.items() if node == 2])
    mine = dict.fromkeys([key for key, node in nodes.items() if node == 1], 77)
    table.write(mine, FaultyStorage(table.storage, siblings), actor="slow")
    assert 0 < siblings.count <= 3
    table.check()
    run_plan(table.open("executor"), resize)
    table.check()

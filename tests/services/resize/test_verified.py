"""What `verify` says beside a resize: a dead writer or executor leaves files and gaps that are no damage."""

from __future__ import annotations

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.services.resize.hand_plans import P0, P1, Wanted, plan_of_nodes, run_plan
from tests.services.resize.modelled import KEYS, Modelled, numbered

SLOT = "put:.hoodie/.commit_log/payload"


def found(table: Modelled) -> list[tuple[str, str]]:
    return [(one.severity, one.invariant) for one in verify_table(table.storage, deep=True, clock=table.clock).findings]


def test_the_child_logs_of_a_write_that_still_works_are_no_leftovers_of_the_completed_resize() -> None:
    """Readers skip their blocks, and the rollback of the write deletes them."""
    table = Modelled()
    instant = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((1, 2)))
    with pytest.raises(Crash):
        table.open("writer", FaultyStorage(table.storage, DiesBefore(SLOT))).ingest(table.batch(numbered(KEYS, 100)))
    logs = table.logs(instant)
    assert logs
    run_plan(table.open("executor"), instant)
    assert table.logs(instant) == logs
    assert found(table) == []
    table.check()
    table.settle()
    assert table.logs(instant) == []


def test_a_child_log_that_its_completed_write_does_not_name_is_a_leftover() -> None:
    table = Modelled()
    instant = plan_of_nodes(table.open("planner"), Wanted((0,)))
    table.write(numbered(KEYS, 100))
    run_plan(table.open("executor"), instant)
    log = table.logs(instant)[0]
    table.storage.put(log.replace(".log.", ".log.9"), table.storage.get(log))
    assert found(table) == [("error", "leftover-visible")]


def test_child_logs_of_a_group_that_an_executor_left_out_before_it_died_are_not_missed() -> None:
    """Every later executor leaves the group out, too."""
    table = Modelled(values=numbered(range(24)))
    instant = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((1, 2), P1))
    table.write(numbered(range(24), 100))
    both = table.logs(instant)
    table.overwrite(numbered(KEYS, 300))
    with pytest.raises(Crash):
        run_plan(table.open("executor", FaultyStorage(table.storage, DiesBefore(SLOT))), instant)
    left = table.logs(instant)
    assert {path.partition("/")[0] for path in both} == {P0, P1}
    assert {path.partition("/")[0] for path in left} == {P1}
    assert found(table) == []
    lost = left[0]
    body = table.storage.get(lost)
    table.storage.delete(lost)
    assert found(table) == [("error", "file-missing")], "one that the plan still needs"
    table.storage.put(lost, body)
    table.clock.advance_ms(EXPIRY_MS + 1_000)
    assert run_plan(table.open("executor"), instant).left_out == 1
    table.settle()

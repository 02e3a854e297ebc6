"""What plans, dual writes and executions of a resize ask of storage under the lock: a fixed number of small calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.transaction import Decided, Prepare
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from tests.services.resize.hand_plans import P0, P1, Wanted, child_logs, plan_of_nodes, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, opened
from tests.tables import NOW_MS, made, rows

CALLS_MAX = 12
"""Of one decision without its metadata table; those of a ring and of its `.commit` file are among them."""
CALLS_OF_A_RING = 3
METADATA = (".hoodie/metadata/", "/metadata-")
"""Paths of the metadata table, and of a delta that waits to be applied to it."""
KEYS = range(32)


def batch(value: int, part: int | None = None) -> Any:
    return rows(*((f"k{n}", f"p{n % 2}", value + n, value, None) for n in KEYS if part in {None, n % 2}))


@pytest.fixture(params=[False, True], ids=["plain", "metadata"])
def storage(request: pytest.FixtureRequest) -> FaultyStorage:
    return FaultyStorage(made(replace(CONSISTENT, metadata=request.param), batch(1)))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, storage: FaultyStorage) -> list[list[str]]:
    """The calls of each decision."""
    found: list[list[str]] = []
    decide = Session.decide

    def counting(session: Session, prepare: Prepare, purpose: str) -> Decided | None:
        before = storage.operations
        decided = decide(session, prepare, purpose)
        found.append(list(storage.history[before:]))
        return decided

    monkeypatch.setattr(Session, "decide", counting)
    return found


def assert_few(counted: list[list[str]], what: str, further: int = 0) -> None:
    assert counted
    for calls in counted:
        outside = [call for call in calls if not any(part in call for part in METADATA)]
        print(
            f"{what}: {len(outside)} storage calls under the lock, {len(calls) - len(outside)} for the metadata table"
        )
        assert len(outside) <= CALLS_MAX + further, outside
    paths = [call.partition(":")[2] for calls in counted for call in calls]
    assert all(path.startswith(".hoodie/") for path in paths), "no data file is touched, and no partition listed"
    assert not any(".bucket_index" in call for calls in counted for call in calls if "list" in call)


def test_planning_a_resize_decides_in_few_calls(storage: FaultyStorage, counted: list[list[str]]) -> None:
    table = opened(storage)
    planned = table.resize.plan(split_bytes=1, merge_bytes=0, split_point="middle")
    assert len(planned.planned) > 1
    assert_few(counted, "a plan")


@pytest.mark.parametrize("keeps_open", [False, True], ids=["new writer", "open writer"])
def test_a_write_into_parents_and_children_decides_in_few_calls(
    storage: FaultyStorage, counted: list[list[str]], keeps_open: bool
) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    opened(storage, "writer", clock).ingest(batch(30))
    (plain,) = counted
    plan = plan_of_nodes(opened(storage, clock=clock), Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1))
    writer = opened(storage, "writer", clock)
    if keeps_open:
        writer.ingest(batch(50))
    counted.clear()
    writer.ingest(batch(100))
    assert child_logs(storage, plan)
    assert_few(counted, "a write")
    assert len(counted[0]) == len(plain), "it asks for no more than a write without children"


def test_a_write_that_meets_the_resize_late_decides_in_few_calls(
    storage: FaultyStorage, counted: list[list[str]]
) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    planner = opened(storage, clock=clock)
    writer = opened(storage, "writer", clock)
    plans: list[str] = []
    before_write(writer, lambda: plans.append(plan_of_nodes(planner, Wanted((0,)), Wanted((1, 2)))), counted)
    writer.ingest(batch(100))
    assert child_logs(storage, plans[0])
    assert len(counted) > 1, "it gave the lock up, wrote the child logs, and decided again"
    assert_few(counted, "a late write")


def before_write(table: Table, do: Callable[[], object], counted: list[list[str]]) -> None:
    """Do something in another process just before the table's next decision of a completion."""
    session = table._session
    decide = session.decide

    def first(prepare: Prepare, purpose: str) -> Decided | None:
        if purpose.startswith("upsert"):
            session.decide = decide  # type: ignore[method-assign]
            do()
            counted.clear()
        return decide(prepare, purpose)

    session.decide = first  # type: ignore[method-assign]


@pytest.mark.parametrize("partitions", [1, 2])
def test_completing_a_resize_decides_in_few_calls(
    storage: FaultyStorage, counted: list[list[str]], partitions: int
) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    wanted = [Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1)]
    plan = plan_of_nodes(
        opened(storage, clock=clock), *[one for one in wanted if partitions == 2 or one.partition == P0]
    )
    writer = opened(storage, "writer", clock)
    for value in (100, 200):
        writer.ingest(batch(value))
    counted.clear()
    done = run_plan(opened(storage, "executor", clock), plan)
    assert done.left_out == 0
    assert_few(counted[1:], "a completion", CALLS_OF_A_RING * (partitions - 1))

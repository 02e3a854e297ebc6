"""A metadata build beside a pending resize lists the log files of its child groups, whatever becomes of the resize meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import Busy
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.plans import RollbackPlan
from hudi_ops.verify import Report, verify_table
from tests.fault_plans import MoveBefore
from tests.tables import BY_HAND, NOW_MS, table_of

RESIZE = "20261121021917676"
PLAN = f".hoodie/timeline/{RESIZE}.clustering.requested"
EVERY = ("files", "column_stats", "partition_stats", "bloom_filters")
FILES, CHILD_LOGS = 17, 7
"""Log files that completed writes name, and those of them under the instant of the resize."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


@pytest.fixture
def storage(hudi_fixtures: Callable[[str], Path], clock: ManualClock) -> MemoryStorage:
    """A table whose resize Apache Hudi planned, and for which its writers wrote twice."""
    source = open_storage(str(hudi_fixtures("v9_bucket_consistent_pending_resize")))
    found = MemoryStorage("resized", clock)
    for info in source.list():
        found.put(info.path, source.get(info.path))
    return found


def opened(storage: Any, clock: ManualClock, actor: str = "builder") -> Table:
    return table_of(storage, clock, actor, AdoptionOptions(timezone="UTC", services_only=True), upkeep=BY_HAND)


def rows(table: Table, listing: str) -> pa.Table:
    return table.read(listing=listing).sort_by([("id", "ascending")])


def checked(storage: MemoryStorage, clock: ManualClock) -> Report:
    """A report without findings, but for the plan of another program."""
    report = verify_table(storage, deep=True, index=True, clock=clock)
    assert {one.invariant for one in report.findings} <= {"foreign-plan"}, report.findings
    return report


def test_the_build_has_the_child_logs_of_completed_writes(storage: MemoryStorage, clock: ManualClock) -> None:
    table = opened(storage, clock)
    before = rows(table, "storage")
    stray = f"p=a/.0cb622b3-e9c9-450c-af1d-faa0033e8363-0_{RESIZE}.log.1_9-9-9"  # of a writer that did not complete
    storage.put(stray, storage.get(next(info.path for info in storage.list("p=a") if RESIZE in info.name)))
    built = table.indexing.run(partitions=EVERY)
    assert (built.files, built.records["column_stats"]) == (FILES, FILES * 7)
    storage.delete(stray)
    assert checked(storage, clock).checks["files in the metadata table"] == FILES
    assert rows(opened(storage, clock, "reader"), "metadata").equals(before)


def test_an_abort_takes_them_out_of_the_built_partitions(storage: MemoryStorage, clock: ManualClock) -> None:
    table = opened(storage, clock)
    before = rows(table, "storage")
    table.indexing.run(partitions=EVERY)
    table.cancel(RESIZE, "not needed", force=True)
    assert checked(storage, clock).checks["files in the metadata table"] == FILES - CHILD_LOGS
    assert rows(table, "metadata").equals(before)


@pytest.mark.parametrize(
    "point", [":.hoodie/metadata/files/", "put:.hoodie/.index_defs", ":.hoodie/metadata/column_stats/"]
)
def test_an_abort_during_the_build_is_found_before_it_is_decided(
    storage: MemoryStorage, clock: ManualClock, point: str
) -> None:
    plan = MoveBefore(point, lambda: opened(storage, clock, "canceller").cancel(RESIZE, "not needed", force=True))
    built = opened(FaultyStorage(storage, plan), clock).indexing.run(partitions=EVERY)
    assert plan.moved
    assert (built.files, built.rounds) == (FILES, 1)
    assert checked(storage, clock).checks["files in the metadata table"] == FILES - CHILD_LOGS
    assert rows(opened(storage, clock, "reader"), "metadata").num_rows


def test_a_cancelled_resize_that_is_not_removed_is_waited_for(storage: MemoryStorage, clock: ManualClock) -> None:
    table = opened(storage, clock)
    table.cancel(RESIZE, "not needed", force=True, request_only=True)
    with pytest.raises(Busy, match="a resize is being undone") as refused:
        table.indexing.run(partitions=EVERY)
    assert (refused.value.instant, refused.value.found) == (RESIZE, "a cancelled one")
    assert f"hudi-ops cancel TABLE {RESIZE}" in refused.value.next_step
    table.execute_cancel(RESIZE)
    assert table.indexing.run(partitions=EVERY).files == FILES - CHILD_LOGS


def test_a_resize_that_is_rolled_back_is_waited_for(
    storage: MemoryStorage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(storage, clock)
    table.adopt()
    rollback = "20261121022000000"
    storage.put(f".hoodie/timeline/{rollback}.rollback.requested", b"a plan")
    from hudi_ops.services.indexing import wanted

    real = wanted.read_plan
    monkeypatch.setattr(
        wanted,
        "read_plan",
        lambda *given: RollbackPlan(RESIZE, "clustering", {}) if given[2].kind == "rollback" else real(*given),
    )
    with pytest.raises(Busy, match="a resize is being undone") as refused:
        wanted.refuse_unbuildable(table._session, table._session.loader.load())
    assert refused.value.found == f"its pending rollback {rollback}"


def test_a_resize_by_an_unknown_strategy_is_waited_for(storage: MemoryStorage, clock: ManualClock) -> None:
    body = storage.get(PLAN)
    storage.put(PLAN, body.replace(b"ClusteringExecutionStrategy", b"ClusteringExecutionStrategX"))
    with pytest.raises(Busy, match="by an unknown strategy") as refused:
        opened(storage, clock).indexing.run(partitions=EVERY)
    assert refused.value.found.endswith("StrategX")

"""Clustering plans of other programs: strategies that we execute as they are meant, and those that we refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import PlannedGroup, PlannedSlice, ReplacePlan
from hudi_ops.timeline.names import requested_name
from tests.tables import BY_HAND, DEFINITION, NOW_MS, TIMELINE, by_key, made, rows, table_of

STRATEGIES = "org.apache.hudi.client.clustering.run.strategy."
INSTANT = "20300317174800000"
ROWS = rows(*((f"k{n}", "p0", n * 5 % 8, 1, None) for n in range(8)))


def with_plan(strategy: str) -> tuple[MemoryStorage, Table]:
    """A table with a pending plan that the commit log does not know, with URIs of another place."""
    storage = made(replace(DEFINITION, index="bloom"), ROWS)
    (path,) = (info.path for info in storage.list() if info.path.endswith(".parquet"))
    partition, _, file = path.rpartition("/")
    name = parse_data_file(file)
    assert name is not None
    group = PlannedGroup((PlannedSlice(partition, name.file_id, f"file:/elsewhere/{path}", ()),))
    plan = ReplacePlan("CLUSTER", (group,), strategy, {"hoodie.clustering.plan.strategy.sort.columns": "value"})
    storage.put(f"{TIMELINE}/{requested_name(INSTANT, 'clustering')}", encode_clustering(plan))
    return storage, table_of(storage, ManualClock(NOW_MS, tick_ms=1), "clusterer", upkeep=BY_HAND)


def contents(storage: MemoryStorage) -> dict[str, bytes]:
    return {info.path: bytes(storage.get(info.path)) for info in storage.list()}


@pytest.mark.parametrize("name", ["SparkSortAndSizeExecutionStrategy", "JavaSortAndSizeExecutionStrategy"])
def test_known_strategy_is_executed_in_the_order_of_the_plan(name: str) -> None:
    _, table = with_plan(STRATEGIES + name)
    done = table.clustering.execute(instant=INSTANT)
    assert (done.groups, done.rows) == (1, 8)
    assert table.read(["value"])["value"].to_pylist() == sorted(by_key(table).values()) == [*range(8)]


@pytest.mark.parametrize("strategy", ["com.example.OwnExecutionStrategy", f"{STRATEGIES}Other", ""])
def test_unknown_strategy_is_refused_by_name_and_changes_nothing(strategy: str) -> None:
    storage, table = with_plan(strategy)
    before = contents(storage)
    with pytest.raises(Unsupported, match=strategy or "names no execution strategy") as caught:
        table.clustering.execute(instant=INSTANT)
    assert INSTANT in str(caught.value)
    assert "SparkSortAndSizeExecutionStrategy" in str(caught.value)
    assert contents(storage) == before

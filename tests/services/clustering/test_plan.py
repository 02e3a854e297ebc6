"""What a clustering plans: which files, in which groups, and why others are left out; wrong requests change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.config.write_settings import FileSizes
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.choice import Reason
from hudi_ops.services.base.cost import TaskSize, memory_of
from hudi_ops.services.clustering.choose import LeftReason
from hudi_ops.services.clustering.layout import ORDER_KEY, SORT_AND_SIZE, SORT_COLUMNS_KEY, SORT_IN_FILE
from hudi_ops.services.clustering.service import CLUSTERING
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.view.partition_values import constant_fields
from tests.definitions import Definition
from tests.protocol.log_actors import timeline_of
from tests.tables import BY_RECORD_INDEX, DEFINITION, MERGE_ON_READ, NOW_MS, made, rows, table_of

LOOKED_UP = replace(BY_RECORD_INDEX, index="bloom", metadata=False)
"""A table in which new keys may go to any file."""
LARGE_ROWS = 2_000
NESTED = pa.schema([("id", pa.string()), ("part", pa.string()), ("tags", pa.list_(pa.string()))])


def batch(first: int, count: int, part: str = "p0") -> pa.Table:
    return rows(*((f"{part}-{n:04d}", part, n * 7 % 100, 1, None) for n in range(first, first + count)))


def with_files(definition: Definition, *counts: int) -> MemoryStorage:
    """A table of one partition, with a file for each count of rows."""
    storage = made(definition)
    table = table_of(storage, ManualClock(NOW_MS - 40_000, tick_ms=1), "writer", file_sizes=FileSizes(small_bytes=0))
    first = 0
    for count in counts:
        table.ingest(batch(first, count), "bulk_insert")
        first += count
    return storage


def planner(storage: MemoryStorage) -> Any:
    return table_of(storage, ManualClock(NOW_MS, tick_ms=1), "planner").clustering


def sizes(storage: MemoryStorage) -> list[int]:
    return sorted(info.size_bytes for info in storage.list() if info.path.endswith(".parquet"))


def plan_of(storage: MemoryStorage) -> ReplacePlan:
    timeline = timeline_of(storage)
    (pending,) = timeline.pending
    plan = read_plan(storage, timeline, pending)
    assert isinstance(plan, ReplacePlan)
    return plan


def test_small_files_are_merged_and_a_large_one_stays() -> None:
    storage = with_files(LOOKED_UP, 10, 20, LARGE_ROWS, 30)
    limit = sizes(storage)[-1]
    made_plan = planner(storage).plan(small_bytes=limit, target_bytes=4 * limit)
    assert made_plan.counts[Reason.PLANNED] == 3
    assert made_plan.counts[LeftReason.LARGE] == 1
    assert (
        made_plan.note
        == "3 file groups into 1; left out: 1 file group with files above the small file limit ({})".format(
            next(f"part=p0/{one.file_id}: {one.why}" for one in made_plan.verdicts if one.reason == LeftReason.LARGE)
        )
    )
    plan = plan_of(storage)
    assert [(len(group.slices), group.outputs) for group in plan.groups] == [(3, 1)]
    assert (plan.strategy, plan.operation) == (SORT_AND_SIZE, "CLUSTER")
    assert SORT_COLUMNS_KEY not in plan.strategy_params


def test_a_sort_by_partition_columns_alone_is_refused() -> None:
    """All rows of a file have the same value; a key generator that derives the path from it leaves an order to sort by."""
    storage = with_files(LOOKED_UP, 10, 20)
    with pytest.raises(InvalidRequest, match="all rows of a partition have the same part"):
        planner(storage).explain(sort_by=["part"], rewrite=True)
    assert planner(storage).explain(sort_by=["part", "value"]).planned
    config = load_config(storage)
    assert constant_fields(config) == {"part"}
    assert constant_fields(config.model_copy(update={"key_generator": "TIMESTAMP"})) == frozenset()


def test_files_that_stay_as_many_are_not_merged() -> None:
    storage = with_files(LOOKED_UP, 10, 20)
    small, large = sizes(storage)
    found = planner(storage).explain(small_bytes=large + 1, target_bytes=max(large + 1, (small + large) * 2 // 3))
    assert found.counts[LeftReason.ALONE] == 2
    assert found.note.startswith("nothing to cluster: 2 file groups with no other small file to merge with (part=p0/")
    assert planner(with_files(LOOKED_UP, 10)).explain().counts[LeftReason.ALONE] == 1


def test_a_sort_takes_every_file_that_is_not_in_the_order_yet() -> None:
    storage = with_files(LOOKED_UP, 10, LARGE_ROWS)
    target = sum(sizes(storage)) // 2 + 1
    made_plan = planner(storage).plan(sort_by="value", target_bytes=target)
    assert (made_plan.note, made_plan.strategy) == ("2 file groups into 2, sorted by value", "linear")
    plan = plan_of(storage)
    assert json.loads(plan.strategy_params[ORDER_KEY]) == {"order": "linear", "columns": ["value"]}
    assert plan.strategy_params[SORT_COLUMNS_KEY] == "value"
    done = planner(storage).execute()
    assert (done.groups, done.replaced, done.files) == (1, 2, 2)
    again = planner(storage).explain(sort_by=["value"], target_bytes=target)
    assert again.counts[LeftReason.ORDERED] == 2
    assert again.note.startswith("nothing to cluster: 2 file groups with rows in this order already")
    assert planner(storage).explain(sort_by=["value"], rewrite=True).counts[Reason.PLANNED] == 2
    assert planner(storage).explain(sort_by=["ts"]).counts[Reason.PLANNED] == 2
    assert planner(storage).explain(sort_by=["value", "ts"], order="z-order").counts[Reason.PLANNED] == 2


def test_new_files_join_the_small_sorted_ones() -> None:
    storage = with_files(LOOKED_UP, 10)
    planner(storage).run(sort_by=["value"])
    table = table_of(storage, ManualClock(NOW_MS + 10_000, tick_ms=1), "writer", file_sizes=FileSizes(small_bytes=0))
    table.ingest(batch(500, 5), "bulk_insert")
    found = table.clustering.explain(sort_by=["value"])
    assert found.note == "2 file groups into 1, sorted by value"


def test_the_footer_says_the_order_of_files_whose_writer_was_archived() -> None:
    storage = with_files(LOOKED_UP, 10, 20)
    clock = ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer", file_sizes=FileSizes(small_bytes=0))
    instant = table.clustering.run(sort_by=["value"]).instant
    for n in range(4):
        table.ingest(batch(0, 2, f"p{n + 1}"), "bulk_insert")
    table.clean.run(policy="versions", retain=1)
    table.archive.run(keep_min=1, keep_max=1)
    assert timeline_of(storage).find(instant) is None
    found = table.clustering.explain(sort_by=["value"], partitions=["part=p0"])
    assert (found.counts[Reason.PLANNED], found.counts[LeftReason.ORDERED]) == (0, 1)


def test_groups_hold_so_many_bytes_and_plans_too() -> None:
    storage = with_files(LOOKED_UP, 10, 10, 10, 10)
    one = sizes(storage)[-1]
    planner(storage).plan(sort_by=["value"], group_bytes=2 * one + one // 2, target_bytes=one, small_bytes=one)
    assert [(len(group.slices), group.outputs) for group in plan_of(storage).groups] == [(2, 2), (2, 2)]
    found = planner(with_files(LOOKED_UP, 10, 10)).explain(
        sort_by=["value"], group_bytes=one, target_bytes=one, small_bytes=one, max_bytes=1
    )
    assert (found.counts[Reason.PLANNED], found.counts[Reason.BEYOND_LIMIT]) == (1, 1)


def test_partitions_are_never_mixed() -> None:
    storage = made(LOOKED_UP)
    table = table_of(storage, ManualClock(NOW_MS - 40_000, tick_ms=1), "writer", file_sizes=FileSizes(small_bytes=0))
    for part in ("p0", "p1", "p0", "p1"):
        table.ingest(batch(len(sizes(storage)) * 10, 5, part), "bulk_insert")
    planner(storage).plan(partitions=["part=p1"])
    assert [{one.partition_path for one in group.slices} for group in plan_of(storage).groups] == [{"part=p1"}]
    found = planner(storage).explain()
    assert (found.counts[Reason.PLANNED], found.counts[Reason.PENDING]) == (2, 2)


def test_the_files_of_buckets_are_sorted_one_by_one() -> None:
    storage = made(DEFINITION, batch(0, 40), batch(0, 40, "p1"))
    assert planner(storage).plan(sort_by="value").note == "4 file groups into 4, sorted by value"
    plan = plan_of(storage)
    assert plan.strategy == SORT_IN_FILE
    assert [(len(group.slices), group.outputs) for group in plan.groups] == [(1, 1)] * 4


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        ({"sort_by": ["nothing"]}, "no column 'nothing' to sort by"),
        ({"sort_by": ["tags"]}, "column 'tags' is nested"),
        ({"sort_by": ["id", "id"]}, "sort column 'id' is given twice"),
        ({"order": "linear"}, "order linear is given without sort columns"),
        ({"order": "none", "sort_by": ["id"]}, "order none is given with sort columns"),
        ({"order": "spiral", "sort_by": ["id"]}, "unknown order 'spiral'"),
        ({"order": "hilbert", "sort_by": [f"c{n}" for n in range(9)]}, "too many sort columns"),
        ({"small_bytes": 11, "target_bytes": 10}, "small_bytes is above target_bytes"),
        ({"group_bytes": 9, "target_bytes": 10}, "group_bytes is below target_bytes"),
        ({"target_bytes": 0}, "target_bytes is below 1"),
        ({"partitions": ["p9"]}, "p9"),
        ({"cancel": "sometimes"}, "cancel cannot be 'sometimes'"),
        ({"on_overlap": "pass"}, "on_overlap cannot be 'pass'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_request_changes_nothing(request_: dict[str, Any], what: str) -> None:
    storage = made(replace(LOOKED_UP, schema=NESTED, ordering=None))
    row = pa.Table.from_pylist([{"id": "a", "part": "p0", "tags": ["x"]}], schema=NESTED)
    table_of(storage, ManualClock(NOW_MS - 9_000, tick_ms=1), "writer").ingest(row)
    before = storage.list()
    with pytest.raises(InvalidRequest, match=what):
        planner(storage).plan(**request_)
    assert storage.list() == before


def test_buckets_cannot_be_merged() -> None:
    storage = made(DEFINITION, batch(0, 4))
    before = storage.list()
    with pytest.raises(InvalidRequest, match="a file for each bucket, which cannot be merged"):
        planner(storage).run()
    assert storage.list() == before


def test_the_estimate_of_memory_keeps_to_the_limit() -> None:
    large, small = 300 << 20, 10 << 20

    def memory(threads: int, memory_bytes: int | None = None) -> int | None:
        sizes = [TaskSize(size, size) for size in (large, small)]
        return CLUSTERING.rates.cost(sizes, LocalEngine(threads), memory_bytes).memory_bytes

    assert memory(2) == memory_of(large) + memory_of(small)
    assert memory(2, 1 << 30) == (1 << 30) + memory_of(small), "the first is sorted on disk"
    assert memory(1, 1 << 30) == 1 << 30


@pytest.mark.parametrize("index", ["bloom", "simple_bucket"])
def test_groups_whose_log_files_broke_the_order_are_sorted_again(index: str) -> None:
    storage, clock = made(replace(MERGE_ON_READ, index=index)), ManualClock(NOW_MS, tick_ms=1)

    def table(actor: str) -> Table:
        return table_of(storage, clock, actor)

    table("writer").ingest(rows(*((f"k{number:02}", "p0", number, 1, None) for number in range(20))))
    done = table("executor").clustering.run(sort_by=["value"], rewrite=True)
    assert table("planner").clustering.explain(sort_by=["value"]).planned == ()
    table("writer").ingest(rows(*((f"k{number:02}", "p0", 1_000 - number, 2, None) for number in range(20))))
    again = table("executor").clustering.run(sort_by=["value"])
    assert (again.replaced, again.rows) == (done.replaced, 20)
    assert table("planner").clustering.explain(sort_by=["value"]).planned == ()

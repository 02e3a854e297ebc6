"""The task of a clustering: rows, order, cuts, statistics and bytes of the files that it writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.config.columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, RECORD_KEY
from hudi_ops.engine.stopping import checked_by
from hudi_ops.errors import Cancelled
from hudi_ops.files.base.base_file import BaseFileReader, stored_schema
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.kernels.sorting.order import UNSORTED, SortOrder
from hudi_ops.services.base.slices import live_slices, merging_of
from hudi_ops.services.clustering.tasks import ClusterTask, cluster_group
from hudi_ops.services.rewrite.task import RewrittenGroup
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.view.schema import table_schema
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, made, rows, table_of

INSTANT = "20300317180000000"
BY_VALUE = SortOrder("linear", ("value", "id"))
ORDERS = [BY_VALUE, SortOrder("z-order", ("value", "id")), SortOrder("hilbert", ("value", "id")), UNSORTED]
EVERYTHING = StatisticsRequest(("value", RECORD_KEY), bloom=True, keys=True)
TINY = 1 << 15
"""Memory in which no group fits: it is sorted on disk."""
KEPT = ["id", "value", "ts", COMMIT_TIME, COMMIT_SEQNO]
ROWS = rows(*((f"k{n:03d}", "p0", n * 37 % 150 if n % 7 else None, 1, None) for n in range(300)))
UPDATES = rows(*((f"k{n:03d}", "p0", n, 2, n % 2 == 0) for n in range(40)), ("new", "p0", 7, 2, None))


def task_of(storage: MemoryStorage, **changes: Any) -> ClusterTask:
    """The task that rewrites all slices of the table's one partition."""
    session = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "clusterer")._session
    state = session.loader.load()
    schema = table_schema(state.config, state.timeline, session.commits)
    merging = merging_of(state, schema)
    task = ClusterTask(
        storage=storage,
        table_name=state.config.name,
        partition_path="p0",
        sources=tuple(live_slices(session, state)),
        merging=merging,
        stored=stored_schema(schema, merging[0].keys is None),
        order=BY_VALUE,
        outputs=("out-0",),
        instant=INSTANT,
        epoch=1,
        number=3,
        memory_bytes=1 << 30,
    )
    return replace(task, **changes)


@pytest.fixture(scope="module", params=["base files", "log files"])
def table(request: pytest.FixtureRequest) -> MemoryStorage:
    return made(DEFINITION if request.param == "base files" else MERGE_ON_READ, ROWS, UPDATES)


@pytest.fixture
def storage(table: MemoryStorage) -> MemoryStorage:
    return table.copy()


def written(storage: MemoryStorage, done: RewrittenGroup) -> pa.Table:
    """The rows of all files, in their order."""
    return pa.concat_tables([BaseFileReader(storage, stat.path).read() for stat in done.stats])


def by_id(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.select(KEPT).to_pylist(), key=lambda row: row["id"])


def visible(storage: MemoryStorage) -> list[dict[str, Any]]:
    return by_id(table_of(storage, ManualClock(NOW_MS, tick_ms=1), "reader").read(KEPT))


def bodies(storage: MemoryStorage, done: RewrittenGroup) -> list[bytes]:
    return [storage.get(stat.path) for stat in done.stats]


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.curve)
def test_rows_are_merged_and_keep_their_commits(storage: MemoryStorage, order: SortOrder, memory_bytes: int) -> None:
    expected = visible(storage)
    done = cluster_group(task_of(storage, order=order, outputs=("a-0", "b-0", "c-0"), memory_bytes=memory_bytes))
    assert by_id(written(storage, done)) == expected
    assert (done.rows, done.streamed) == (len(expected), memory_bytes == TINY)
    assert [stat.file_name for stat in done.stats] == [
        f"{name}-0_{3 + at}-1-0_{INSTANT}.parquet" for at, name in enumerate("abc")
    ]
    for stat in done.stats:
        found = BaseFileReader(storage, stat.path).read()
        assert found.column_names[:5] == list(META_COLUMNS)
        assert set(found[FILE_NAME].to_pylist()) == {stat.file_name}
        assert 50 <= found.num_rows <= 150


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY])
def test_rows_are_sorted_with_nulls_first_over_all_files(storage: MemoryStorage, memory_bytes: int) -> None:
    done = cluster_group(task_of(storage, outputs=("a-0", "b-0"), memory_bytes=memory_bytes))
    found = written(storage, done).select(["value", "id"]).to_pylist()
    assert found == sorted(found, key=lambda row: (row["value"] is not None, row["value"] or 0, row["id"]))
    assert found[0]["value"] is None


def test_rows_sorted_on_disk_are_in_the_order_of_rows_sorted_in_memory(storage: MemoryStorage) -> None:
    by_value = SortOrder("linear", ("value",))
    in_memory = written(storage, cluster_group(task_of(storage, order=by_value)))
    on_disk = written(storage, cluster_group(task_of(storage, order=by_value, memory_bytes=TINY, epoch=2)))
    assert on_disk.select(KEPT).equals(in_memory.select(KEPT))


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.curve)
def test_a_repeated_task_writes_the_same_bytes(storage: MemoryStorage, order: SortOrder, memory_bytes: int) -> None:
    task = task_of(storage, order=order, outputs=("a-0", "b-0"), memory_bytes=memory_bytes, wanted=EVERYTHING)
    first = cluster_group(task)
    before = bodies(storage, first)
    again = cluster_group(task)
    assert bodies(storage, again) == before
    assert again.stats == first.stats


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY])
def test_statistics_are_those_that_are_read_back_from_the_files(storage: MemoryStorage, memory_bytes: int) -> None:
    task = task_of(storage, outputs=("a-0", "b-0"), memory_bytes=memory_bytes, wanted=EVERYTHING)
    done = cluster_group(task)
    assert len(done.facts) == 2
    for stat, found in zip(done.stats, done.facts, strict=True):
        again = FileStatisticsTask(storage, stat.path, stat.file_size_in_bytes, task.stored, EVERYTHING)
        assert comparable(found) == comparable(statistics_of_file(again))
        rows = BaseFileReader(storage, stat.path).rows
        # As in commits of Apache Hudi's clustering.
        assert (stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes) == (rows, rows, 0, 0)
        assert (stat.prev_commit, stat.prev_base_file) == ("null", None)
        assert stat.file_size_in_bytes == len(storage.get(stat.path))


def comparable(found: FileStatistics) -> Any:
    ranges = [
        (one.column, one.least.to_pylist(), one.greatest.to_pylist(), one.nulls, one.values, one.size)
        for one in found.ranges
    ]
    keys = [None if keys is None else sorted(keys.to_pylist()) for keys in (found.added, found.removed)]
    return found.path, found.file_id, found.size_bytes, ranges, found.bloom, keys


def test_counts_of_log_records_are_summed() -> None:
    storage = made(MERGE_ON_READ, ROWS, UPDATES)
    counts = cluster_group(task_of(storage)).counts
    assert (counts.log_records, counts.inserted, counts.updated, counts.deleted) == (41, 1, 20, 20)


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY])
def test_an_output_without_rows_is_not_written(memory_bytes: int) -> None:
    storage = made(DEFINITION, rows(("a", "p0", 1, 1, None), ("b", "p0", 2, 1, None)))
    done = cluster_group(task_of(storage, outputs=tuple(f"{n}-0" for n in range(5)), memory_bytes=memory_bytes))
    assert [stat.num_writes for stat in done.stats] == [1, 1]
    deleted = made(MERGE_ON_READ, rows(("a", "p0", 1, 1, None)), rows(("a", "p0", 1, 2, True)))
    done = cluster_group(task_of(deleted, memory_bytes=memory_bytes))
    assert (done.stats, done.facts, done.rows) == ((), (), 0)
    assert done.counts.deleted == 1


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY])
def test_a_stop_ends_the_task_at_each_check_and_leaves_no_file(storage: MemoryStorage, memory_bytes: int) -> None:
    task = task_of(storage, memory_bytes=memory_bytes)
    checks = Checks()
    with checked_by(checks.count):
        cluster_group(replace(task, epoch=2))
    assert checks.made > 8
    for last in range(1, checks.made, checks.made // 6):
        stopping = Checks(last)
        with checked_by(stopping.count), pytest.raises(Cancelled):
            cluster_group(task)
        assert storage.head(task.output(0).path) is None


class Checks:
    """Count of checks; from check number `last` on, each one stops the task."""

    def __init__(self, last: int | None = None) -> None:
        self.made = 0
        self.last = last

    def count(self) -> None:
        self.made += 1
        if self.last is not None and self.made >= self.last:
            raise Cancelled("stopped")

"""The task of a clustering: rows, order, cuts, statistics and bytes of the files that it writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.config.columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, RECORD_KEY
from hudi_ops.files.base.base_file import BaseFileReader, stored_schema
from hudi_ops.files.statistics.statistics import StatisticsRequest
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.clustering.tasks import ClusteredGroup, ClusterTask, cluster_group
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.view.schema import table_schema
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, made, rows, table_of

INSTANT = "20300317180000000"
BY_VALUE = SortOrder("linear", ("value",))
EVERYTHING = StatisticsRequest(("value", RECORD_KEY), bloom=True, keys=True)
ROWS = rows(*((f"k{n:02d}", "p0", n * 37 % 50 if n % 7 else None, 1, None) for n in range(40)))
UPDATES = rows(*((f"k{n:02d}", "p0", n, 2, n % 2 == 0) for n in range(10)), ("new", "p0", 7, 2, None))


def task_of(storage: MemoryStorage, outputs: tuple[str, ...] = ("out-0",), **changes: Any) -> ClusterTask:
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
        outputs=outputs,
        instant=INSTANT,
        epoch=1,
        number=3,
        memory_bytes=1 << 30,
    )
    return replace(task, **changes)


@pytest.fixture(scope="module", params=["base files", "log files"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    return made(DEFINITION if request.param == "base files" else MERGE_ON_READ, ROWS, UPDATES)


def written(task: ClusterTask, done: ClusteredGroup) -> list[pa.Table]:
    return [BaseFileReader(task.storage, stat.path).read() for stat in done.stats]


def visible(storage: MemoryStorage) -> list[dict[str, Any]]:
    found = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "reader").read([
        "id",
        "value",
        "ts",
        COMMIT_TIME,
        COMMIT_SEQNO,
    ])
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_rows_are_merged_and_sorted_with_nulls_first(storage: MemoryStorage) -> None:
    task = task_of(storage)
    done = cluster_group(task)
    (found,) = written(task, done)
    values = found["value"].to_pylist()
    assert values == sorted(values, key=lambda value: (value is not None, value))
    assert None in values
    kept = found.select(["id", "value", "ts", COMMIT_TIME, COMMIT_SEQNO]).to_pylist()
    assert sorted(kept, key=lambda row: row["id"]) == visible(storage)
    assert found.column_names[:5] == list(META_COLUMNS)
    assert set(found[FILE_NAME].to_pylist()) == {done.stats[0].file_name} == {f"out-0_3-1-0_{INSTANT}.parquet"}

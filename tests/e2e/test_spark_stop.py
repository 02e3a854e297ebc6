"""A cancel stops a compaction on Spark within two seconds, amid long tasks of two Python workers; a clean leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.engine.spark import SparkEngine
from hudi_ops.errors import Cancelled
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table

BOUND_S = 2.0
TRIES = 3
DEADLINE_S = 60.0
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64()), ("ts", pa.int64())])


class Slow(LocalStorage):
    """Holds each task that opens a log file, as long as the folder `hold` is there; its process shows that it lives."""

    def open_input(self, path: str) -> pa.NativeFile:
        hold = self.root.parent / "hold"
        deadline_s = time.monotonic() + DEADLINE_S
        while ".log." in path and hold.exists() and time.monotonic() < deadline_s:
            (hold / path.rpartition("/")[2]).touch()
            time.sleep(0.02)
        return super().open_input(path)


def rows(time_: int) -> pa.Table:
    ids = list(range(400))
    return pa.table({"id": ids, "value": [time_] * 400, "ts": [time_] * 400}, schema=SCHEMA)


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.01)


def seconds_to_stop(table: Table, spark: Any, hold: Path) -> float:
    instant = table.compaction.plan(cancel="cancellable").instant
    assert instant is not None
    uri = table.context.storage.uri
    other = Table(TableContext(Slow(uri.removeprefix("file://")), in_process_lock(uri), engine=SparkEngine(spark)))
    hold.mkdir()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(other.compaction.execute, instant=instant, engine="spark")
        until(lambda: len(list(hold.iterdir())) == 2)
        started_s = time.monotonic()
        table.request_cancel(instant, "it takes too long")
        with pytest.raises(Cancelled, match="it takes too long"):
            running.result(DEADLINE_S)
        took_s = time.monotonic() - started_s
    (record,) = table.plans(instant, aborted=True)
    assert record.state == "aborted"
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    # Spark ends the Python workers a little later.
    until(lambda: all(time.time() - file.stat().st_mtime > 1 for file in hold.iterdir()))
    for file in hold.iterdir():
        file.unlink()
    hold.rmdir()
    assert [
        info.path for info in table.context.storage.list() if instant in info.path and ".parquet" in info.path
    ] == []
    return took_s


def test_a_compaction_amid_long_tasks_stops(tmp_path: Path, spark: Any) -> None:
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, ordering="ts", table_type="mor", buckets=4,
        clean={"automatic": False}, archive={"automatic": False},
    )  # fmt: skip
    table.ingest(rows(1))
    table.ingest(rows(2))
    spark.sparkContext.setJobGroup("ours", "of the application")
    # A machine that is too busy may miss the bound once.
    assert any(seconds_to_stop(table, spark, tmp_path / "hold") <= BOUND_S for _ in range(TRIES))
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "ours"
    table.clean.run()
    assert verify_table(table.context.storage, deep=True).errors == ()
    assert table.read(["value"])["value"].to_pylist() == [2] * 400
    done = table.compaction.run(engine="spark")
    assert done.slices == 4, "the same groups can be planned again at once"

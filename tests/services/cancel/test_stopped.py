"""A cancel stops an executor of this process within two seconds, also amid a long task; the task puts no file afterwards."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.stopping import check_stop, checked_by
from hudi_ops.errors import Cancelled
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.services.base.waves import OnExecutor
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table

BOUND_S = 2.0
TRIES = 3
DEADLINE_S = 30.0
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64()), ("ts", pa.int64())])


@dataclass
class Hold:
    """Where a task stands still, and until when."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    tasks: list[threading.Thread] = field(default_factory=list)


class CountingReads(LocalStorage):
    """Counts what is read."""

    reads = 0

    def get(self, path: str) -> bytes:
        self.reads += 1
        return super().get(path)


class Held(LocalStorage):
    """Holds the task that opens a log file, as a kernel without a check would."""

    hold: Hold | None = None

    def open_input(self, path: str) -> pa.NativeFile:
        hold = self.hold
        if hold is not None and ".log." in path:
            hold.tasks.append(threading.current_thread())
            hold.reached.set()
            assert hold.released.wait(DEADLINE_S)
        return super().open_input(path)


def rows(time_: int) -> pa.Table:
    ids = list(range(400))
    return pa.table({"id": ids, "value": [time_] * 400, "ts": [time_] * 400}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, ordering="ts", table_type="mor", buckets=4,
        clean={"automatic": False}, archive={"automatic": False},
    )  # fmt: skip
    made.ingest(rows(1))
    made.ingest(rows(2))
    return made


def executor_of(table: Table, hold: Hold, threads: int) -> Table:
    uri = table.context.storage.uri
    storage = Held(uri.removeprefix("file://"))
    storage.hold = hold
    return Table(TableContext(storage, in_process_lock(uri), engine=LocalEngine(threads=threads)))


def files_of(table: Table, instant: str) -> list[str]:
    return [info.path for info in table.context.storage.list() if instant in info.path]


def seconds_to_stop(table: Table, threads: int) -> float:
    """Cancel a plan amid a task that does not look up, and judge what is left; returns the time from the request to the error."""
    instant, hold = table.compaction.plan(cancel="cancellable").instant, Hold()
    assert instant is not None
    other = executor_of(table, hold, threads)
    with ThreadPoolExecutor(1) as pool:
        try:
            running = pool.submit(other.compaction.execute, instant=instant, engine="local")
            assert hold.reached.wait(DEADLINE_S)
            started_s = time.monotonic()
            table.request_cancel(instant, "it takes too long")
            with pytest.raises(Cancelled, match="it takes too long") as ended:
                running.result(DEADLINE_S)
            took_s = time.monotonic() - started_s
            assert ended.value.exit_code == 12
            (record,) = table.plans(instant, aborted=True)
            assert (record.state, record.reason) == ("aborted", "it takes too long")
            before = files_of(table, instant)
            assert all(task.is_alive() for task in hold.tasks)
        finally:
            hold.released.set()
        # The task goes on, and ends itself before it puts its file.
        for task in hold.tasks:
            task.join(DEADLINE_S)
    assert files_of(table, instant) == before
    assert not [path for path in before if path.endswith(".parquet")]
    return took_s


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.full("starts, kills or measures processes")), 2])
def test_an_executor_amid_a_long_task_stops(table: Table, threads: int) -> None:
    # A machine that is too busy may miss the bound once.
    assert any(seconds_to_stop(table, threads) <= BOUND_S for _ in range(TRIES))
    assert table.read(["value"])["value"].to_pylist() == [2] * 400
    assert table.compaction.run().slices == 4, "the same groups can be planned again at once"


def test_a_task_that_is_stopped_after_its_marker_puts_no_file(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    output = BaseFileOutput(storage, "20260101000000000", "", "f", "f_0-0-1_20260101000000000.parquet", None)

    def check() -> None:
        if storage.list(".hoodie/.temp"):
            raise Cancelled("in a test")

    with checked_by(check), pytest.raises(Cancelled, match="in a test"):
        output.put(pa.py_buffer(b"rows"))
    assert [info.path for info in storage.list() if info.path.endswith(".parquet")] == []
    output.put(pa.py_buffer(b"rows"))
    assert storage.get(output.path) == b"rows"


def looped(seconds: float) -> str:
    """Loop as the kernels of a task do; returns if no check ends it."""
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        check_stop()
        time.sleep(0.01)
    return "ended by itself"


@pytest.mark.full("starts, kills or measures processes")
def test_a_task_on_an_executor_ends_itself_once_its_instant_is_cancelled(table: Table) -> None:
    instant = table.compaction.plan(cancel="cancellable").instant
    assert instant is not None
    task = pickle.loads(pickle.dumps(OnExecutor(looped, table.context.storage, instant)))
    assert task(1.2) == "ended by itself"
    table.request_cancel(instant, "it takes too long")
    with pytest.raises(Cancelled, match="it takes too long"):
        task(DEADLINE_S)


def test_a_short_task_on_an_executor_reads_nothing_for_the_cancel(table: Table) -> None:
    storage = CountingReads(table.context.storage.uri.removeprefix("file://"))
    assert OnExecutor(looped, storage, "20260101000000000")(0.2) == "ended by itself"
    assert storage.reads == 0

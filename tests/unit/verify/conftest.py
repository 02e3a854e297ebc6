"""Small whole tables in memory, to be broken: one of ours, and copies of fixtures that Apache Hudi wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import Owner, TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from tests.definitions import Definition, create_table

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])


def rows_of(first: int, last: int, version: int) -> pa.Table:
    """Rows id first..last-1 in partitions x and y; `version` orders them."""
    numbers = range(first, last)
    columns = [
        [f"k{number:04d}" for number in numbers],
        ["xy"[number % 2] for number in numbers],
        [number * version for number in numbers],
        [version for _ in numbers],
    ]
    return pa.table([pa.array(column) for column in columns], schema=SCHEMA)


def context(storage, owner: Owner | None = None) -> TableContext:
    locks = in_process_lock(storage.uri)
    return TableContext(
        storage=storage, locks=locks, engine=LocalEngine(threads=1), owner=owner or Owner.of_this_process()
    )


@pytest.fixture(scope="session")
def _built(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    """Two partitions of two buckets; inserts, updates, a folder taken, a crashed write rolled back, deletes."""
    storage = MemoryStorage("verified", SystemClock())
    definition = Definition("verified", SCHEMA, ("id",), ("p",), "ts", buckets=2)
    create_table(Session(context(storage)), definition)
    table = Table(context(storage))
    table.ingest(rows_of(0, 40, 1))
    landing: Path = tmp_path_factory.mktemp("landing")
    pq.write_table(rows_of(30, 60, 2), landing / "wave.parquet")
    table.ingest_folder(str(landing))
    # The owner's process is gone: what it leaves is rolled back by the next writer.
    gone = replace(Owner.of_this_process(), started="1")
    crash_number = 1
    while True:
        trial = storage.copy()
        faulty = FaultyStorage(trial, FaultPlan.at(crash_number, Fault.CRASH_AFTER), only_mutations=True)
        try:
            Table(context(faulty, gone)).ingest(rows_of(0, 10, 3))
        except Crash:
            if any(".marker." in info.path for info in trial.list(".hoodie/.temp")):
                break
        crash_number += 1
        assert crash_number < 100, "no crash point left markers"
    table = Table(context(trial))
    table.ingest(rows_of(0, 10, 4))
    table.ingest(rows_of(50, 55, 5).select(["id", "p"]), "delete")
    # What was rolled back is looked at for a second time two minutes later; a test of any length must not fall behind that.
    later = ManualClock(SystemClock().now_ms() + 2 * EXPIRY_MS)
    recover(Session(replace(context(trial), clock=later)))
    return trial


@pytest.fixture
def ours(_built: MemoryStorage) -> MemoryStorage:
    """A fresh copy of our table."""
    return _built.copy()


@pytest.fixture
def in_memory(hudi_fixtures: Callable[[str], Path]) -> Callable[[str], MemoryStorage]:
    """Name of a fixture -> a fresh copy of it in memory."""

    def copied(name: str) -> MemoryStorage:
        root = hudi_fixtures(name)
        storage = MemoryStorage(name, SystemClock())
        for file in sorted(root.rglob("*")):
            if file.is_file():
                storage.put(file.relative_to(root).as_posix(), file.read_bytes())
        return storage

    return copied


@pytest.fixture
def foreign(in_memory: Callable[[str], MemoryStorage]) -> MemoryStorage:
    """A copy-on-write table of Apache Hudi, version 8: two commits, three partitions, no metadata table."""
    return in_memory("v8_simplekeygen_nonhivestyle_cow")

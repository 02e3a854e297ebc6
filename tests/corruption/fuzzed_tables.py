"""Small tables that hold a file of every kind that is read, and the calls that read them all."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.verify import verify_table
from tests.definitions import Definition, create_table
from tests.fault_plans import DiesBefore
from tests.tables import START_MS, table_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "apache-hudi-tables"
SCHEMA = pa.schema([
    ("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("price", pa.decimal128(12, 2)),
    ("seen", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string())),
])  # fmt: skip
INDEXES = ["column_stats", "partition_stats", "bloom_filters", "record_index"]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.Table.from_pylist(
        [{"id": f"k{n}", "part": f"p{n % 2}", "n": n, "price": n, "seen": n, "tags": [f"t{n}"]} for n in numbers],
        SCHEMA,
    )


def table_on(storage: Storage, at_ms: int = START_MS + 600_000, actor: str = "reader") -> Table:
    return table_of(storage, ManualClock(at_ms), actor)


def ours(table_type: str, log_format: str = "parquet") -> MemoryStorage:
    """A table of ours: writes, a ledger, all indexes, and a writer that died between its data files and its decision."""
    clock = ManualClock(START_MS)
    storage = MemoryStorage("fuzzed", clock)
    table = table_of(storage, clock, "writer", log_format=log_format)
    definition = Definition("fuzzed", SCHEMA, ("id",), ("part",), "n", table_type=table_type, buckets=1)
    create_table(table._session, definition)
    for number in range(3):
        clock.advance_ms(10_000)
        table.ingest(rows(number * 4, 8))
    table.indexing.run(partitions=INDEXES)
    clock.advance_ms(10_000)
    table.ingest(rows(2, 3), operation="delete")
    return storage


def with_dead_writer(storage: MemoryStorage) -> MemoryStorage:
    """The same with a writer that died before its decision: lease, requested, inflight, markers, data files."""
    with contextlib.suppress(Crash):
        table_on(
            FaultyStorage(storage, DiesBefore("put_if_absent:.hoodie/.commit_log/0")), START_MS + 300_000, "dead"
        ).ingest(rows(20, 4))
    return storage


def fixture(name: str) -> MemoryStorage:
    """A table that Apache Hudi wrote."""
    storage = MemoryStorage(name, ManualClock(START_MS))
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        for member in archive.namelist():
            path = member.partition("/")[2]
            if path and not member.endswith("/") and not member.startswith("__MACOSX"):
                storage.put(path, archive.read(member))
    return storage


TABLES: dict[str, Callable[[], MemoryStorage]] = {
    "ours, copy on write": lambda: with_dead_writer(ours("COPY_ON_WRITE")),
    "ours, merge on read": lambda: with_dead_writer(ours("MERGE_ON_READ")),
    "ours, avro logs": lambda: ours("MERGE_ON_READ", "avro"),
    **{
        name: partial(fixture, name)
        for name in (
            "v6_trips_8i1u_mor",
            "v8_trips_8i3u1d_mor",
            "v9_mor_pending_compaction_clustering",
            "v9_cow_clean_savepoint_rollback_archive",
            "v9_record_index_bloom_filters",
            "v9_mor_parquet_log",
        )
    },
}


def doors(name: str) -> dict[str, Callable[[MemoryStorage], object]]:
    """What is called on a table, by name; each gets a copy of its own."""
    late = START_MS + 3_600_000
    reading: dict[str, Callable[[MemoryStorage], object]] = {
        "read": lambda storage: table_on(storage).read(),
        "changes": lambda storage: list(table_on(storage).changes("earliest").to_batches()),
        "verify": lambda storage: verify_table(storage, deep=True, index=True, clock=ManualClock(late)),
    }
    if not name.startswith("ours"):
        return reading
    return {
        **reading,
        "look up": lambda storage: table_on(storage).read(where="id = 'k3' AND n < 9 AND price > 0.00"),
        "by storage": lambda storage: table_on(storage).read(listing="storage"),
        "ingest": lambda storage: table_on(storage, late, "next").ingest(rows(3, 3)),
        "recover": lambda storage: table_on(storage, late, "next").recover(),
        "metadata": lambda storage: table_on(storage).metadata.describe(),
    }

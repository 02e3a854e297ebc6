"""Builders that tests share: rows, tables in memory of each kind, a process's table, and the rows that it shows by key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hudi_ops.clock import Clock, SystemClock
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from tests.definitions import Definition, create_table

START_MS = 1_900_000_000_000
NOW_MS = START_MS + 60_000
"""When processes begin: a minute after a table was made, so that no instant of theirs meets one of its."""
TIMELINE = ".hoodie/timeline"
BY_HAND = UpkeepSettings(CleanSettings(automatic=False), ArchiveSettings(automatic=False))
"""Settings of writers that neither clean nor archive after their commits."""

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("part", pa.string()),
    ("value", pa.int64()),
    ("ts", pa.int64()),
    ("_hoodie_is_deleted", pa.bool_()),
])
PLAIN_SCHEMA = pa.schema([SCHEMA.field(name) for name in ("id", "part", "value")])
"""Without ordering and deletes."""
VERSIONED = pa.schema([SCHEMA.field(name) for name in ("id", "part", "value", "ts")])

DEFINITION = Definition("crash", SCHEMA, ("id",), ("part",), "ts", buckets=2)
MERGE_ON_READ = replace(DEFINITION, table_type="MERGE_ON_READ")
WITH_METADATA = replace(DEFINITION, metadata=True)
LOGGED_WITH_METADATA = replace(WITH_METADATA, table_type="MERGE_ON_READ")
BY_RECORD_INDEX = replace(WITH_METADATA, index="record_index")


def past_expiry() -> ManualClock:
    """A clock by which leases of now have expired, and the second look at files of ended processes is due."""
    return ManualClock(SystemClock().now_ms() + EXPIRY_MS + 60_000, tick_ms=1)


def of_schema(schema: pa.Schema, values: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Rows whose values are in the order of a schema."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema=schema)


def rows(*values: tuple[str, str, int | None, int, bool | None]) -> pa.Table:
    """Rows of `SCHEMA`: key, partition, value, time, and whether they delete."""
    return of_schema(SCHEMA, values)


def plain_rows(*values: tuple[str, str, int]) -> pa.Table:
    """Rows of `PLAIN_SCHEMA`: key, partition, value."""
    return of_schema(PLAIN_SCHEMA, values)


def versioned(first: int, last: int, version: int) -> pa.Table:
    """Rows `k<first>` to `k<last - 1>` of one partition, whose values and times follow from the version."""
    return of_schema(VERSIONED, [(f"k{n:02d}", "p0", n * version, version) for n in range(first, last)])


def table_of(storage: Storage, clock: Clock, actor: str, *terms: AdoptionOptions, **settings: Any) -> Table:
    """The table in a simulated process."""
    return Table(simulated_context(storage, clock, actor), *terms, **settings)


def made(
    definition: Definition = DEFINITION,
    *batches: pa.Table,
    clock: ManualClock | None = None,
    after: int | None = None,
    automatic: bool = False,
) -> MemoryStorage:
    """A table in memory after its first ingests.

    `after` so many deltas its metadata table is compacted; `automatic`: its writers clean and archive it.
    """
    clock = clock or ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage(definition.name, clock)
    table = table_of(storage, clock, "creator", upkeep=None if automatic else BY_HAND)
    if after is not None:
        table._session.metadata_compact_after = after
    create_table(table._session, definition)
    for batch in batches:
        table.ingest(batch)
    return storage


def by_key(table: Table, **query: Any) -> dict[str, int]:
    """The values that a table shows, by key; no key twice."""
    found = table.read(["id", "value"], **query)
    keys = found["id"].to_pylist()
    assert len(set(keys)) == len(keys), sorted(keys)
    return dict(zip(keys, found["value"].to_pylist(), strict=True))

"""Small tables for simulated writers: two partitions, one bucket each, a handful of rows; made once, copied for each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from hudi_ops.services.write.operations import WriteOperation, parse_operation
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.definitions import Definition
from tests.tables import NOW_MS, PLAIN_SCHEMA, START_MS, made, plain_rows, table_of

DEFINITION = Definition("small", PLAIN_SCHEMA, ("id",), ("part",), buckets=1)
MERGED = replace(DEFINITION, table_type="MERGE_ON_READ")

Rows = dict[str, int]
HELD: Rows = {"a1": 1, "a2": 2, "b1": 1, "b2": 2}
"""What the table holds before anybody acts. A key's first letter is its partition."""


@dataclass(frozen=True)
class Job:
    """One write: an operation and what it writes, by key. For removals only the keys' partitions count."""

    operation: str
    values: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return "-".join((self.operation, *(key for key, _ in self.values)))

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partitions that it touches, by name."""
        return tuple(sorted({key[0] for key, _ in self.values}))

    @property
    def paths(self) -> tuple[str, ...]:
        """Partitions that it touches, by path."""
        return tuple(f"part={name}" for name in self.partitions)

    @property
    def kind(self) -> WriteOperation:
        """The product's operation, for those that bring rows."""
        return parse_operation(self.operation)

    @property
    def rows(self) -> pa.Table:
        """What it writes, as rows."""
        return rows_of(dict(self.values))

    def applied(self, held: Mapping[str, int]) -> Rows:
        """The table's rows after it: the model that every run is held against."""
        if self.operation in {"rewrite", "compact"}:
            return dict(held)
        if self.operation == "delete":
            return {key: value for key, value in held.items() if key not in dict(self.values)}
        if self.operation in {"delete_partition", "insert_overwrite"}:
            held = {key: value for key, value in held.items() if key[0] not in self.partitions}
        if self.operation == "delete_partition":
            return dict(held)
        return {**held, **dict(self.values)}


UPSERT_A = Job("upsert", (("a1", 101), ("a3", 103)))
ALSO_A = Job("upsert", (("a2", 202), ("a4", 204)))
UPSERT_B = Job("upsert", (("b1", 301),))
ALSO_B = Job("upsert", (("b2", 402),))
DELETE_A = Job("delete", (("a1", 0), ("a2", 0)))
DELETE_B = Job("delete", (("b1", 0),))
DROP_A = Job("delete_partition", (("a1", 0),))
DROP_B = Job("delete_partition", (("b1", 0),))
OVERWRITE_A = Job("insert_overwrite", (("a2", 402),))
REWRITE_A = Job("rewrite", (("a1", 0),))
REWRITE_B = Job("rewrite", (("b1", 0),))
COMPACT = Job("compact", (("a1", 0),))
LATER = Job("upsert", (("b2", 902),))


def rows_of(values: Mapping[str, int]) -> pa.Table:
    """Rows by key."""
    return plain_rows(*((key, key[0], value) for key, value in values.items()))


@cache
def _made() -> MemoryStorage:
    return made(DEFINITION, rows_of(HELD), clock=ManualClock(START_MS))


def small_table() -> MemoryStorage:
    """A copy of the table, with its own clock standing at `NOW_MS`."""
    return at(_made(), NOW_MS)


@cache
def _indexed() -> MemoryStorage:
    return made(replace(DEFINITION, metadata=True), rows_of(HELD), clock=ManualClock(START_MS))


def indexed_table() -> MemoryStorage:
    """The same table with a metadata table, which our reader believes."""
    return at(_indexed(), NOW_MS)


@cache
def _logged() -> MemoryStorage:
    clock = ManualClock(START_MS)
    storage = made(MERGED, rows_of({**HELD, "a1": 0, "a9": 9, "b1": 0}), clock=clock)
    table = table_of(storage, clock, "creator")
    clock.advance_ms(1_000)
    table.ingest(rows_of({"a1": 1, "b1": 1}))
    clock.advance_ms(1_000)
    table.ingest(rows_of({"a9": 9}), "delete")
    return storage


def logged_table() -> MemoryStorage:
    """The same rows in a merge-on-read table, some of them in log files, which also delete one that a base file holds."""
    return at(_logged(), NOW_MS)


def at(storage: MemoryStorage, now_ms: int) -> MemoryStorage:
    """A copy whose clock begins at that time: nobody else's writes are seen, and change times are kept."""
    return storage.copy(ManualClock(now_ms))


def newest_ms(storage: MemoryStorage) -> int:
    """When the storage was written last."""
    return max(info.modified_ms for info in storage.list())

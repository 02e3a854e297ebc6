"""A read of some record keys gives the rows of these keys, though it opens the file groups of their buckets alone.

Goal: buckets, filters and log blocks that a read of keys leaves out never hold a wanted row. Method: tables of both types, of one
and of two key fields and of several buckets, after upserts and deletes, against a dict; every key that the table holds or has
held, keys that it never held, and lists of keys. A table that another program has written is read in all buckets.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from hudi_ops.config.table import TableType
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.names import instant_of_ms
from tests.bounds import examples
from tests.definitions import Definition
from tests.tables import NOW_MS, TIMELINE, made, of_schema, table_of

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("code", pa.int64()),
    ("part", pa.string()),
    ("value", pa.int64()),
    ("ts", pa.int64()),
    ("_hoodie_is_deleted", pa.bool_()),
])
IDS = ["a", "b", "a-longer-key", "ключ", "k 1", "00000000-3215-5ab6-9daa-a24153e7c6ab"]
NEVER = "never held"
ROWS = st.lists(
    st.tuples(st.sampled_from(IDS), st.integers(0, 3), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=12,
    unique_by=lambda one: one[:2],
)


@settings(max_examples=examples(6, 40))
@given(
    table_type=st.sampled_from(["COPY_ON_WRITE", "MERGE_ON_READ"]),
    key=st.sampled_from([("id",), ("id", "code")]),
    buckets=st.integers(1, 5),
    batches=st.lists(ROWS, min_size=1, max_size=4),
    is_shared=st.booleans(),
)
def test_reads_of_keys_give_the_rows_of_a_dict(
    table_type: TableType, key: tuple[str, ...], buckets: int, batches: list[list[Any]], is_shared: bool
) -> None:
    held: dict[Any, tuple[Any, ...]] = {}
    tables = []
    for number, batch in enumerate(batches):
        # Rows of one key lie in one partition, or they were different rows.
        rows = {one[: len(key)]: (one[0], one[1], f"p{len(one[0]) % 2}", one[2], number, one[3]) for one in batch}
        held |= rows
        tables.append(of_schema(SCHEMA, rows.values()))
    definition = Definition("keys", SCHEMA, key, ("part",), "ts", buckets=buckets, table_type=table_type)
    storage = made(definition, *tables)
    if is_shared:
        write_as_another(storage)
    table = table_of(storage, ManualClock(NOW_MS + 60_000), "reader")
    for wanted in [[one] for one in held] + [list(held)[:2], [(NEVER, 7)[: len(key)]]]:
        where = " OR ".join(condition(key, one) for one in wanted)
        if len(key) == 1:
            where = f"id IN ({', '.join(literal(one[0]) for one in wanted)})"
        scan = table.scan(where=where)
        expected = sorted(held[one] for one in wanted if one in held and not held[one][-1])
        assert sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist()) == expected, where
        if is_shared:
            assert scan.explain().groups_skipped_by_bucket == 0
        elif len(wanted) == 1:
            assert len(scan.tasks) <= 2, "more than one file group of a partition"


def write_as_another(storage: MemoryStorage) -> None:
    """Complete a write without a pointer to the commit log; it names no files."""
    first, last = instant_of_ms(NOW_MS + 10_000), instant_of_ms(NOW_MS + 20_000)
    kind = "deltacommit" if any(file.path.endswith(".deltacommit") for file in storage.list(TIMELINE)) else "commit"
    storage.put(f"{TIMELINE}/{first}.{kind}.requested", b"")
    storage.put(f"{TIMELINE}/{first}.{'deltacommit.' if kind == 'deltacommit' else ''}inflight", b"")
    storage.put(f"{TIMELINE}/{first}_{last}.{kind}", CommitMetadata(operation="UPSERT").to_bytes())


def condition(key: tuple[str, ...], values: tuple[Any, ...]) -> str:
    return " AND ".join(f"{name} = {literal(value)}" for name, value in zip(key, values, strict=True))


def literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)

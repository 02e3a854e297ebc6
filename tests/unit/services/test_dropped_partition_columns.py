"""Tables whose files lack the partition columns: rows have them all the same, from the path of their partition."""

from __future__ import annotations

import datetime
import io
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.files.slice.slice_scan import open_scan
from hudi_ops.formats import properties
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.settings.properties_file import read_properties
from hudi_ops.verify import verify_table
from hudi_ops.view.partition_values import PartitionPaths
from tests.definitions import Definition, create_table
from tests.tables import table_of

CLOCK = ManualClock(1_900_000_000_000, tick_ms=1)
DROPS = "hoodie.datasource.write.drop.partition.columns"
DAY = datetime.date(2024, 1, 2)
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "b c", "x=y/z%", None, "007"]),
    "number": (pa.int32(), [1, -3, 0, None, 2_000_000_000]),
    "day": (pa.date32(), [DAY, datetime.date(1969, 1, 1), datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "flag": (pa.bool_(), [True, False, True, None, False]),
    "amount": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-3.25"), Decimal("0.00"), None, Decimal("7.00")]),
}


def make(kind: str, table_type: str, *, hive: bool = True, **more: Any) -> Table:
    """An empty table that drops its partition columns, partitioned by one of a kind."""
    storage = MemoryStorage("dropped", CLOCK)
    schema = pa.schema([("part", KINDS[kind][0]), ("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
    table = table_of(storage, CLOCK, "writer")
    stands_for = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
    definition = Definition(
        "dropped", schema, ("id",), ("part",), "ts", stands_for[table_type], hive_style=hive, buckets=1, **more
    )
    create_table(table._session, definition)
    drop(table)
    return table


def drop(table: Table) -> None:
    """Say that files lack the partition columns."""
    storage = table.context.storage
    values = {**read_properties(storage), DROPS: "true"}
    storage.put(".hoodie/hoodie.properties", properties.dumps(values, comment="Edited", now_ms=0))
    table.repair_properties("file")


def rows(kind: str, ids: str, v: int, ts: int) -> pa.Table:
    """A row for each id, `k0` and on, in the partition of its number."""
    stored, values = KINDS[kind]
    numbers = [int(one) for one in ids]
    return pa.table({
        "id": [f"k{one}" for one in numbers],
        "v": pa.array([v] * len(numbers), pa.int64()),
        "ts": pa.array([ts] * len(numbers), pa.int64()),
        "part": pa.array([values[one] for one in numbers], stored),
    })


def held(table: Table, where: str | None = None) -> dict[str, tuple[Any, int]]:
    """(part, v) of each row, by key."""
    found = table.read(["part", "id", "v"], where).to_pylist()
    return {one["id"]: (one["part"], one["v"]) for one in found}


def stored_columns(table: Table) -> set[str]:
    """Columns of all base files, and of the schemas in all log files."""
    storage, found = table.context.storage, set()
    for info in storage.list():
        if info.name.endswith(".parquet") and not info.path.startswith(".hoodie"):
            found |= set(pq.read_schema(io.BytesIO(storage.get(info.path))).names)
        elif ".log." in info.name and not info.path.startswith(".hoodie"):
            assert b'"name":"v"' in storage.get(info.path)
            found |= {"part"} if b'"name":"part"' in storage.get(info.path) else set()
    return found


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_rows_have_the_column_that_their_files_lack(kind: str, table_type: str, *, metadata: bool) -> None:
    table, values = make(kind, table_type, metadata=metadata, hive=kind != "day"), KINDS[kind][1]
    table.ingest(rows(kind, "01234", 1, 1))
    table.ingest(rows(kind, "0134", 2, 2))
    table.ingest(rows(kind, "4", 0, 3), "delete")
    expected = {f"k{i}": (values[i], 1 if i == 2 else 2) for i in range(4)}
    assert held(table) == expected
    assert table.schema.field("part").type == KINDS[kind][0]
    assert table.schema.names == ["id", "v", "ts", "part"]
    assert "part" not in stored_columns(table)
    found = {f"k{i}" for i in range(4)}
    assert set(held(table, "part is null")) == {"k3"}
    assert set(held(table, "part is not null")) == found - {"k3"}
    assert table.read(["part"], "v = 1")["part"].to_pylist() == [values[2]]
    literal = {"text": "'a'", "number": "1", "day": "DATE '2024-01-02'", "flag": "true", "amount": "1.50"}[kind]
    equal = {f"k{i}" for i in range(4) if values[i] == values[0]}
    assert set(held(table, f"part = {literal}")) == equal
    assert set(held(table, f"NOT part = {literal}")) == found - equal - {"k3"}
    assert set(held(table, f"part = {literal} OR v = 1")) == equal | {"k2"}
    assert table.scan(where=f"part = {literal}").explain().partitions_skipped > 0
    assert table.read(where=pc.field("part") == pa.scalar(values[0], KINDS[kind][0])).num_rows == len(equal)
    assert table.scan(["part"]).to_arrow().num_rows == table.scan().to_arrow().num_rows == 4
    changed = table.changes(columns=["id", "part"]).to_arrow().to_pylist()
    assert {one["id"]: one["part"] for one in changed} == {key: part for key, (part, _) in expected.items()}
    if table_type == "mor":
        table.compaction.run()
        assert held(table) == expected
        assert "part" not in stored_columns(table)
    report = verify_table(table.context.storage, deep=True, index=metadata, clock=CLOCK)
    assert report.findings == ()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_each_operation_leaves_the_column_out_of_files(table_type: str) -> None:
    table, values = make("text", table_type), KINDS["text"][1]
    table.ingest(rows("text", "01", 1, 1), "bulk_insert")
    table.ingest(rows("text", "24", 2, 2), "insert")
    table.ingest(rows("text", "1", 3, 3), "insert_overwrite")
    more = rows("text", "0", 4, 4).append_column("more", pa.array([5], pa.int32()))
    table.ingest(more, evolve=True)
    assert table.schema.names == ["id", "v", "ts", "more", "part"]
    assert held(table) == {f"k{i}": (values[i], v) for i, v in ((0, 4), (1, 3), (2, 2), (4, 2))}
    table.delete_partition([f"part={values[4]}"])
    assert set(held(table)) == {"k0", "k1", "k2"}
    assert "part" not in stored_columns(table)
    assert verify_table(table.context.storage, deep=True, clock=CLOCK).findings == ()


def test_levels_of_several_columns_are_told_apart() -> None:
    storage = MemoryStorage("levels", CLOCK)
    schema = pa.schema([("id", pa.string()), ("a", pa.string()), ("n", pa.int64()), ("ts", pa.int64())])
    table = table_of(storage, CLOCK, "writer")
    create_table(table._session, Definition("levels", schema, ("id",), ("a", "n"), "ts", hive_style=False))
    drop(table)
    given = [{"id": f"k{i}", "a": a, "n": i, "ts": 1} for i, a in enumerate(["x/y", "", "z"]) if a]
    table.ingest(pa.Table.from_pylist(given, schema=schema))
    assert table.read(["id", "a", "n", "ts"]).sort_by("id").to_pylist() == given
    assert table.read(["id"], "n = 2 AND a = 'z'").to_pylist() == [{"id": "k2"}]
    assert table.read(["id"], "n = 2 AND a = 'x/y'").num_rows == 0


def test_files_that_hold_the_column_all_the_same_are_read_by_their_path() -> None:
    """Apache Hudi's Spark source leaves the column in files of merge-on-read tables whose properties drop it."""
    storage = MemoryStorage("mixed", CLOCK)
    schema = rows("text", "0", 1, 1).schema
    table = table_of(storage, CLOCK, "writer")
    create_table(table._session, Definition("mixed", schema, ("id",), ("part",), "ts", "MERGE_ON_READ"))
    table.ingest(rows("text", "012", 1, 1))
    table.ingest(rows("text", "12", 2, 2))
    before = held(table)
    drop(table)
    assert held(table) == before
    assert set(held(table, "part = 'a'")) == {"k0"}
    table.ingest(rows("text", "0", 3, 3))
    assert held(table) == {**before, "k0": ("a", 3)}


def test_a_task_tells_an_executor_the_value() -> None:
    table = make("day", "mor")
    table.ingest(rows("day", "0", 1, 1))
    table.ingest(rows("day", "0", 2, 2))
    (task,) = plan_read(table.context.storage, request_of(["part"], "v = 2", None, None)).tasks
    # Storage in memory does not leave its process; all else of a task does.
    constants = pickle.loads(pickle.dumps(task.constants))
    assert constants == (("part", DAY),)
    assert open_scan(task, streaming=True).count() == 1


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        (("number",), "number=one", "int32"),
        (("number",), "1", "number="),
        (("text", "number"), "text=a", "2 levels"),
        (("text", "number"), "text=a/number=1/more", "2 levels"),
    ],
)
def test_a_path_that_tells_no_value_is_damage(fields: tuple[str, ...], path: str, says: str) -> None:
    config = make("text", "cow").config.model_copy(update={"partition_fields": fields})
    paths = PartitionPaths.of(config, pa.schema([(name, KINDS[name][0]) for name in fields]))
    with pytest.raises(Corrupt, match=path) as caught:
        paths.values(path)
    assert says in caught.value.expected


@pytest.mark.parametrize("role", ["record_key", "ordering"])
def test_a_dropped_column_that_keys_or_order_need_is_not_written(role: str) -> None:
    storage = MemoryStorage("needed", CLOCK)
    schema = pa.schema([("id", pa.string()), ("part", pa.string())])
    table = table_of(storage, CLOCK, "writer")
    keys = ("id", "part") if role == "record_key" else ("id",)
    create_table(table._session, Definition("needed", schema, keys, ("part",), "part" if role == "ordering" else None))
    drop(table)
    with pytest.raises(Unsupported, match="its files lack part"):
        table.ingest(pa.table({"id": ["k"], "part": ["a"]}))

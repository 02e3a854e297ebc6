"""What Spark pushes down is used only where it means the same to us, and is always given back; tasks hold files of some size."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.datasource.reader import FILE_COST_BYTES, TASK_BYTES, HudiOpsReader
from hudi_ops.datasource.source import HudiOpsDataSource, spark_schema
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.table.table import Table

SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("part", pa.string()),
    ("value", pa.float64()),
    ("day", pa.date32()),
    ("paid", pa.decimal128(9, 2)),
])


# Filters as pyspark 4.1 has them; this release's pyspark has none.
@dataclass(frozen=True)
class EqualTo:
    attribute: tuple[str, ...]
    value: Any


class GreaterThan(EqualTo):
    pass


class In(EqualTo):
    pass


class StringContains(EqualTo):
    pass


@dataclass(frozen=True)
class IsNotNull:
    attribute: tuple[str, ...]


@dataclass(frozen=True)
class Not:
    child: Any


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"])
    ids = list(range(40))
    columns = [ids, [f"p{i % 4}" for i in ids], [i / 2 for i in ids], [dt.date(2024, 1, 1 + i % 4) for i in ids]]
    table.ingest(pa.table([*columns, [Decimal(i % 4) for i in ids]], schema=SCHEMA))
    return str(tmp_path / "t")


def reader(path: str, **options: str) -> HudiOpsReader:
    source = HudiOpsDataSource({"path": path, **options})
    return source.reader(source.schema())


def read(one: HudiOpsReader) -> list[int]:
    return sorted(i for part in one.partitions() for batch in one.read(part) for i in batch["id"].to_pylist())


@pytest.mark.parametrize(
    ("filters", "parts"),
    [
        ([EqualTo(("part",), "p1")], [1]),
        ([In(("part",), ["p1", "p3"]), IsNotNull(("part",))], [1, 3]),
        ([Not(EqualTo(("part",), "p1"))], [0, 2, 3]),
        ([GreaterThan(("day",), dt.date(2024, 1, 3))], [3]),
        ([EqualTo(("paid",), Decimal("2.00"))], [2]),
        ([EqualTo(("value",), 1.5)], [0, 1, 2, 3]),  # to Spark, NaN is a number
        ([EqualTo(("day",), dt.datetime(2024, 1, 1))], [0, 1, 2, 3]),
        ([StringContains(("part",), "1")], [0, 1, 2, 3]),
        ([EqualTo(("part",), None)], [0, 1, 2, 3]),
        ([EqualTo(("part", "nested"), "p1")], [0, 1, 2, 3]),
        ([EqualTo(("nope",), "p1")], [0, 1, 2, 3]),
    ],
)
def test_filters_of_spark_leave_files_out_and_are_given_back(path: str, filters: list[Any], parts: list[int]) -> None:
    one = reader(path)
    assert list(one.pushFilters(filters)) == filters
    assert read(one) == [i for i in range(40) if i % 4 in parts]


def test_filters_join_the_option(path: str) -> None:
    one = reader(path, where="part IN ('p1', 'p2')", columns="id, part")
    one.pushFilters([EqualTo(("part",), "p2")])
    assert read(one) == list(range(2, 40, 4))


def test_a_listing_is_chosen_by_an_option(path: str, hudi_fixtures: Callable[[str], Path]) -> None:
    indexed = str(hudi_fixtures("v9_record_index_bloom_filters"))
    found = [len(reader(indexed, where="ts > 5000", listing=one).partitions()) for one in ("metadata", "storage")]
    assert found == [0, 1]
    assert read(reader(path, listing="storage")) == list(range(40))
    assert read(reader(path, listing="metadata")) == list(range(40))
    Table.open(path).indexing.drop()
    with pytest.raises(Unsupported, match="cannot be listed by its metadata table"):
        reader(path, listing="metadata").partitions()
    with pytest.raises(InvalidRequest, match="folders is not a kind of listing"):
        reader(path, listing="folders")


def test_small_files_share_a_task(path: str) -> None:
    (task,) = reader(path).partitions()
    assert len(task.value.tasks) == 4 < TASK_BYTES // FILE_COST_BYTES


def test_what_spark_cannot_hold_is_refused() -> None:
    with pytest.raises(Unsupported, match="time"):
        spark_schema(pa.schema([("t", pa.time64("us"))]))


def test_a_table_must_be_named() -> None:
    with pytest.raises(InvalidRequest, match="no table"):
        HudiOpsDataSource({}).schema()


def test_changes_are_read_by_the_options(path: str) -> None:
    table = Table.open(path)
    begin = table.scan().checkpoint
    table.ingest(pa.table([[1, 2, 40], ["p1", "p2", "p0"], [9.0] * 3, [None] * 3, [None] * 3], schema=SCHEMA))
    assert read(reader(path, since=begin)) == [1, 2, 40]
    assert read(reader(path, since=begin, where="part = 'p2'", columns="id")) == [2]
    assert read(reader(path, since="earliest", until=begin)) == list(range(40))
    assert read(reader(path, until=table.changes(begin).checkpoint)) == list(range(41))
    assert read(reader(path, fence="true")) == read(reader(path, fence="false")) == list(range(41))
    one = reader(path, since=begin)
    one.pushFilters([EqualTo(("part",), "p1")])
    assert read(one) == [1]
    with pytest.raises(InvalidRequest, match="no changes"):
        reader(path, since=begin, as_of="20300101000000000")
    with pytest.raises(InvalidRequest, match="switch"):
        reader(path, fence="maybe")

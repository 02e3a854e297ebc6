"""PySpark DataFrames into a table: as Arrow on the executors, evaluated once, every type and both kinds of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.engine import spark as spark_module
from hudi_ops.engine.spark import SparkEngine
from hudi_ops.errors import Conflict, InvalidRequest, Unavailable
from hudi_ops.services.write import ingest as ingest_module
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from tests.definitions import Definition, create_table

SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("part", pa.string()),
    ("text", pa.string()),
    ("body", pa.binary()),
    ("price", pa.decimal128(12, 2)),
    ("day", pa.date32()),
    ("zoned", pa.timestamp("us", "UTC")),
    ("plain", pa.timestamp("us")),
    ("nested", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
    ("map", pa.map_(pa.string(), pa.float64())),
])
COUNT = 3_000


def table_at(root: Path, engine: Any = None, schema: pa.Schema = SCHEMA, **options: Any) -> Table:
    storage = LocalStorage(root)
    context = TableContext(storage=storage, locks=in_process_lock(storage.uri))
    table = Table(context if engine is None else TableContext(**{**vars(context), "engine": engine}))
    create_table(table._session, Definition("t", schema, ("id",), ("part",), None, buckets=4, **options))
    return table


def frame_of(spark: Any, count: int = COUNT) -> Any:
    return spark.range(count, numPartitions=3).selectExpr(
        "id",
        "concat('p', id % 3) as part",
        "if(id % 7 = 0, null, concat('å', id)) as text",
        "cast(cast(id as string) as binary) as body",
        "cast(id / 4 as decimal(12, 2)) as price",
        "date_add(date'2024-02-28', cast(id % 4 as int)) as day",
        "timestamp_micros(1700000000000001 + id) as zoned",
        "timestamp_ntz'2024-03-31 02:30:00' as plain",
        "named_struct('a', cast(id as int), 'b', array('x', cast(id as string))) as nested",
        "map('k', cast(id as double)) as map",
    )


def sorted_rows(table: Table) -> list[dict[str, Any]]:
    return table.read(table.schema.names).sort_by("id").to_pylist()


@pytest.fixture
def in_oslo(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.usefixtures("in_oslo")
def test_every_type_arrives_whatever_the_sessions_zone(tmp_path: Path, spark: Any) -> None:
    tables = {engine: table_at(tmp_path / engine) for engine in ("auto", "local")}
    results = {
        engine: table.ingest(frame_of(spark), engine=engine)  # type: ignore[arg-type]
        for engine, table in tables.items()
    }
    assert results["auto"].engine == "spark"
    assert "executors" in results["auto"].engine_reason
    assert results["local"].engine == "local"
    assert [result.inserted for result in results.values()] == [COUNT, COUNT]
    rows = sorted_rows(tables["auto"])
    assert rows == sorted_rows(tables["local"])
    assert {name: value for name, value in rows[5].items() if name != "plain"} == {
        "id": 5,
        "part": "p2",
        "text": "å5",
        "body": b"5",
        "price": Decimal("1.25"),
        "day": datetime(2024, 2, 29).date(),
        "zoned": datetime(2023, 11, 14, 22, 13, 20, 6, UTC),
        "nested": {"a": 5, "b": ["x", "5"]},
        "map": [("k", 5.0)],
    }
    assert rows[7]["text"] is None
    assert rows[5]["plain"].replace(tzinfo=None) == datetime(2024, 3, 31, 2, 30), (
        "the clock's reading, in no zone's gap"
    )


def counted(frame: Any, folder: Path) -> Any:
    """The frame, leaving a file in the folder for each time that one of its partitions is evaluated."""
    folder.mkdir()

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from uuid import uuid4

        (folder / uuid4().hex).touch()
        yield from batches

    return frame.mapInArrow(copy, frame.schema)


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_frame_is_evaluated_once_even_if_the_commit_tries_again(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, engine: Any
) -> None:
    table, tries = table_at(tmp_path / "t"), []
    complete = ingest_module.complete_write

    def losing_once(*arguments: Any, **terms: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise Conflict("another write completed first")
        return complete(*arguments, **terms)

    monkeypatch.setattr(ingest_module, "complete_write", losing_once)
    result = table.ingest(counted(frame_of(spark), tmp_path / "evaluated"), engine=engine)
    assert (len(tries), result.inserted) == (2, COUNT)
    assert len(list((tmp_path / "evaluated").iterdir())) == 3
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_the_last_of_rows_with_one_key_wins_in_the_frames_order(tmp_path: Path, spark: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
    table = table_at(tmp_path / "t", SparkEngine(spark), schema)
    frame = spark.range(9_000, numPartitions=6).selectExpr("id % 50 as id", "'p' as part", "id as value")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "70")
    try:
        table.ingest(frame)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert table.read(["id", "value"]).sort_by("id")["value"].to_pylist() == list(range(8_950, 9_000))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.withColumnRenamed("text", "other"), "column that the table lacks: other"),
        (lambda f: f.drop("price"), "has no column price"),
        (
            lambda f: f.selectExpr("* except (id)", "if(id = 2500, null, id) as id"),
            r"partition 2 of the given DataFrame: [Rr]ow 500: .*null",
        ),
        (lambda f: f.selectExpr("* except (day)", "id as day"), "column day does not fit"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(
    tmp_path: Path, spark: Any, change: Callable[[Any], Any], says: str
) -> None:
    table = table_at(tmp_path / "t")
    before = {file: file.read_bytes() for file in (tmp_path / "t").rglob("*") if file.is_file()}
    with pytest.raises(InvalidRequest, match=says):
        table.ingest(change(frame_of(spark)))
    assert {file: file.read_bytes() for file in (tmp_path / "t").rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_frame_that_fails_says_why(tmp_path: Path, spark: Any, engine: Any) -> None:
    table = table_at(tmp_path / "t")
    bad = frame_of(spark).selectExpr("* except (text)", "if(id = 17, raise_error('row of doom'), 'x') as text")
    with pytest.raises(Unavailable, match="row of doom"):
        table.ingest(bad, engine=engine)
    assert table.read().num_rows == 0


def test_small_values_carry_many_chunks(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of a few KB each bucket is a slice of its own; the table is the one that few slices make."""
    tables = [table_at(tmp_path / name, SparkEngine(spark)) for name in ("few", "many")]
    frame = frame_of(spark)
    tables[0].ingest(frame)
    monkeypatch.setattr(spark_module, "_SLICE_BYTES", 1_000)
    tables[1].ingest(frame)
    assert sorted_rows(tables[1]) == sorted_rows(tables[0])


def test_an_upsert_and_a_delete_by_frames(tmp_path: Path, spark: Any) -> None:
    table = table_at(tmp_path / "t")
    table.ingest(frame_of(spark))
    assert table.ingest(frame_of(spark, 100)).updated == 100
    assert table.ingest(frame_of(spark, 100).select("id", "part"), "delete").deleted == 100
    assert table.ingest(frame_of(spark, 0)).instant is None
    with pytest.raises(InvalidRequest, match="key"):
        table.ingest(frame_of(spark), "insert")
    assert len(sorted_rows(table)) == COUNT - 100


def test_arrow_streams_reach_the_executors_when_asked(tmp_path: Path, spark: Any) -> None:
    tables = {engine: table_at(tmp_path / engine, SparkEngine(spark)) for engine in ("spark", "local")}
    for engine, table in tables.items():
        table.ingest(frame_of(spark).toArrow().to_reader(max_chunksize=100), engine=engine)  # type: ignore[arg-type]
    assert sorted_rows(tables["spark"]) == sorted_rows(tables["local"])

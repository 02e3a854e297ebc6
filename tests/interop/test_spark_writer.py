"""Saves of our own Spark: rows equal a model, Apache Hudi and the `hudi` package read them, each save is one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.datasource import register
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.spark_session import local_spark_engine

HudiRsReader = Callable[..., pa.Table]
Model = dict[int, dict[str, Any]]

SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("part", pa.string()),
    ("value", pa.float64()),
    ("tags", pa.list_(pa.string())),
])


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with local_spark_engine("saves"):
        spark = SparkSession.getActiveSession()
        register(spark)
        yield spark


def rows_of(ids: range, value: float) -> list[dict[str, Any]]:
    return [{"id": i, "part": f"p{i % 3}", "value": value + i, "tags": [f"t{i}"] if i % 2 else None} for i in ids]


def applied(model: Model, operation: str, rows: list[dict[str, Any]]) -> Model:
    given = {row["id"]: row for row in rows}
    match operation:
        case "delete":
            return {key: row for key, row in model.items() if key not in given}
        case "insert_overwrite":
            parts = {row["part"] for row in rows}
            return {key: row for key, row in model.items() if row["part"] not in parts} | given
        case "insert_overwrite_table":
            return given
    return model | given


STEPS = [
    ("bulk_insert", rows_of(range(30), 0.0)),
    ("upsert", rows_of(range(20, 40), 0.5)),
    ("delete", rows_of(range(5), 0.0)),
    ("insert", rows_of(range(50, 60), 1.0)),
    ("insert_overwrite", [row for row in rows_of(range(60, 70), 2.0) if row["part"] == "p1"]),
    ("upsert", rows_of(range(0, 70, 7), 3.0)),
]


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_save_is_one_commit_that_all_readers_see(
    kind: Literal["cow", "mor"], session: Any, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    path = tmp_path / "t"
    table = Table.create(
        path, name="t", record_key="id", schema=SCHEMA, partition_by="part", table_type=kind, buckets=2
    )
    assert table.config.version == 9
    model: Model = {}
    for number, (operation, rows) in enumerate(STEPS):
        frame = session.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA)).repartition(3)
        frame.write.format("hudi_ops").mode("append").option("operation", operation).save(str(path))
        model = applied(model, operation, rows)
        assert sorted(table.read().to_pylist(), key=lambda row: int(row["id"])) == [model[key] for key in sorted(model)]
        completed = list((path / ".hoodie" / "timeline").glob("*_*commit"))
        assert len(completed) == number + 2  # the first one is the empty commit of `create`
    expected = table.read(meta_columns=True)
    for read in (apache_hudi.read, hudi_rs):
        assert_same_rows(read(path), expected, with_meta=True)
    report = verify_table(table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]
    assert not list((path / ".hoodie" / ".temp").glob("staged.*/*"))

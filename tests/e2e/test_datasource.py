"""The data source on a real Spark: rows equal `Table.read`, on local cores, on a standalone cluster, and from spark-submit."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from hudi_ops.datasource import register
from hudi_ops.errors import InvalidRequest
from hudi_ops.table.table import Table
from tests.bounds import examples
from tests.e2e.spark_cluster import SPARK_HOME, spark_environment, standalone_cluster
from tests.interop.compare import assert_same_rows
from tests.interop.our_rows import SCHEMAS, as_table, row
from tests.property.conditions import Columns, conditions, picked

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = Path(__file__).with_name("user_application.py")
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table with each type, in two levels of partitions, after two commits."""
    schema = SCHEMAS["memory"]
    path = tmp_path_factory.mktemp("types") / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=schema, partition_by=["region", "month"], ordering="seq"
    )
    table.ingest(as_table([row(number, 0, number) for number in range(48)], schema))
    table.ingest(as_table([row(number, 3, 100 + number) for number in range(0, 48, 5)], schema))
    return table


def path_of(table: Table) -> str:
    return table.context.storage.uri


def test_every_type_survives(spark: Any, every_type: Table) -> None:
    assert_same_rows(
        every_type.spark_frame(spark, meta_columns=True).toArrow(), every_type.read(meta_columns=True), with_meta=True
    )


def test_options_mean_what_read_means(spark: Any, every_type: Table) -> None:
    first = sorted({str(time) for time in every_type.read(meta_columns=True)["_hoodie_commit_time"].to_pylist()})[0]
    where, columns = "month = 1 AND number > 0", ["big", "id"]
    frame = every_type.spark_frame(spark, columns, where, first)
    assert frame.columns == columns
    assert_same_rows(frame.toArrow(), every_type.read(columns, where, first))
    assert every_type.read(columns, where, first).num_rows not in {0, every_type.read(columns, where).num_rows + 100}
    frame = spark.read.format("hudi_ops").options(columns="big, id", where=where, as_of=first).load(path_of(every_type))
    assert_same_rows(frame.toArrow(), every_type.read(columns, where, first))


@settings(max_examples=examples(6, 100))
@given(data=st.data())
def test_the_option_where_selects_what_duckdb_selects(spark: Any, every_type: Table, data: st.DataObject) -> None:
    rows = every_type.read()
    drawn = data.draw(conditions(plain_columns(rows)))
    try:
        wanted = picked(drawn, rows)
        frame = every_type.spark_frame(spark, where=drawn.text)
    except (duckdb.Error, InvalidRequest):  # too many digits for DuckDB, or for Arrow
        assume(False)
    assert_same_rows(frame.toArrow(), wanted)


def plain_columns(rows: pa.Table) -> Columns:
    """The columns that filters can compare, with some of their values; times without their zone."""
    found: dict[str, tuple[pa.DataType, list[Any]]] = {}
    for field in rows.schema:
        values = rows[field.name].drop_null()
        if len(values) and not pa.types.is_nested(field.type) and not pa.types.is_binary(field.type):
            values = values.cast(pa.timestamp(field.type.unit)) if pa.types.is_timestamp(field.type) else values
            found[field.name] = field.type, values.unique().to_pylist()[:5]
    return found


def test_sql_over_a_view(spark: Any, every_type: Table) -> None:
    every_type.spark_frame(spark).createOrReplaceTempView("trips")
    found = spark.sql(
        "SELECT month, count(*) AS n, sum(price) AS paid FROM trips GROUP BY month ORDER BY month"
    ).toArrow()
    rows = (
        every_type
        .read(meta_columns=True)
        .group_by("month")
        .aggregate([([], "count_all"), ("price", "sum")])
        .sort_by("month")
    )
    assert found["n"].to_pylist() == rows["count_all"].to_pylist()
    assert found["paid"].to_pylist() == rows["price_sum"].to_pylist()


def test_a_condition_that_leaves_no_file(spark: Any, every_type: Table) -> None:
    frame = every_type.spark_frame(spark, where="month = 77")
    assert frame.count() == 0
    assert frame.schema == every_type.spark_frame(spark).schema


def test_partition_columns_that_no_file_holds(spark: Any, tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], table_type="mor"
    )
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("drop.partition.columns=false", "drop.partition.columns=true"))
    table.repair_properties("file")
    rows = [{"id": number, "part": f"p/{number % 3}", "value": number} for number in range(9)]
    table.ingest(pa.Table.from_pylist(rows, schema=SCHEMA))
    table.ingest(table.spark_frame(spark, ["id", "part", "value"], "part != 'p/1'"))
    frame = table.spark_frame(spark, ["part", "id"])
    assert_same_rows(frame.toArrow(), pa.Table.from_pylist(rows, schema=SCHEMA).select(["part", "id"]))
    assert frame.where("part = 'p/2'").count() == 3
    assert table.spark_frame(spark, ["part"]).count() == 9


def test_wrong_requests_are_told(spark: Any, every_type: Table, tmp_path: Path) -> None:
    for wrong in ({"columns": ["nope"]}, {"where": "nope = 1"}, {"as_of": "2000-01-01"}, {"where": 5}):
        with pytest.raises(InvalidRequest):
            every_type.spark_frame(spark, **wrong)
    register(spark)
    reader = spark.read.format("hudi_ops")
    with pytest.raises(Exception, match="no option limit"):
        reader.option("limit", "3").load(path_of(every_type))
    with pytest.raises(Exception, match="InvalidRequest"):
        spark.read.format("hudi_ops").load(str(tmp_path))


def test_every_fixture_reads_equal(
    spark: Any, hudi_fixtures: Callable[[str], Path], hudi_fixture_names: list[str]
) -> None:
    for name in hudi_fixture_names:
        table = Table.open(str(hudi_fixtures(name)))
        is_merged = table.config.table_type == "MERGE_ON_READ"
        for query in ("snapshot", "read_optimized") if is_merged else ("snapshot",):  # of base files alone both are one
            table.spark_frame(spark, query=query, meta_columns=True).createOrReplaceTempView("fixture")
            found = spark.sql("SELECT * FROM fixture").toArrow()
            assert_same_rows(
                found, table.read(query=query, meta_columns=True), with_meta=table.config.populate_meta_fields
            )


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is given to executors that do not have it."""
    file = tmp_path_factory.mktemp("zip") / "hudi_ops.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for source in sorted((ROOT / "hudi_ops").rglob("*.py")):
            archive.write(source, source.relative_to(ROOT))
    return file


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 rows in enough files for several tasks."""
    path = tmp_path_factory.mktemp("large") / "t"
    ids = list(range(100_000))
    table = Table.create(str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], buckets=16)
    table.ingest(pa.table({"id": ids, "part": [f"p{i % 3}" for i in ids], "value": ids}, schema=SCHEMA))
    return path


def test_a_standalone_cluster_by_spark_submit(zipped: Path, large: Path, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        answer = submitted(["--master", master, "--executor-memory", "512m"], zipped, large)
    check(answer, "spark://", zipped)


def test_spark_submit_on_local_cores(zipped: Path, large: Path) -> None:
    check(submitted(["--master", "local[2]"], zipped, large), "local[2]", zipped)


def submitted(options: list[str], zipped: Path, table: Path) -> dict[str, Any]:
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
    settings.append(f"spark.pyspark.python={sys.executable}")
    settings.append("spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    command = [str(SPARK_HOME / "bin" / "spark-submit"), *options, "--py-files", str(zipped)]
    for setting in settings:
        command += ["--conf", setting]
    done = subprocess.run(
        [*command, str(APPLICATION), str(table)],
        cwd=zipped.parent,
        env=spark_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")] or [done.stderr[-4000:]]
    return dict(json.loads(line.removeprefix("ANSWER ")))


def check(answer: dict[str, Any], master: str, zipped: Path) -> None:
    sums = [[f"p{part}", len(ids), sum(ids)] for part in range(3) for ids in [range(part, 100_000, 3)]]
    assert answer["sums"] == sums
    assert answer["written"] == ["spark", 1000, 0]
    assert answer["one"] == [7]
    assert answer["partitions"] > 1
    assert answer["master"].startswith(master)
    # The executors took the package from the zip, not from where this test runs.
    assert answer["executors"]
    assert all(zipped.name in file for file in [answer["driver"], *answer["executors"]]), answer


def test_changes_between_two_checkpoints(spark: Any, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"])
    rows = pa.table([list(range(20)), [f"p{i % 3}" for i in range(20)], [0] * 20], schema=SCHEMA)
    table.ingest(rows)
    begin = table.scan(meta_columns=True).checkpoint
    table.ingest(rows.slice(5, 4))
    found = table.changes(begin, meta_columns=True)
    frame = table.spark_frame(spark, since=begin, meta_columns=True, until=found.checkpoint)
    table.ingest(rows.slice(8, 4))  # neither the frame nor the changes follow
    assert_same_rows(frame.toArrow(), found.to_arrow(), with_meta=True)
    assert table.spark_frame(spark, ["id"], "part = 'p1'", since=begin, fence=True).count() == 2
    options = {"since": found.checkpoint, "columns": "id"}
    ids = spark.read.format("hudi_ops").options(**options).load(path_of(table)).toArrow()["id"]
    assert sorted(ids.to_pylist()) == [8, 9, 10, 11]
    with pytest.raises(InvalidRequest, match="no changes"):
        table.spark_frame(spark, since=begin, as_of="2030-01-01")

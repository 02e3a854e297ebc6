"""`frame.write.format("hudi_ops")` on a real Spark: one commit for each save, whatever fails, is repeated or is large."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.datasource import register
from hudi_ops.table.table import Table
from tests.bounds import SOAK
from tests.e2e.spark_cluster import SPARK_HOME, spark_environment, standalone_cluster
from tests.interop.compare import assert_same_rows
from tests.interop.our_rows import SCHEMAS, as_table, row

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = Path(__file__).with_name("saving_application.py")
# Of 1,000 bytes each.
LARGE_ROWS = 700_000
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])


def made_table(path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> Table:
    return Table.create(str(path), name="t", schema=schema, **{"record_key": "id", "partition_by": "part", **options})


def commits(path: Path) -> int:
    return len(list((path / ".hoodie" / "timeline").glob("*_*commit")))


def files(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def save(frame: Any, path: Path, **options: str) -> None:
    frame.write.format("hudi_ops").mode("append").options(**options).save(str(path))


def test_every_type_arrives(spark: Any, tmp_path: Path) -> None:
    register(spark)
    schema = SCHEMAS["memory"]
    table = made_table(tmp_path / "t", schema, partition_by=["region", "month"])
    rows = as_table([row(number, 0, number) for number in range(24)], schema)
    other = made_table(tmp_path / "other", schema, partition_by=["region", "month"])
    other.ingest(rows)
    save(other.spark_frame(spark, meta_columns=True), tmp_path / "t")
    assert_same_rows(table.read(), rows)


def test_a_task_that_failed_after_it_staged_rows_is_repeated_and_adds_nothing(spark: Any, tmp_path: Path) -> None:
    """The first attempt stages 32 MB in a file, then fails; the second one succeeds."""
    register(spark)
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string())])
    made_table(tmp_path / "t", schema)
    temp, note = tmp_path / "t" / ".hoodie" / ".temp", tmp_path / "staged before the failure"

    def failing(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            until = time.monotonic() + 60
            while not (found := list(temp.rglob("*.arrow"))) and time.monotonic() < until:
                time.sleep(0.05)  # between two looks for a file of another process
            note.write_text(str(len(found)))
            raise ValueError("the first attempt fails")

    frame = spark.range(100, numPartitions=2).selectExpr("id", "concat('p', id % 2) part", "repeat(id, 500000) text")
    # Batches of a few rows, so that the failure comes after the first staged file.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    try:
        save(frame.mapInArrow(failing, frame.schema), tmp_path / "t", operation="bulk_insert")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert int(note.read_text()) >= 1
    read = Table.open(str(tmp_path / "t")).read(["id", "text"])
    assert sorted(read["id"].to_pylist()) == list(range(100))
    assert read["text"].to_pylist() == [str(number) * 500_000 for number in read["id"].to_pylist()]
    assert not list(temp.rglob("*.arrow"))


def test_an_aborted_job_leaves_the_table_and_its_staging_area_as_they_were(spark: Any, tmp_path: Path) -> None:
    register(spark)
    path = tmp_path / "t"
    table = made_table(path)
    table.ingest(pa.table({"id": [1], "part": ["p1"], "value": [1]}, schema=SCHEMA))
    before = files(path)

    def failing(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 1:
            # Of a task that still runs when the job is aborted, a file may come later.
            until = time.monotonic() + 30
            while not list((path / ".hoodie/.temp").rglob("*.arrow")) and time.monotonic() < until:
                time.sleep(0.05)
            raise ValueError("every attempt fails")

    frame = spark.range(1000, numPartitions=2).selectExpr("id", "concat('p', id % 2) part", "id value")
    with pytest.raises(Exception, match="every attempt fails"):
        save(frame.mapInArrow(failing, frame.schema), path)
    assert files(path) == before


def test_a_mode_or_operation_that_is_not_supported_is_refused(spark: Any, tmp_path: Path) -> None:
    register(spark)
    path = tmp_path / "t"
    made_table(path)
    before = files(path)
    frame = spark.range(3).selectExpr("id", "'p' part", "id value")
    with pytest.raises(Exception, match=r"InvalidRequest: the mode overwrite [^T]*\n  expected append"):
        frame.write.format("hudi_ops").mode("overwrite").save(str(path))
    for mode in ("ignore", "errorifexists"):  # refused by Spark itself, which asks no data source
        with pytest.raises(Exception, match="cannot be written in the"):
            frame.write.format("hudi_ops").mode(mode).save(str(path))
    with pytest.raises(Exception, match="expected upsert or insert or delete") as caught:
        save(frame, path, operation="merge")
    assert "Traceback" not in str(caught.value)
    assert files(path) == before


if SOAK:

    def test_a_speculative_copy_of_a_task_adds_nothing(tmp_path: Path) -> None:
        """The first attempt of a task stages its rows and waits until the speculative copy has staged them, too."""
        table = made_table(tmp_path / "t")
        conf = ["spark.speculation=true", "spark.speculation.interval=100ms", "spark.speculation.quantile=0.3"]
        conf += [
            "spark.speculation.multiplier=1.0",
            "spark.speculation.minTaskRuntime=100ms",
            "spark.executor.memory=512m",
        ]
        with standalone_cluster(tmp_path, hosts=("127.0.0.1", "127.0.0.2")) as master:
            answer = submitted(master, conf, "speculation", tmp_path)
        assert answer["attempts"] == [0, 1]  # both ran
        assert sorted(table.read()["id"].to_pylist()) == list(range(300))
        assert commits(tmp_path / "t") == 2

    def test_a_frame_larger_than_the_drivers_memory_is_written(tmp_path: Path) -> None:
        """A JVM of 512 MB takes more bytes of rows, and the process that commits never holds them."""
        schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string())])
        table = made_table(tmp_path / "t", schema, buckets=16, metadata=False)
        answer = submitted("local[2]", ["spark.driver.memory=512m"], "large", tmp_path)
        assert answer["bytes"] > 512 << 20
        assert 0 < answer["peak"] < answer["bytes"]
        assert table.scan().count_rows() == answer["rows"]
        assert table.read(["text"], "id = 77777")["text"].to_pylist() == [answer["sample"]]
        assert commits(tmp_path / "t") == 2


def submitted(master: str, conf: list[str], case: str, folder: Path) -> dict[str, Any]:
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", *conf]
    settings += [f"spark.pyspark.python={sys.executable}", f"spark.executorEnv.PYTHONPATH={ROOT}"]
    settings += ["spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
    for setting in settings:
        command += ["--conf", setting]
    done = subprocess.run(
        [*command, str(APPLICATION), case, str(folder / "t"), str(folder)],
        cwd=folder,
        env=spark_environment(PYTHONPATH=str(ROOT), ROWS=str(LARGE_ROWS)),
        capture_output=True,
        text=True,
        timeout=550,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    return dict(json.loads(lines[0].removeprefix("ANSWER ")))

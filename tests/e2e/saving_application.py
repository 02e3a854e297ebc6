"""A Spark application that saves a DataFrame through `hudi_ops`, and says what it did as JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

WAIT_S = 60
TEXT = 1000


def speculation(spark: Any, table: str, folder: Path) -> dict[str, Any]:
    """Save three partitions; the first attempt of the last one waits for its speculative copy."""

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from batches
        if context is None or context.partitionId() != 2:
            return
        (folder / f"attempt {context.attemptNumber()}").touch()
        until = time.monotonic() + WAIT_S
        while context.attemptNumber() == 0 and time.monotonic() < until and not (folder / "attempt 1").exists():
            time.sleep(0.05)  # between two looks for a file of the other attempt

    frame = spark.range(300, numPartitions=3).selectExpr("id", "concat('p', id % 2) part", "id value")
    save(frame.mapInArrow(slow, frame.schema), table)
    return {"attempts": sorted(int(file.name.split()[1]) for file in folder.glob("attempt *"))}


def large(spark: Any, table: str, folder: Path) -> dict[str, Any]:
    """Save more rows than the memory of driver and commit holds; tell the highest memory of the commit's process in bytes."""
    rows, peaks, done = int(os.environ["ROWS"]), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            for status in Path("/proc").glob("[0-9]*/status"):
                with suppress(OSError):
                    text = status.read_text()
                    if "commit_data_source_write" in (status.parent / "cmdline").read_text():
                        peaks.append(int(text.partition("VmHWM:")[2].split()[0]) * 1024)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    frame = spark.range(rows, numPartitions=8).selectExpr(
        "id", "concat('p', id % 2) part", f"rpad(id, {TEXT}, 'x') text"
    )
    save(frame, table, memory_bytes=64 << 20)
    done.set()
    watcher.join()
    return {"rows": rows, "bytes": rows * TEXT, "peak": max(peaks), "sample": "77777".ljust(TEXT, "x")}


def save(frame: Any, table: str, **options: Any) -> None:
    frame.write.format("hudi_ops").mode("append").options(operation="bulk_insert", **options).save(table)


def main(case: str, table: str, folder: str) -> None:
    spark = SparkSession.builder.appName("saves").getOrCreate()
    from hudi_ops.datasource import register

    register(spark)
    answer = {"speculation": speculation, "large": large}[case](spark, table, Path(folder))
    print("ANSWER " + json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

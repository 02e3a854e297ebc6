"""A table in a bucket, written by Spark's workers: each opens the store in its own process, none was forked from one that did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.engine.spark import SparkEngine
from hudi_ops.storage.object_store import ObjectStorage
from hudi_ops.verify import verify_table
from tests.storage.servers import S3_SETTINGS, moto

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])


@pytest.fixture
def executors_with_keys(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of an S3 server that this process and the session's workers are led to."""
    with moto(tmp_path) as url:
        settings = {**S3_SETTINGS, "AWS_ENDPOINT_URL": url}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        # What spark.executorEnv.* sets when a session begins; this one began without.
        before = dict(spark.sparkContext.environment)
        spark.sparkContext.environment.update(settings)
        yield url
        spark.sparkContext.environment.clear()
        spark.sparkContext.environment.update(before)


def rows(start: int, stop: int, value: int) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table({"id": ids, "part": [f"p{i % 3}" for i in ids], "value": [value] * len(ids)}, schema=SCHEMA)


def test_spark_writes_a_table_in_a_bucket(executors_with_keys: str, spark: Any) -> None:
    boto3.client("s3", endpoint_url=executors_with_keys).create_bucket(Bucket="spark")
    uri = "s3://spark/tables/t"
    ObjectStorage(uri).list()  # the driver's store is in use before the first worker is started
    engine = SparkEngine(spark)
    table = Table.create(
        uri, name="t", record_key=["id"], partition_by=["part"], schema=SCHEMA, buckets=2, engine=engine
    )
    assert table.ingest(rows(0, 300, 1), engine="spark").file_groups == 6
    table.ingest(rows(100, 400, 2), engine="spark")
    table.ingest(rows(0, 50, 0), operation="delete", engine="spark")
    found = table.read(["id", "value"])
    values = dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert found.num_rows == len(values)
    assert values == {number: 1 if number < 100 else 2 for number in range(50, 400)}
    assert verify_table(table.context.storage, deep=True).findings == ()

"""One local Spark session of the product's own pyspark, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from hudi_ops.engine.spark import SparkEngine


@contextmanager
def local_spark_engine(app_name: str) -> Iterator[SparkEngine]:
    """An engine over two local cores; the session is stopped at the end, the JVM stays for the next one."""
    session = (
        SparkSession.builder
        .master("local[2]")
        .appName(app_name)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield SparkEngine(session, tasks_per_core=1)
    finally:
        session.stop()

"""The one Spark session of all variants: same version, same settings, with or without Apache Hudi's bundle."""

from __future__ import annotations

import os
import sys
from typing import Any

CORES = 2
PARALLELISM = 4


def start_session(app_name: str, jar: str | None, work: str, driver_memory: str) -> Any:
    """A local session; workers run this process's Python.

    Args:
        app_name: shown in logs.
        jar: Apache Hudi's bundle; None leaves its extensions out.
        work: folder for what Spark writes beside the tables.
        driver_memory: heap of the JVM.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder
        .master(f"local[{CORES}]")
        .appName(app_name)
        .config("spark.driver.memory", driver_memory)
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.default.parallelism", str(PARALLELISM))
        .config("spark.sql.shuffle.partitions", str(PARALLELISM))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", f"{work}/spark")
        .config("spark.sql.warehouse.dir", f"{work}/warehouse")
    )
    if jar is not None:
        builder = (
            builder
            .config("spark.jars", jar)
            .config("spark.driver.extraClassPath", jar)
            .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
            .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session

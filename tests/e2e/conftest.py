"""One real Spark session for the tests that need one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Two cores, and two tries a task: the second is what some tests are about."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder
        .master("local[2,2]")
        .appName("hudi-ops-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.pyspark.python", sys.executable)
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()

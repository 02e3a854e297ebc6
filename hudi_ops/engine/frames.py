"""PySpark DataFrames, told apart and looked at without importing PySpark, which takes a second and may not be wanted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def is_spark_frame(data: Any) -> bool:
    """Whether it is a DataFrame of PySpark, classic or Connect."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(data).__mro__
    )


def has_executors(frame: Any) -> bool:
    """Whether tasks of ours can run where its rows are; over Spark Connect they cannot."""
    return hasattr(frame.sparkSession, "sparkContext")


def frame_schema(frame: Any) -> pa.Schema:
    """Its columns as Arrow; zoned times carry the session's zone. Nothing is evaluated.

    Raises:
        Unavailable: Spark could not say.
    """
    return frame_as_table(frame.limit(0)).schema


def frame_as_table(frame: Any) -> pa.Table:
    """Its rows, collected as Arrow into this process, through the driver's memory.

    Raises:
        Unavailable: the job failed; also when there is more than `spark.driver.maxResultSize`.
    """
    from hudi_ops.engine.spark import failing

    with failing():
        return frame.toArrow()

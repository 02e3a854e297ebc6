"""Inspection of PySpark DataFrames without the import of PySpark, which takes a second."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def is_spark_frame(data: Any) -> bool:
    """Return whether an object is a DataFrame of PySpark, classic or Connect."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(data).__mro__
    )


def has_executors(frame: Any) -> bool:
    """Return whether tasks can run on the executors of a frame; over Spark Connect they cannot."""
    return hasattr(frame.sparkSession, "sparkContext")


def frame_schema(frame: Any) -> pa.Schema:
    """Return the columns of a frame as Arrow, without rows; zoned times have the session's zone.

    Raises:
        Unavailable: Spark did not answer.
    """
    return frame_as_table(frame.limit(0)).schema


def frame_as_table(frame: Any) -> pa.Table:
    """Collect the rows of a frame as Arrow in this process, through the driver's memory.

    Raises:
        Unavailable: the job failed; also when there is more than `spark.driver.maxResultSize`.
    """
    from hudi_ops.engine.spark import failing

    with failing():
        return frame.toArrow()

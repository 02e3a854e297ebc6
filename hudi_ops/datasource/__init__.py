"""Provide `spark.read.format("hudi_ops")` and `frame.write.format("hudi_ops")`.

Call `register(spark)` once a session. Imported by `table`, `verify`, `testing` and `cli`. Read first: source.py.
"""

from __future__ import annotations

from typing import Any

from hudi_ops.errors import not_installed


def register(spark: Any) -> None:
    """Make the format `hudi_ops` known to a session; a second call changes nothing.

    Raises:
        Unsupported: pyspark or pandas is not installed.
    """
    try:
        from hudi_ops.datasource.source import register as register_source
    except ImportError as error:
        missing = not_installed("the Spark data source", "spark")
        raise missing from error
    register_source(spark)

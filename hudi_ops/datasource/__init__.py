"""Provide the Spark format `hudi_ops`: call `register(spark)` once a session.

Imported by `table`, `verify`, `testing` and `cli`. Read first: source.py.
"""

from __future__ import annotations

from hudi_ops.errors import not_installed

try:
    from hudi_ops.datasource.source import register
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"pyspark", "pandas"}:
        raise
    raise not_installed("the Spark data source", "spark") from error

__all__ = ["register"]

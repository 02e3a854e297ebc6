"""Provide `spark.read.format("hudi_ops")` and `frame.write.format("hudi_ops")`: call `register(spark)` once a session.

Imported by `table`, `verify`, `testing` and `cli`. Read first: source.py.
"""

from __future__ import annotations

from hudi_ops.datasource.source import register

__all__ = ["register"]

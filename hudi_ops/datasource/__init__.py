"""Provide `spark.read.format("hudi_ops")` and `frame.write.format("hudi_ops")`.

Call `register(spark)` once a session. Imported by `table`, `verify`, `testing` and `cli`. Read first: source.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from hudi_ops.errors import not_installed
from hudi_ops.storage.protocol import Storage


def register(spark: Any) -> None:
    """Make the format `hudi_ops` known to a session; a second call changes nothing.

    Raises:
        Unsupported: pyspark or pandas is not installed.
    """
    _source("the Spark data source").register(spark)


def frame_of(
    spark: Any, storage: Storage, columns: Sequence[str] | None, wanted: Mapping[str, str | None] | None = None
) -> Any:
    """Return a DataFrame over the table at a storage's root; see `source.frame_of`.

    Raises:
        InvalidRequest: an unknown column or instant, a filter that is no text, or one that does not fit.
        Unsupported: pyspark or pandas is not installed, or as `source.frame_of`.
    """
    return _source("a DataFrame of Spark").frame_of(spark, storage, columns, wanted)


def _source(feature: str) -> ModuleType:
    try:
        from hudi_ops.datasource import source
    except ImportError as error:
        missing = not_installed(feature, "spark", found=str(error))
        raise missing from error
    return source

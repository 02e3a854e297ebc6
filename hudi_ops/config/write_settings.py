"""How a writer writes, where a table leaves it open."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from hudi_ops.errors import InvalidRequest

LogFormat: TypeAlias = Literal["parquet", "avro"]
"""Format of the rows in log files: `parquet` is faster and a third of the bytes, `avro` what Apache Hudi writes by default."""


def checked_format(name: str) -> LogFormat:
    """The format of log files of that name.

    Raises:
        InvalidRequest: there is none.
    """
    for one in get_args(LogFormat):
        if one == name:
            return one  # type: ignore[no-any-return]
    raise InvalidRequest(
        f"unknown format of log files {name!r}", expected="parquet or avro", found=name, setting="log_format"
    )

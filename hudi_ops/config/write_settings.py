"""How a writer writes, where a table leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hudi_ops.errors import InvalidRequest

LogFormat: TypeAlias = Literal["parquet", "avro"]
"""Format of the rows in log files: `parquet` is faster and a third of the bytes, `avro` what Apache Hudi writes by default."""

METADATA_COMPACT_AFTER = 10
"""After so many of its delta commits a metadata table is compacted, as Apache Hudi's are."""


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


@dataclass(frozen=True, slots=True)
class FileSizes:
    """How large base files get, where new keys may go to any file group: in tables without the bucket index.

    Attributes:
        target_bytes: new keys fill a file group up to about so much (Apache Hudi: `hoodie.parquet.max.file.size`).
        small_bytes: a group below this takes new keys before another one begins (`hoodie.parquet.small.file.limit`); 0: none does.
    """

    target_bytes: int = 120 << 20
    small_bytes: int = 100 << 20

    def __post_init__(self) -> None:
        if self.target_bytes < 1 or self.small_bytes < 0:
            raise InvalidRequest(
                "sizes of base files must be positive",
                expected="target_bytes of 1 or more, small_bytes of 0 or more",
                found=f"{self.target_bytes} and {self.small_bytes}",
                setting="file_sizes",
            )

"""`.hoodie_partition_metadata`, by which Apache Hudi finds a partition; written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hudi_ops.errors import Corrupt
from hudi_ops.formats import properties

FILE_NAME: Final = ".hoodie_partition_metadata"
"""Name of the file in each partition's directory."""

_COMMIT_TIME: Final = "commitTime"
_DEPTH: Final = "partitionDepth"


@dataclass(frozen=True)
class PartitionMetadata:
    """Content of the file.

    Attributes:
        commit_time: request time of the instant that created the partition.
        depth: number of path levels between base path and partition; 0 for a table without partitions.
    """

    commit_time: str
    depth: int


def dumps(instant: str, depth: int, now_ms: int) -> bytes:
    """Encode the file's bytes, with a date comment for `now_ms` (docs/format §6.4)."""
    values = {_COMMIT_TIME: instant, _DEPTH: str(depth)}
    return properties.dumps(values, comment="partition metadata", now_ms=now_ms)


def loads(data: bytes, path: str = "") -> PartitionMetadata:
    """Read the file's bytes (docs/format §6.4).

    Raises:
        Corrupt: not Java Properties text, or one of the two keys is missing or no number.
    """
    values = properties.loads(data, path)
    return PartitionMetadata(_digits(values, _COMMIT_TIME, path), int(_digits(values, _DEPTH, path)))


def _digits(values: dict[str, str], key: str, path: str) -> str:
    value = values.get(key, "")
    # A length limit, since Python refuses to convert numbers of thousands of digits.
    if not (value.isascii() and value.isdigit() and len(value) <= 20):
        raise Corrupt(
            f"{path or 'A partition metadata file'} has no usable {key}",
            expected="decimal digits",
            found=repr(value) if value else "no such key",
            next_step="delete the file; the next write to the partition writes it again",
            path=path,
        )
    return value

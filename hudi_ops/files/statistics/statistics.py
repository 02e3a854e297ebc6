"""Statistics of a data file: its size, column ranges, bloom filter and keys."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Values that one file holds in one column (docs/format §14.7).

    `least` and `greatest` are one-row Arrow arrays of the column's type in the table (null in both: every value is null), so
    that ranges of many files are merged without a Python value each. `values` counts all, nulls among them; sizes in bytes, 0
    for log files.

    Floats are ordered as Java and Spark order them: NaN is the greatest value of all, so where a column holds one, `greatest`
    is NaN. Arrow's kernels ignore NaN: `column_ranges.merged_range` merges ranges.
    """

    column: str
    least: pa.Array
    greatest: pa.Array
    nulls: int
    values: int
    size: int = 0
    uncompressed_size: int = 0


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """Statistics of one new data file for the metadata table (docs/format §14).

    `ranges` lacks the columns whose bounds are not known: a record without bounds would prune the file. `bloom` is the
    filter's text as in the footer, and `bloom_type` its type code; None for log files. `added` are record keys that were not
    in the file group before, or may not have been, and `removed` those that are certainly not there any more, each key once,
    in no order; both None if they were not requested. A log file that removes a key does not prove that the group held it.
    """

    path: str
    partition_path: str
    file_id: str
    size_bytes: int
    is_log: bool
    ranges: tuple[ColumnRange, ...] = ()
    bloom: str | None = None
    added: pa.Array | None = None
    removed: pa.Array | None = None
    bloom_type: str | None = None

    @property
    def name(self) -> str:
        """Last segment of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """Statistics that a table's metadata table needs; only these are computed.

    `columns` are those with statistics, in the order of the index definition, meta columns among them; empty: no statistics.
    """

    columns: tuple[str, ...] = ()
    bloom: bool = False
    keys: bool = False

    def __bool__(self) -> bool:
        return bool(self.columns) or self.bloom or self.keys

    def covers(self, other: StatisticsRequest) -> bool:
        """Return whether statistics for this request include all that `other` requests."""
        return set(other.columns) <= set(self.columns) and self.bloom >= other.bloom and self.keys >= other.keys


NO_FACTS = StatisticsRequest()

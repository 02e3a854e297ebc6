"""Records of the partition `partition_stats`: ranges of partitions (docs/format §14.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.metadata.prune.grouped_bounds import Longs, greatest_of, least_of
from hudi_ops.metadata.records.column_stats import Ranges, default_index_version, kind_of, range_values
from hudi_ops.metadata.records.keys import partition_hash, product_keys
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records, sorted_records
from hudi_ops.metadata.records.stat_values import ValueKind, to_physical, widened, widest

_STATS: Final = MetadataPartition.PARTITION_STATS


def partition_stats_records(
    statistics: Sequence[FileStatistics],
    *,
    version: int,
    tight: bool,
    columns: Mapping[str, pa.DataType] | None = None,
    index_version: int | None = None,
) -> Records:
    """Return records of the partitions of these files.

    `tight`: `statistics` are all files of their partitions, so that the ranges replace others; else these widen. Bounds of a column
    that one file lacks exclude nothing, since Apache Hudi skips a partition without a record; `columns` None: those with ranges.
    `index_version` None: that of a new table.

    Raises:
        Unsupported: a range in a type that has no bounds in a metadata table.
    """
    given = statistics if columns is None else [_completed(each, columns) for each in statistics]
    found = [each for stat in given for each in stat.ranges]
    partitions = {path: at for at, path in enumerate(dict.fromkeys(stat.partition_path for stat in given))}
    names = {name: at for at, name in enumerate(dict.fromkeys(each.column for each in found))}
    partition_at = np.repeat(
        np.fromiter((partitions[stat.partition_path] for stat in given), np.int64, len(given)),
        [len(stat.ranges) for stat in given],
    )
    column_at = np.fromiter((names[each.column] for each in found), np.int64, len(found))
    pairs, group = np.unique(column_at * len(partitions) + partition_at, return_inverse=True)
    ranges = _grouped(
        found, group, pairs, list(partitions), list(names), index_version or default_index_version(version)
    )
    rest = pa.array([partition_hash(path) for path in partitions], pa.string())
    keys = product_keys(ranges.columns, rest, pa.array(ranges.column_at), pa.array(ranges.name_at))
    values = range_values(_STATS, ranges, is_tight=tight, version=version)
    return sorted_records(_STATS, keys, values, version=version)


def _completed(stat: FileStatistics, columns: Mapping[str, pa.DataType]) -> FileStatistics:
    held = {each.column: each for each in stat.ranges}
    if held.keys() == columns.keys():
        return stat
    # One null of two values: neither IS NULL nor IS NOT NULL may exclude it.
    ranges = tuple(held.get(name) or ColumnRange(name, *widest(kind), 1, 2) for name, kind in columns.items())
    return FileStatistics(stat.path, stat.partition_path, stat.file_id, stat.size_bytes, stat.is_log, ranges)


def _grouped(
    found: Sequence[ColumnRange],
    group: Longs,
    pairs: Longs,
    partitions: Sequence[str],
    columns: Sequence[str],
    index_version: int,
) -> Ranges:
    """Merge the ranges of each pair of column and partition."""
    column_at, partition_at = pairs // len(partitions) if len(pairs) else pairs, pairs % max(1, len(partitions))
    types = _types(found)
    numbers = {kind: at for at, kind in enumerate(dict.fromkeys(types.values()))}
    kind_of_column = np.array([numbers[types[name]] for name in columns], np.int64)
    kind_at = kind_of_column[column_at] if len(columns) else np.zeros(0, np.int64)
    of_range = kind_at[group]
    kinds: list[ValueKind | None] = []
    bounds = []
    for kind, at in numbers.items():
        (rows,) = np.nonzero(of_range == at)
        (own,) = np.nonzero(kind_at == at)
        if kind is None:
            kinds.append(None)
            bounds.append((pa.nulls(len(own)), pa.nulls(len(own))))
            continue
        written = kind_of(kind, index_version)
        groups = np.searchsorted(own, group[rows])
        sides = [_side(found, rows, kind, place) for place in (0, 1)]
        kinds.append(written)
        bounds.append((
            to_physical(least_of(sides[0], groups, len(own)), written),
            to_physical(greatest_of(sides[1], groups, len(own)), written),
        ))
    counted = [
        [each.values for each in found],
        [each.nulls for each in found],
        [each.size for each in found],
        [each.uncompressed_size for each in found],
    ]
    values, nulls, sizes, unpacked = (_summed(each, group, len(pairs)) for each in counted)
    counts = (values, nulls, sizes, unpacked)
    return Ranges(index_version, columns, column_at, partitions, partition_at, kinds, kind_at, bounds, counts)


def _types(found: Sequence[ColumnRange]) -> dict[str, pa.DataType | None]:
    """Return each column's type: the last that a range has."""
    types: dict[str, pa.DataType | None] = {}
    for each in found:
        kind = each.least.type
        if each.column not in types or not pa.types.is_null(kind):
            types[each.column] = None if pa.types.is_null(kind) else kind
    return types


def _side(found: Sequence[ColumnRange], rows: Longs, kind: pa.DataType, place: int) -> pa.Array:
    """Return one bound of these ranges in one type."""
    ends = [(found[row].least, found[row].greatest)[place] for row in rows.tolist()]
    if any(end.type != kind for end in ends):
        ends = [_fitted(end, kind, place) for end in ends]
    return pa.concat_arrays(ends)


def _fitted(end: pa.Array, kind: pa.DataType, place: int) -> pa.Array:
    fitted = widened(end, kind)
    return widest(kind)[place] if fitted is None else fitted


def _summed(numbers: Sequence[int], group: Longs, count: int) -> Longs:
    totals = np.zeros(count, np.int64)
    np.add.at(totals, group, np.array(numbers, np.int64))
    return totals

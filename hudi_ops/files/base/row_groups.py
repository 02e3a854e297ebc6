"""Row groups of a base file by its footer: bounds of columns, and record keys."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.errors import Corrupt
from hudi_ops.files.base.widen import widen
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table

logger = logging.getLogger(__name__)

Constants = tuple[tuple[str, Any], ...]
"""Columns that have one value in all rows of a file, which does not hold them: names and plain values."""


def row_group_bounds(
    file: pq.ParquetFile, columns: Sequence[str], schema: pa.Schema, constants: Constants = ()
) -> pa.Table:
    """Return bounds of some columns in each row group, in the types of the table.

    Truncated statistics are bounds all the same. Writers leave out NaN; a bound that is NaN is ignored.

    Args:
        columns: names in `schema`; one that the file lacks is null in all its rows.
        constants: columns with one value, which replaces that of the file.

    Source: docs/format §6.3.
    """
    units = file.metadata.num_row_groups
    made = {}
    leaves, stored, fixed = leaf_numbers(file), file.schema_arrow, dict(constants)
    for name in columns:
        kind = schema.field(name).type
        if name in fixed:
            made[name] = ColumnBounds.exactly(
                pa.array([fixed[name]] * units, kind), pa.array([True] * units, pa.bool_())
            )
            continue
        at = stored.get_all_field_indices(name)
        # None for a nested one, or when a dotted name could be either.
        leaf = leaves.get(name)
        if not at:
            made[name] = ColumnBounds.all_null(kind, units)
        elif len(at) > 1 or leaf is None or not keeps_order(stored.field(at[0]).type, kind):
            made[name] = ColumnBounds.unknown(kind, units)
        else:
            made[name] = _column_bounds(file, leaf, stored.field(at[0]).type, kind)
    return bounds_table(made, units)


def may_hold_keys(file: pq.ParquetFile, keys: tuple[str, ...], path: str) -> bool:
    """Return whether a key may be in the file, by key range and filter (docs/format §7)."""
    try:
        return parquet_footer.may_hold(file.metadata.metadata, keys, path)
    except Corrupt as error:
        # The rows can be read without the filter; `verify` reports that it is broken.
        logger.warning("%s is read in full: %s", path, error)
        return True


def leaf_numbers(file: pq.ParquetFile) -> dict[str, int | None]:
    """Return the numbers of the file's leaves by dotted path.

    None stands where several leaves have the path. The path of a flat column is its name.
    """
    schema, found = file.schema, dict[str, int | None]()
    for leaf in range(len(schema)):
        path = schema.column(leaf).path
        found[path] = None if path in found else leaf
    return found


def keeps_order(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a cast from one type to the other keeps order, so that bounds stay bounds."""
    is_kind = pa.types
    if pa.types.is_nested(kind):
        return False
    numbers = (is_kind.is_integer, is_kind.is_floating, is_kind.is_decimal)
    if any(test(stored) for test in numbers) and any(test(kind) for test in numbers):
        return not (is_kind.is_floating(stored) and not is_kind.is_floating(kind))
    if is_kind.is_timestamp(stored) and is_kind.is_timestamp(kind):
        return bool(stored.tz == kind.tz)
    return bool(stored == kind)


def _column_bounds(file: pq.ParquetFile, leaf: int, stored: pa.DataType, kind: pa.DataType) -> ColumnBounds:
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: list[bool | None] = []
    values: list[bool | None] = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        statistics = group.column(leaf).statistics
        counts = statistics is not None and statistics.has_null_count
        nulls.append(statistics.null_count > 0 if counts else None)
        values.append(statistics.null_count < group.num_rows if counts else None)
        low, high = ends_of(statistics, stored, kind)
        lows.append(low)
        highs.append(high)
    flags = (pa.array(nulls, pa.bool_()), pa.array(values, pa.bool_()))
    return ColumnBounds(_array(lows, kind), _array(highs, kind), *flags)


def _array(scalars: Sequence[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    parts = [pa.nulls(1, kind) if scalar is None else pa.repeat(scalar, 1) for scalar in scalars]
    return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)


def ends_of(statistics: Any, stored: pa.DataType, kind: pa.DataType) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    """Return least and greatest value of a column chunk, in the table's type; None if unknown."""
    try:
        if statistics is None or not statistics.has_min_max:
            return None, None
        if pa.types.is_timestamp(stored):
            # As the number on disk: Python times cannot represent all of them.
            ends = [pa.scalar(int(raw), pa.int64()).cast(stored) for raw in (statistics.min_raw, statistics.max_raw)]
        else:
            ends = [pa.scalar(end, stored) for end in (statistics.min, statistics.max)]
        if stored != kind:
            # In the same way as the rows are converted: the double of a float differs from the result of a cast.
            ends = list(widen(pa.chunked_array([pa.repeat(end, 1) for end in ends], stored), kind))
        low, high = ends
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None, None  # text that is not UTF-8, a date out of Python's range: nothing is known then
    if pa.types.is_floating(kind) and not (low.as_py() <= high.as_py()):
        return None, None  # NaN
    return low, high

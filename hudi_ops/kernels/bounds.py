"""Bounds of the columns of many units: partitions, files or row groups, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

LOW, HIGH, NULLS, VALUES, NANS = "low.", "high.", "nulls.", "values.", "nans."
"""Prefixes of column names in a table of bounds; they differ, so no two columns get one name."""


@dataclass(frozen=True)
class ColumnBounds:
    """Bounds of one column in n units; null means unknown.

    Attributes:
        low: n values of the column's type; no value of the unit is smaller.
        high: n values; no value of the unit is larger.
        has_nulls: n booleans: whether the unit holds a null.
        has_values: n booleans: whether the unit holds a value that is not null.
    """

    low: pa.Array
    high: pa.Array
    has_nulls: pa.Array
    has_values: pa.Array

    @classmethod
    def unknown(cls, kind: pa.DataType, units: int) -> ColumnBounds:
        """Return bounds that are all unknown, that is, null."""
        values, flags = pa.nulls(units, kind), pa.nulls(units, pa.bool_())
        return cls(values, values, flags, flags)

    @classmethod
    def all_null(cls, kind: pa.DataType, units: int) -> ColumnBounds:
        """Return the bounds of a column that holds nulls only, for example one that a file lacks."""
        values = pa.nulls(units, kind)
        return cls(values, values, pa.array([True] * units, pa.bool_()), pa.array([False] * units, pa.bool_()))

    @classmethod
    def exactly(cls, values: pa.Array, is_known: pa.Array) -> ColumnBounds:
        """Return the bounds of a column with one value per unit; unknown where `is_known` is false."""
        unknown = pa.scalar(None, pa.bool_())
        flags = (pc.if_else(is_known, flag, unknown) for flag in (values.is_null(), values.is_valid()))
        return cls(values, values, *flags)


def bounds_table(columns: Mapping[str, ColumnBounds], units: int) -> pa.Table:
    """Return bounds of n units as one table, with the names that `kernels.condition` expects."""
    made: dict[str, pa.Array] = {}
    for name, bounds in columns.items():
        made[LOW + name], made[HIGH + name] = bounds.low, bounds.high
        made[NULLS + name], made[VALUES + name] = bounds.has_nulls, bounds.has_values
        # Statistics leave out NaN, so any floating-point column may hold some.
        is_floating = pa.types.is_floating(bounds.low.type)
        made[NANS + name] = pa.array([is_floating] * units, pa.bool_())
    return pa.table(made) if made else pa.table({"": pa.nulls(units)})

"""What is known of the columns of many units of rows (partitions, files, row groups), one unit a row of an Arrow table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

LOW, HIGH, NULLS, VALUES, NANS = "low.", "high.", "nulls.", "values.", "nans."
"""What stands before a column's name in a table of bounds; the prefixes differ, so no two columns can meet under one name."""


@dataclass(frozen=True)
class ColumnBounds:
    """One column in n units; null means: not known.

    Attributes:
        low: n values of the column's type, none above any value of the unit.
        high: n values, none below any value of the unit.
        has_nulls: n booleans: whether the unit holds a null.
        has_values: n booleans: whether the unit holds anything else.
    """

    low: pa.Array
    high: pa.Array
    has_nulls: pa.Array
    has_values: pa.Array

    @classmethod
    def unknown(cls, kind: pa.DataType, units: int) -> ColumnBounds:
        """Nothing is known."""
        values, flags = pa.nulls(units, kind), pa.nulls(units, pa.bool_())
        return cls(values, values, flags, flags)

    @classmethod
    def all_null(cls, kind: pa.DataType, units: int) -> ColumnBounds:
        """A column that holds nulls only, for example one that a file does not have."""
        values = pa.nulls(units, kind)
        return cls(values, values, pa.array([True] * units, pa.bool_()), pa.array([False] * units, pa.bool_()))

    @classmethod
    def exactly(cls, values: pa.Array, is_known: pa.Array) -> ColumnBounds:
        """A column that holds one value in each unit, null included.

        Args:
            values: the value of each unit.
            is_known: n booleans without nulls; where false, nothing is known of the unit.
        """
        null_at, value_at = values.is_null().to_pylist(), values.is_valid().to_pylist()
        known = is_known.to_pylist()
        flags = [
            pa.array([flag if is_so else None for flag, is_so in zip(at, known, strict=True)], pa.bool_())
            for at in (null_at, value_at)
        ]
        return cls(values, values, *flags)


def bounds_table(columns: Mapping[str, ColumnBounds], units: int) -> pa.Table:
    """The bounds of several columns side by side, under the names that `kernels.condition` asks for.

    Args:
        columns: bounds by column name, n units each.
        units: n.
    """
    made: dict[str, pa.Array] = {}
    for name, bounds in columns.items():
        made[LOW + name], made[HIGH + name] = bounds.low, bounds.high
        made[NULLS + name], made[VALUES + name] = bounds.has_nulls, bounds.has_values
        # Statistics leave NaN out, so that any floating column may hold some.
        is_floating = pa.types.is_floating(bounds.low.type)
        made[NANS + name] = pa.array([is_floating] * units, pa.bool_())
    return pa.table(made) if made else pa.table({"": pa.nulls(units)})

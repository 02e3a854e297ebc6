"""Least and greatest values of groups, in the order of Java and Spark."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]


def least_of(values: pa.Array, groups: Longs, count: int) -> pa.Array:
    """Return the least value of each group, or null if it has only nulls."""
    return _reduced(values, groups, count, "min")


def greatest_of(values: pa.Array, groups: Longs, count: int) -> pa.Array:
    """Return each group's greatest value, or null if it has only nulls; NaN is above all."""
    return _reduced(values, groups, count, "max")


def _reduced(values: pa.Array, groups: Longs, count: int, how: str) -> pa.Array:
    kind = values.type
    if pa.types.is_floating(kind):
        return _from_ordered(_reduced(_ordered(values), groups, count, how), kind)
    found = pa.table({"group": groups, "value": values}).group_by("group").aggregate([("value", how)])
    places = np.full(count, -1, np.int64)
    places[found["group"].to_numpy()] = np.arange(len(found))
    return found[f"value_{how}"].combine_chunks().take(pa.array(places, mask=places < 0))


def _ordered(values: pa.Array) -> pa.Array:
    """Map floats to integers in the same order: -0.0 below 0.0, every NaN above all."""
    width = values.type.bit_width
    numbers = (values.fill_null(0) if values.null_count else values).to_numpy()
    numbers = np.where(np.isnan(numbers), np.asarray(np.nan, numbers.dtype), numbers)
    bits = numbers.view(f"i{width // 8}")
    ordered = np.where(bits < 0, bits ^ np.asarray(np.iinfo(bits.dtype).max, bits.dtype), bits)
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(ordered, mask=mask)


def _from_ordered(values: pa.Array, kind: pa.DataType) -> pa.Array:
    bits = (values.fill_null(0) if values.null_count else values).to_numpy()
    back = np.where(bits < 0, bits ^ np.asarray(np.iinfo(bits.dtype).max, bits.dtype), bits)
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(back.view(f"f{kind.bit_width // 8}"), kind, mask=mask)

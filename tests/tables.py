"""Builders of rows and tables that tests share."""

from __future__ import annotations

import pyarrow as pa

VERSIONED = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])


def versioned(first: int, last: int, version: int) -> pa.Table:
    """Rows `k<first>` to `k<last - 1>` of one partition, whose values and ordering values follow from the version."""
    numbers = range(first, last)
    columns = [[f"k{n:02d}" for n in numbers], ["p0"] * len(numbers), [n * version for n in numbers]]
    return pa.table([*map(pa.array, columns), pa.array([version] * len(numbers))], schema=VERSIONED)

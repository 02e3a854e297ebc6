"""Column statistics for footers and errors: key ranges, NaN, the first null."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def key_range(keys: pa.Array | pa.ChunkedArray) -> tuple[str, str] | None:
    """Return (smallest, largest) key by UTF-8 bytes, as Apache Hudi's footers do; None if empty."""
    ends = pc.min_max(keys).as_py()
    return None if ends["min"] is None else (ends["min"], ends["max"])


def holds_nan(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a column of floats, plain or dictionary-encoded, holds NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # a dictionary may hold values that no row has
    return bool(pc.any(pc.is_nan(column)).as_py())


def first_null_row(column: pa.Array | pa.ChunkedArray) -> int | None:
    """Return the number of the first row that is null, from 0, or None."""
    if column.null_count == 0:
        return None
    return int(pc.index(column.is_null(), True).as_py())

"""Conversion of old files' columns to the table's present type, as Apache Hudi does it."""

from __future__ import annotations

import pyarrow as pa

_is = pa.types


def widen(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to a later type of the table (docs/format.md §6.7).

    A single-precision number becomes the double of its shortest decimal text, 0.1 and not 0.10000000149011612: Apache Hudi and the
    `hudi` package read it so from the old file, and a rewrite must not change it. Integers become rounded floating-point numbers,
    for tables whose columns other programs changed in this way.

    Raises:
        ArrowInvalid: a value that the type cannot hold. Raised by Arrow.
        ArrowNotImplementedError: no such change is possible. Raised by Arrow.
    """
    if _is.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is.is_float32(column.type) and _is.is_float64(kind):
        return column.cast(pa.string()).cast(kind)
    return column.cast(kind, safe=not (_is.is_integer(column.type) and _is.is_floating(kind)))

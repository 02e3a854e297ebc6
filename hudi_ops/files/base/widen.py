"""Conversion of old files' columns to the table's present type, as Apache Hudi does it."""

from __future__ import annotations

import pyarrow as pa

_is = pa.types


def widen(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to a later type of the table (docs/format §6.7).

    A single-precision number becomes the double of its shortest decimal text, 0.1 and not 0.10000000149011612: Apache Hudi and the
    `hudi` package read it so from the old file, and a rewrite must not change it. Integers become rounded floating-point numbers,
    for tables whose columns other programs changed in this way. Microseconds in a column of milliseconds are milliseconds with a
    wrong label, at any depth.

    Raises:
        ArrowInvalid: a value that the type cannot hold. Raised by Arrow.
        ArrowNotImplementedError: no such change is possible. Raised by Arrow.
    """
    if _is.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is.is_float32(column.type) and _is.is_float64(kind):
        return column.cast(pa.string()).cast(kind)
    if (labelled := _labelled(column.type, kind)) != column.type:
        column = pa.chunked_array([chunk.view(labelled) for chunk in column.chunks], labelled)
    return column.cast(kind, safe=not (_is.is_integer(column.type) and _is.is_floating(kind)))


def is_mislabelled(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether stored microseconds are milliseconds, by the table's type.

    Apache Hudi before 1.1 wrote the milliseconds of a table's column into base files as microseconds, with the number unchanged.
    """
    is_zoned = _is.is_timestamp(stored) and _is.is_timestamp(kind) and stored.tz is not None and kind.tz is not None
    return bool(is_zoned and (stored.unit, kind.unit) == ("us", "ms"))


def _labelled(stored: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Return a stored type with the units that its numbers have."""
    if is_mislabelled(stored, kind):
        return pa.timestamp("ms", stored.tz)
    if _is.is_struct(stored) and _is.is_struct(kind):
        at = {name: kind.get_field_index(name) for name in (field.name for field in stored)}
        return pa.struct([
            _labelled_field(field, kind.field(at[field.name])) if at[field.name] >= 0 else field for field in stored
        ])
    if _is.is_list(stored) and _is.is_list(kind):
        return pa.list_(_labelled_field(stored.value_field, kind.value_field))
    if _is.is_map(stored) and _is.is_map(kind):
        return pa.map_(stored.key_field, _labelled_field(stored.item_field, kind.item_field))
    return stored


def _labelled_field(field: pa.Field, kind: pa.Field) -> pa.Field:
    return field.with_type(_labelled(field.type, kind.type))

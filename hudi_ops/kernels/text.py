"""Texts of key and partition values as Apache Hudi's upsert prints them.

Hudi prints them by Java's `String.valueOf`. A value printed differently is another record key: an upsert by Apache Hudi would
then add a second row, not change the first.
"""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest, Unsupported

_FIRST_DATE, _LAST_DATE = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)


def key_column(data: pa.Table, field: str) -> pa.Array:
    """Return the column of a key or partition field as one array that `print_values` can print.

    Raises:
        InvalidRequest: there is no such column.
        Unsupported: values of its type have no safe text.
    """
    if field not in data.column_names:
        raise InvalidRequest(
            f"The rows have no column {field!r}, which the table's keys or partitions need.",
            expected=f"a column {field}",
            found=f"columns {', '.join(data.column_names)}",
            next_step="Deliver the column, or correct the table's key and partition fields.",
            field=field,
        )
    column = data.column(field).combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_printable(column.type):
        raise Unsupported(
            f"The field {field!r} cannot be part of a key or a partition path: its type is {column.type}.",
            expected="string, integer, boolean, date32, timestamp in ms or us, or decimal",
            found=str(column.type),
            next_step="Choose another field, or convert this one, for example to a string.",
            field=field,
        )
    return column


def print_values(column: pa.Array, field: str) -> pa.Array:
    """Print a column that `key_column` accepted; nulls stay null.

    Integers, booleans (`true`) and decimals (`1E-7` where Java writes that) print as Java does, dates as `2022-01-08`,
    timestamps as the number since 1970 in their own unit.

    Raises:
        Unsupported: a date outside the years 1 to 9999.

    Source: docs/format §6.5; tried with Apache Hudi 1.1.1 (tests/unit/kernels/bucket_vectors.json, "texts").
    """
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        ends = pc.min_max(column.cast(pa.int32())).as_py()
        epoch = datetime.date(1970, 1, 1).toordinal()
        first, last = _FIRST_DATE.toordinal() - epoch, _LAST_DATE.toordinal() - epoch
        if ends["min"] is not None and not first <= ends["min"] <= ends["max"] <= last:
            raise Unsupported(
                f"The field {field!r} holds a date outside the years 1 to 9999, which Java and Arrow print "
                "differently.",
                expected=f"dates from {_FIRST_DATE} to {_LAST_DATE}",
                found=f"{ends['min']} to {ends['max']} days since 1970-01-01",
                next_step="Correct the dates, or choose another field.",
                field=field,
            )
    return column if column.type == pa.string() else column.cast(pa.string())


def _is_printable(kind: pa.DataType) -> bool:
    """Return whether Java prints the type alike; it does not for floats, bytes and nested."""
    is_type = pa.types
    if is_type.is_timestamp(kind):
        return kind.unit in {"ms", "us"}
    return bool(
        is_type.is_string(kind)
        or is_type.is_large_string(kind)
        or is_type.is_string_view(kind)
        or is_type.is_integer(kind)
        or is_type.is_boolean(kind)
        or is_type.is_date32(kind)
        or is_type.is_decimal(kind)
        or is_type.is_null(kind)
    )

"""Partition paths of the time-based key generator (docs/format §6.6)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.key_generators import TimePartition
from hudi_ops.errors import InvalidRequest, Unsupported

_PER_SECOND = {"EPOCHMILLISECONDS": 1_000, "EPOCHMICROSECONDS": 1_000_000, "UNIX_TIMESTAMP": 1}
_UNITS = {"MILLISECONDS": 1_000, "MICROSECONDS": 1_000_000, "SECONDS": 1}
_SECONDS = {"DAYS": 86_400, "HOURS": 3_600, "MINUTES": 60}
FIRST_S, LAST_S = -62_135_596_800, 253_402_300_799
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z in seconds since 1970: outside, years have no common text."""


def check_time_column(field: pa.Field, time: TimePartition) -> None:
    """Refuse a column that cannot name time-based partitions (docs/format §6.6).

    Raises:
        Unsupported: a type that does not fit the input. Apache Hudi cannot read tables partitioned so by a timestamp column,
            and reads the days of a date as milliseconds.
    """
    kind = field.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_date = pa.types.is_date32(kind) and (time.input, time.unit) == ("SCALAR", "DAYS")
    if is_text if time.input == "DATE_STRING" else pa.types.is_signed_integer(kind) or is_date:
        return
    raise Unsupported(
        f"column {field.name} cannot name time-based partitions: its type is {kind}",
        expected="string" if time.input == "DATE_STRING" else "an integer; or date32 as SCALAR with unit DAYS",
        found=str(kind),
        next_step="choose another input, or partition by a date column with the key generator simple",
        field=field.name,
    )


def time_paths(values: pa.Array, time: TimePartition, field: str) -> pa.Array:
    """Return the path of each value; a null has that of 1970-01-01, as in Apache Hudi.

    `check_time_column` has accepted the column.

    Raises:
        InvalidRequest: a text that is not in the input format, or a time outside the years 1 to 9999 (details: `row`, `field`).
        Unsupported: a pattern that cannot be followed, or a column of another type.
    """
    check_time_column(pa.field(field, values.type), time)
    seconds = _parsed(values, time, field) if time.input == "DATE_STRING" else _counted(values, time)
    seconds = pc.fill_null(seconds, 0)
    outside = pc.or_(pc.less(seconds, FIRST_S), pc.greater(seconds, LAST_S))
    if pc.any(outside).as_py():
        _refuse(values, int(pc.index(outside, True).as_py()), field, "a time in the years 1 to 9999")
    return pc.strftime(seconds.cast(pa.timestamp("s")), format=time.output_directives)


def _counted(values: pa.Array, time: TimePartition) -> pa.Array:
    numbers = (values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).cast(pa.int64())
    if time.input == "SCALAR" and time.unit in _SECONDS:
        # Beyond the years that are allowed, so no product overflows.
        bounded = pc.min_element_wise(
            pc.max_element_wise(numbers, FIRST_S - 1, skip_nulls=False), LAST_S + 1, skip_nulls=False
        )
        return pc.multiply(bounded, _SECONDS[time.unit])
    per_second = _PER_SECOND[time.input] if time.input != "SCALAR" else _UNITS[time.unit]
    if per_second == 1:
        return numbers
    # Rounds down before 1970 too, as Java's calendar does; Arrow's division truncates.
    missing = np.asarray(numbers.is_null())
    return pa.array(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False) // per_second, pa.int64(), mask=missing)


def _parsed(values: pa.Array, time: TimePartition, field: str) -> pa.Array:
    directives = time.input_directives
    texts = values.cast(pa.string())
    moments = pc.strptime(texts, format=directives, unit="s", error_is_null=True)
    # Arrow reads 30 February as 1 March and ignores missing digits: a value that prints differently was misread.
    same = pc.equal(pc.strftime(moments, format=directives), texts)
    wrong = pc.and_(texts.is_valid(), pc.invert(pc.fill_null(same, False)))
    if pc.any(wrong).as_py():
        _refuse(values, int(pc.index(wrong, True).as_py()), field, f"text like {time.input_format}")
    return moments.cast(pa.int64())


def _refuse(values: pa.Array, row: int, field: str, expected: str) -> None:
    raise InvalidRequest(
        f"Row {row}: the value {str(values[row].as_py())[:40]!r} of the partition field {field!r} is not a time.",
        expected=expected,
        found=str(values[row].as_py())[:40],
        next_step="Correct the row.",
        row=row,
        field=field,
    )

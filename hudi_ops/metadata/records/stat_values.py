"""Encoding of column bounds in the metadata table: branch of the union, and type.

Index version 2 writes the values of the Parquet file (a date is an int, a decimal bytes) and their logical type beside it.
Version 1 has a branch for dates and one for decimals of 30 digits, 15 of them behind the point, and does not mark times.

Source: docs/format §14.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.base.widen import is_mislabelled
from hudi_ops.formats.avro.decimals import decimals_of, minimal_pieces
from hudi_ops.formats.avro.varints import PADDING

_is = pa.types

BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, TEXT, DATE, DECIMAL = range(1, 10)
"""Branches of the union that are written."""
TIMESTAMP_MICROS, LOCAL_DATE = 11, 12
"""Branches that are read, too."""

NO_TYPE: Final = 1
"""Ordinal of an unknown type: of a log file of deletes only."""
_V8_DECIMAL: Final = pa.decimal128(30, 15)
_DATE_ORDINAL, _DECIMAL_ORDINAL, _FIXED_ORDINAL = 12, 10, 9
_UNITS: Final = ("ms", "us", "ns")
_DIGITS_MAX: Final = 38
_LAST_TEXT: Final = "\U0010ffff" * 8
_LAST_BYTES: Final = b"\xff" * 32

_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], int, int], ...]] = (
    (_is.is_boolean, BOOLEAN, 2),
    (lambda kind: _is.is_signed_integer(kind) and kind.bit_width <= 32, INT, 3),
    (_is.is_int64, LONG, 4),
    (_is.is_float32, FLOAT, 5),
    (_is.is_float64, DOUBLE, 6),
    (lambda kind: _is.is_string(kind) or _is.is_large_string(kind), TEXT, 7),
    (lambda kind: _is.is_binary(kind) or _is.is_large_binary(kind), BYTES, 8),
    (_is.is_fixed_size_binary, BYTES, _FIXED_ORDINAL),
)
_PHYSICAL: Final = {
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BYTES: pa.binary(),
    TEXT: pa.string(),
    DATE: pa.int32(),
    DECIMAL: _V8_DECIMAL,
    TIMESTAMP_MICROS: pa.int64(),
    LOCAL_DATE: pa.int32(),
}
_LOGICAL: Final = {
    1: pa.null(),
    2: pa.bool_(),
    3: pa.int32(),
    4: pa.int64(),
    5: pa.float32(),
    6: pa.float64(),
    7: pa.string(),
    8: pa.binary(),
    _FIXED_ORDINAL: pa.binary(),
    11: pa.string(),  # UUIDs
    _DATE_ORDINAL: pa.date32(),
    13: pa.time32("ms"),
    14: pa.time64("us"),
    **{15 + at: pa.timestamp(unit, "UTC") for at, unit in enumerate(_UNITS)},
    **{18 + at: pa.timestamp(unit) for at, unit in enumerate(_UNITS)},
}


@dataclass(frozen=True, slots=True)
class ValueKind:
    """Encoding of the bounds of one type of column.

    Attributes:
        branch: of the union.
        ordinal: `typeOrdinal`, of index version 2.
        info: `additionalInfo`, of index version 2.
    """

    branch: int
    ordinal: int
    info: str | None = None

    @property
    def physical(self) -> pa.DataType:
        """Arrow type of the branch."""
        return _PHYSICAL[self.branch]


def value_kind(kind: pa.DataType, index_version: int) -> ValueKind | None:
    """Return the encoding of bounds of a column of this type, or None."""
    for is_it, branch, ordinal in _PLAIN:
        if is_it(kind):
            return ValueKind(branch, ordinal)
    if _is.is_decimal128(kind):
        if index_version >= 2:
            return ValueKind(BYTES, _DECIMAL_ORDINAL, f"{kind.precision},{kind.scale}")
        is_held = kind.scale <= _V8_DECIMAL.scale and kind.precision - kind.scale <= _V8_DECIMAL.scale
        return ValueKind(DECIMAL, _DECIMAL_ORDINAL) if is_held else None
    if _is.is_date32(kind):
        return ValueKind(INT if index_version >= 2 else DATE, _DATE_ORDINAL)
    if kind == pa.time32("ms"):
        return ValueKind(INT, 13)
    if kind == pa.time64("us"):
        return ValueKind(LONG, 14)
    if _is.is_timestamp(kind) and kind.unit in _UNITS:
        return ValueKind(LONG, (18 if kind.tz is None else 15) + _UNITS.index(kind.unit))
    return None


def to_physical(values: pa.Array, written: ValueKind) -> pa.Array:
    """Convert values of a column to the stored form (docs/format §14.7).

    NaN, the greatest value, is written as infinity: Apache Hudi leaves out a file, and a partition, with a bound of NaN for
    any filter on the column.
    """
    if written.branch == BYTES:
        return minimal_pieces(values) if _is.is_decimal(values.type) else values.cast(pa.binary())
    if _is.is_temporal(values.type):
        return values.view(written.physical)
    if _is.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(float("inf"), values.type), values)
    return values if values.type == written.physical else values.cast(written.physical)


def logical_type(branch: int, ordinal: int | None, info: str | None) -> pa.DataType | None:
    """Return the logical type of a bound, by its branch and fields; None if unknown.

    A time of index version 1 is a long like any other.
    """
    if ordinal is None:
        if branch in (DATE, LOCAL_DATE):
            return pa.date32()
        return pa.timestamp("us", "UTC") if branch == TIMESTAMP_MICROS else _PHYSICAL.get(branch)
    if ordinal == _DECIMAL_ORDINAL:
        precision, _, scale = (info or "").partition(",")
        return pa.decimal128(int(precision), int(scale)) if precision.isdigit() and scale.isdigit() else None
    return _LOGICAL.get(ordinal)


def to_logical(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert bounds to values of their logical type."""
    if values.type == kind:
        return values
    if _is.is_decimal(kind) and _is.is_binary(values.type):
        return _decimals(values, kind)
    return values.view(kind) if _is.is_temporal(kind) else values.cast(kind)


def _decimals(values: pa.BinaryArray, kind: pa.DataType) -> pa.Array:
    present = values.drop_null()
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(present)], pa.int32()), present), b"")
    data = np.frombuffer((joined[0].as_py() or b"") + bytes(PADDING), np.uint8)
    lengths = pc.binary_length(present).to_numpy().astype(np.int64)
    made, bad = decimals_of(data, np.cumsum(lengths) - lengths, lengths, kind)
    if bad is not None:
        return pa.nulls(len(values), kind)
    if not values.null_count:
        return made
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    return made.take(pa.array(np.maximum(np.cumsum(is_valid) - 1, 0), mask=~is_valid))


def widened(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Convert bounds of a column to its present, wider type; None when they prove nothing.

    Numbers that became text are in another order.
    """
    found = values.type
    if found == kind:
        return values
    if _is.is_null(found):
        return pa.nulls(len(values), kind)
    if _is.is_temporal(kind) and found == pa.int64() and kind.bit_width == 64:
        return values.view(kind)  # index version 1
    if _is.is_timestamp(kind) and _is.is_timestamp(found):
        is_one_zone = (kind.tz is None) == (found.tz is None)
        return _cast(values, kind) if is_one_zone and not is_mislabelled(found, kind) else None
    if _is.is_floating(found) and _is.is_floating(kind):
        # As Apache Hudi reads such a file: by the digits that the float shows.
        return values.cast(pa.string()).cast(kind) if kind.bit_width > found.bit_width else None
    if _is.is_integer(found) and _is.is_decimal(kind):
        wide = _cast(values, pa.decimal128(_DIGITS_MAX, kind.scale))  # Arrow requires digits for all longs
        return None if wide is None else _cast(wide, kind)
    is_wider = (
        (_is.is_integer(found) and _is.is_floating(kind))
        or (_is.is_integer(found) and _is.is_integer(kind) and kind.bit_width >= found.bit_width)
        or (_is.is_decimal(found) and _is.is_decimal(kind))
        or (_is_bytes(found) and _is_bytes(kind))
        or (found == pa.int32() and _is.is_integer(kind))  # bytes and shorts are ints here
    )
    return _cast(values, kind) if is_wider else None


def widest(kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return bounds that exclude nothing, for unknown ones (docs/format §14.7).

    A column without a record is read as one of nulls.
    """
    least, greatest = _extremes(kind)
    return pa.array([least], kind), pa.array([greatest], kind)


def _extremes(kind: pa.DataType) -> tuple[Any, Any]:
    if _is.is_boolean(kind):
        return False, True
    if _is.is_signed_integer(kind):
        return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
    if _is.is_floating(kind):
        return float("-inf"), float("inf")
    if _is.is_decimal(kind):
        most = Decimal((0, (9,) * kind.precision, -kind.scale))
        return -most, most
    if _is_bytes(kind):
        return ("", _LAST_TEXT) if _is.is_string(kind) or _is.is_large_string(kind) else (b"", _LAST_BYTES)
    if _is.is_fixed_size_binary(kind):
        return bytes(kind.byte_width), b"\xff" * kind.byte_width
    if _is.is_date(kind):
        return date.min, date.max
    if _is.is_time(kind):
        return time.min, time(23, 59, 59, 999000 if kind.unit == "ms" else 999999)
    if kind.unit == "ns":
        return np.datetime64(-(2**63) + 1, "ns"), np.datetime64(2**63 - 1, "ns")
    zone = None if kind.tz is None else UTC
    last = datetime(9999, 12, 31, 23, 59, 59, 999000 if kind.unit == "ms" else 999999, zone)
    return datetime(1, 1, 1, tzinfo=zone), last


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(_is.is_string(kind) or _is.is_binary(kind) or _is.is_large_string(kind) or _is.is_large_binary(kind))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None

"""Find the place of an exact literal among the values of a column's type.

A literal is converted to the column's type, never the column to the literal's: a comparison is then exact, its bounds are compared
as its rows are, and an index is asked for values as the table stores them. Where the type has no such value, the greatest value
below the literal decides: `x > 1.5` is `x > 1` for whole numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from hudi_ops.errors import InvalidRequest

_is = pa.types

DIGITS_MAX: Final = 400
"""Most digits of a number, and its largest exponent: more than a double has."""

_EPOCH: Final = datetime(1970, 1, 1)
DAY_US: Final = 86_400_000_000
"""Microseconds of a day."""

UNIT_US: Final = {"s": Fraction(1_000_000), "ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}
"""Microseconds of Arrow's units of time."""

_WITH_FLOOR: Final = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
"""The comparison with the value below a literal that has the same result as the one with the literal."""


@dataclass(frozen=True)
class Number:
    """Exact number.

    `is_double`: arithmetic with a column computes with doubles, as for `1e3` and for quotients.
    """

    value: Fraction
    is_double: bool = False


@dataclass(frozen=True)
class Moment:
    """Time in microseconds since 1970, in UTC; a date is its midnight."""

    micros: int
    is_date: bool


Literal = Number | Moment | str | bool


def literal_of(value: bool | int | Decimal | str | date) -> Literal:
    """Return a value of Python as a literal; a time without zone is in UTC."""
    match value:
        case bool() | str():
            return value
        case int() | Decimal():
            return Number(Fraction(value))
    return _moment(value)


def moment_of(text: str, *, is_date: bool) -> Moment:
    """Return the date or the time in an ISO text.

    Raises:
        InvalidRequest: the text is not one.
    """
    try:
        return _moment(date.fromisoformat(text) if is_date else datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"{text!r} in the filter is not a {'date' if is_date else 'timestamp'}",
            expected="for example DATE '2026-01-31' or TIMESTAMP '2026-01-31 09:30:00'",
            found=text,
        ) from error


def _moment(value: date) -> Moment:
    if not isinstance(value, datetime):
        return Moment((value - _EPOCH.date()).days * DAY_US, is_date=True)
    plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return Moment((plain - _EPOCH) // timedelta(microseconds=1), is_date=False)


def number_of(text: str) -> Number:
    """Return the number in a text; one with an exponent is a double in arithmetic.

    Raises:
        InvalidRequest: the text is not a number, or has too many digits.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or "_" in text:
        raise InvalidRequest(
            f"{text[:50]!r} in the filter is not a number", expected="for example 1250, 12.5 or 1.25e3", found=text[:80]
        )
    if max(len(number.as_tuple().digits), abs(number.adjusted())) > DIGITS_MAX:
        raise InvalidRequest(
            f"{text[:50]} in the filter is too large", expected=f"at most {DIGITS_MAX} digits", found=text[:80]
        )
    return Number(Fraction(number), is_double="e" in text.lower())


def as_decimal(number: Number, digits: int, scale: int = 0) -> Number:
    """Round a number to some digits, with ties away from zero.

    Raises:
        InvalidRequest: it has too many digits before the point.
    """
    count = math.floor(abs(number.value) * 10**scale + Fraction(1, 2))
    if count >= 10**digits:
        raise InvalidRequest(
            f"{text_of(number)} in the filter does not fit DECIMAL({digits}, {scale})",
            expected=f"at most {digits - scale} digits before the point",
            found=text_of(number),
        )
    return Number(Fraction(count if number.value >= 0 else -count, 10**scale))


def as_double(number: Number, kind: pa.DataType) -> Number:
    """Round a number to a floating type, of which each value is a double.

    Raises:
        InvalidRequest: it is beyond all values of the type.
    """
    try:
        return Number(Fraction(pa.scalar(float(number.value), pa.float64()).cast(kind).as_py()), is_double=True)
    except OverflowError:
        raise InvalidRequest(
            f"a number in the filter is too large for {'FLOAT' if kind == pa.float32() else 'DOUBLE'}",
            expected="at most 3.4e38 for FLOAT, 1.7e308 for DOUBLE",
            found=text_of(number)[:80],
        ) from None


def fit(kind: pa.DataType, operator: str, literal: Literal) -> tuple[str, Any] | bool:
    """Return a comparison with a value of a type that has the same result as one with a literal.

    The value is one for `values_of`. A boolean is the result for all values of the type: the literal lies beyond or between them.

    Raises:
        TypeError: values of the type cannot be compared with such a literal.
        InvalidRequest: a text beside times is no time.
    """
    if isinstance(literal, str) and (_is.is_date(kind) or _is.is_timestamp(kind)):
        literal = moment_of(literal, is_date=_is.is_date(kind))
    match literal:
        case bool() if _is.is_boolean(kind):
            return operator, literal
        case str() if is_text(kind):
            return operator, literal
        case str() if is_bytes(kind):
            return operator, literal.encode()
        case Number() if _is.is_floating(kind):
            return _among_doubles(operator, literal.value)
        case Number() if _is.is_integer(kind):
            return _among_numbers(kind, operator, literal.value)
        case Number() if _is.is_decimal(kind):
            return _among_numbers(kind, operator, literal.value * 10**kind.scale)
        case Moment() if _is.is_date(kind):
            return _among_numbers(kind, operator, Fraction(literal.micros, DAY_US))
        case Moment() if _is.is_timestamp(kind):
            return _among_numbers(kind, operator, literal.micros / UNIT_US[kind.unit])
    raise TypeError(kind)


def values_of(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Return values of `fit` as an array of a type.

    For floats of any width it holds doubles, for bytes of a fixed length bytes of any. The values of decimals, dates and times are
    their whole numbers on disk.
    """
    if _is.is_floating(kind):
        return pa.array(values, pa.float64())
    if _is.is_decimal(kind):
        return pa.array([Decimal(f"{value}e-{kind.scale}") for value in values], kind)
    if _is.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if _is.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, pa.binary() if _is.is_fixed_size_binary(kind) else kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are texts."""
    return bool(_is.is_string(kind) or _is.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    return bool(_is.is_binary(kind) or _is.is_large_binary(kind) or _is.is_fixed_size_binary(kind))


def type_word(literal: Literal) -> str:
    """Return the type of a literal in the words of docs/tables.md."""
    match literal:
        case bool():
            return "boolean"
        case str():
            return "string"
        case Moment():
            return "date" if literal.is_date else "timestamp"
    if literal.is_double:
        return "double"
    return "int" if literal.value.denominator == 1 else "decimal"


def text_of(literal: Literal) -> str:
    """Return a literal as text, for messages."""
    match literal:
        case Moment():
            return f"{type_word(literal).upper()} '{_EPOCH + timedelta(microseconds=literal.micros)}'"
        case Number():
            return str(Decimal(literal.value.numerator) / Decimal(literal.value.denominator))
    return repr(literal)


def _among_numbers(kind: pa.DataType, operator: str, place: Fraction) -> tuple[str, int] | bool:
    """Compare with a number in units of a type's last digit."""
    below = math.floor(place)
    if below != place:
        if operator in {"=", "!="}:
            return operator == "!="
        operator = _WITH_FLOOR[operator]
    least, greatest = _range(kind)
    if least <= below <= greatest:
        return operator, below
    return operator in ({"!=", "<", "<="} if below > greatest else {"!=", ">", ">="})


def _among_doubles(operator: str, number: Fraction) -> tuple[str, float] | bool:
    """Compare with the nearest double; beyond the greatest only infinity is greater."""
    try:
        return operator, float(number)
    except OverflowError:
        if operator in {"=", "!="}:
            return operator == "!="
        return _WITH_FLOOR[operator], sys.float_info.max if number > 0 else -math.inf


def _range(kind: pa.DataType) -> tuple[int, int]:
    if _is.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if _is.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1

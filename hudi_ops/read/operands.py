"""Combine and compare the operands of a filter: columns, computed values and literals.

Whole numbers and decimals are computed exactly: a result gets all the digits that it may need, so that no row overflows, and what
may need more than 76 digits is refused before any row is read. Where one side is a double, or for a quotient, both sides are
doubles.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import MAX_PRECISION, type_text
from hudi_ops.kernels import condition
from hudi_ops.kernels.condition import Condition
from hudi_ops.read.literals import (
    DAY_US,
    UNIT_US,
    Literal,
    Moment,
    Number,
    as_double,
    fit,
    moment_of,
    text_of,
    type_word,
    values_of,
)

_is = pa.types

_DIGITS_MAX: Final = 76
"""Most digits of Arrow's longest decimals."""

_LONG_DIGITS: Final = 18
"""Digits that every 64-bit integer can have."""

_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_ARROW: Final[Mapping[str, Callable[[Any, Any], pc.Expression]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
}
_PYTHON: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": python.add,
    "-": python.sub,
    "*": python.mul,
    "/": python.truediv,
}


@dataclass(frozen=True)
class Operand:
    """Values of a type, one for each row.

    Attributes:
        columns: names that `rows` uses.
        column: the column that it is, of which bounds may be known; empty: it is computed.
    """

    rows: pc.Expression
    kind: pa.DataType
    columns: tuple[str, ...]
    column: str = ""

    @classmethod
    def of(cls, field: pa.Field) -> Operand:
        """Return a column as an operand."""
        return cls(pc.field(field.name), field.type, (field.name,), field.name)

    @classmethod
    def computed(cls, one: Condition) -> Operand:
        """Return the truth of a condition as an operand."""
        return cls(one.rows, pa.bool_(), one.columns)


def compared(left: Operand | Literal, operator: str, right: Operand | Literal) -> Condition:
    """Compare two operands by SQL's rules; a null on either side gives null.

    Raises:
        InvalidRequest: their types cannot be compared.
    """
    if isinstance(left, Operand) and isinstance(right, Operand):
        rows = condition.COMPARISONS[operator](*_in_one_type(left, right))
        return condition.computed(rows, (*left.columns, *right.columns))
    if isinstance(left, Operand):
        return _compared_with(left, operator, right)  # type: ignore[arg-type]
    if isinstance(right, Operand):
        return _compared_with(right, condition.MIRRORED[operator], left)
    return condition.constant(condition.COMPARISONS[operator](*_plain(left, right)))


def among(one: Operand, literals: Sequence[Literal]) -> Condition:
    """Test whether an operand is equal to one of the literals; null for a null.

    Raises:
        InvalidRequest: a type cannot be compared.
    """
    fitted = (_fitted(one, "=", literal) for literal in literals)
    values = [found[1] for found in fitted if not isinstance(found, bool)]
    if not values:
        return condition.decided(one.rows, is_true=False, columns=one.columns, bounded=one.column)
    array = values_of(one.kind, values)
    return condition.member(one.column, array) if one.column else condition.found_in(one.rows, array, one.columns)


def absent(one: Operand) -> Condition:
    """Test whether an operand is null."""
    return condition.absent(one.column) if one.column else condition.computed(one.rows.is_null(), one.columns)


def arithmetic(operator: str, left: Operand | Literal, right: Operand | Literal) -> Operand | Literal:
    """Return the sum, difference, product or quotient of two operands.

    Raises:
        InvalidRequest: an operand is no number, or the result has too many digits.
    """
    if isinstance(left, Number) and isinstance(right, Number):
        return _folded(operator, left, right)
    first, second = _numbers(left), _numbers(right)
    if first is None or second is None:
        raise_mismatch(left, right)
    columns = (*first.columns, *second.columns)
    if operator == "/" or _is.is_floating(first.kind) or _is.is_floating(second.kind):
        return Operand(_ARROW[operator](_in_order(first), _in_order(second)), pa.float64(), columns)
    (digits, scale), (digits_2, scale_2) = _digits(first.kind), _digits(second.kind)
    if operator == "*":
        needed, point = digits + digits_2 + 1, scale + scale_2
    else:
        point = max(scale, scale_2)
        needed = max(digits - scale, digits_2 - scale_2) + point + 1
    if needed > _DIGITS_MAX:
        raise InvalidRequest(
            f"{_named(left)} {operator} {_named(right)} may have {needed} digits",
            expected=f"at most {_DIGITS_MAX} digits, so that the result is exact",
            found=f"{needed} digits",
            next_step="divide by 1e0 to compute with doubles, or filter the rows after reading",
        )
    if needed <= _LONG_DIGITS and not point:
        kind = kind_1 = kind_2 = pa.int64()
    else:
        kind = _decimal(needed, point)
        kind_1, kind_2 = _decimal(digits, scale, needed), _decimal(digits_2, scale_2, needed)
    return Operand(_ARROW[operator](first.rows.cast(kind_1), second.rows.cast(kind_2)), kind, columns)


def raise_mismatch(left: Operand | Literal, right: Operand | Literal) -> NoReturn:
    """Refuse two operands whose types do not go together.

    Raises:
        InvalidRequest: always.
    """
    hint = "compare a column with a value of its own type"
    raise InvalidRequest(
        f"the filter does not fit the table's columns: {_named(left)} and {_named(right)} cannot be compared or combined",
        expected="two numbers, two texts, two times or two booleans",
        found=" and ".join(text_of(one) for one in (left, right) if not isinstance(one, Operand)),
        next_step=f"{hint}; write times as TIMESTAMP '…', dates as DATE '…', and texts in single quotes",
    ) from None


def _compared_with(one: Operand, operator: str, literal: Literal) -> Condition:
    found = _fitted(one, operator, literal)
    if isinstance(found, bool):
        return condition.decided(one.rows, is_true=found, columns=one.columns, bounded=one.column)
    operator, (value,) = found[0], values_of(one.kind, [found[1]])
    if one.column:
        return condition.compared(one.column, operator, value)
    return condition.computed(condition.COMPARISONS[operator](one.rows, pc.scalar(value)), one.columns)


def _fitted(one: Operand, operator: str, literal: Literal) -> tuple[str, Any] | bool:
    try:
        return fit(one.kind, operator, literal)
    except TypeError:
        raise_mismatch(one, literal)


def _plain(left: Literal, right: Literal) -> tuple[Any, Any]:
    """Return two literals as values of Python that compare."""
    if isinstance(left, Number) and isinstance(right, Number):
        return left.value, right.value
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Moment) and isinstance(other, str):
            moment = moment_of(other, is_date=one.is_date)
            left, right = (left, moment) if one is left else (moment, right)
    if isinstance(left, Moment) and isinstance(right, Moment):
        return left.micros, right.micros
    if type(left) is not type(right):
        raise_mismatch(left, right)
    return left, right


def _folded(operator: str, left: Number, right: Number) -> Number:
    if operator == "/" and not right.value:
        raise InvalidRequest(
            "the filter divides by zero",
            expected="a divisor that is not zero",
            found=f"{text_of(left)} / {text_of(right)}",
        )
    value = _PYTHON[operator](left.value, right.value)
    return Number(value, left.is_double or right.is_double or operator == "/")


def _numbers(one: Operand | Literal) -> Operand | None:
    if isinstance(one, Number):
        return _of_number(one)
    return one if isinstance(one, Operand) and _is_number(one.kind) else None


def _of_number(number: Number) -> Operand:
    """Return a literal as values of the smallest exact type; of doubles if it has none."""
    value, scale = number.value, 0
    # A finite decimal has no more digits after its point than its denominator has binary ones.
    while value.denominator != 1 and scale < _DIGITS_MAX:
        value, scale = value * 10, scale + 1
    # Python makes no text of a number of thousands of digits, as products of literals may be.
    is_long = abs(value.numerator) >= 10**_DIGITS_MAX
    digits = _DIGITS_MAX if is_long else max(len(str(abs(value.numerator))), scale)
    if number.is_double or value.denominator != 1 or is_long:
        (found,) = values_of(pa.float64(), [float(as_double(number, pa.float64()).value)])
        return Operand(pc.scalar(found), pa.float64(), ())
    kind = _decimal(digits, scale)
    (found,) = values_of(kind, [value.numerator])
    return Operand(pc.scalar(found), kind, ())


def _in_one_type(left: Operand, right: Operand) -> tuple[pc.Expression, pc.Expression]:
    """Return both sides in one type that holds their values exactly; doubles if one is floating."""
    kinds = (left.kind, right.kind)
    if any(_is.is_nested(kind) for kind in kinds):
        raise_mismatch(left, right)
    if left.kind == right.kind:
        return left.rows, right.rows
    if all(map(_is_number, kinds)):
        if any(map(_is.is_floating, kinds)):
            return _double(left), _double(right)
        (digits, scale), (digits_2, scale_2) = map(_digits, kinds)
        point = max(scale, scale_2)
        are_whole = all(map(_is.is_integer, kinds))
        kind = pa.int64() if are_whole else _decimal(max(digits - scale, digits_2 - scale_2) + point, point)
        return left.rows.cast(kind), right.rows.cast(kind)
    if all(_is.is_timestamp(kind) or _is.is_date(kind) for kind in kinds):
        return _nanoseconds(left), _nanoseconds(right)
    raise_mismatch(left, right)


def _nanoseconds(one: Operand) -> pc.Expression:
    # As decimals: 64 bits do not hold all days or milliseconds in a finer unit.
    is_date = _is.is_date(one.kind)
    unit = DAY_US * 1000 if is_date else int(UNIT_US[one.kind.unit] * 1000)
    count = one.rows.cast(pa.int32()) if is_date else one.rows.cast(pa.int64())
    return pc.multiply(count.cast(pa.decimal128(19, 0)), pc.scalar(pa.scalar(Decimal(unit), pa.decimal128(17, 0))))


def _double(one: Operand) -> pc.Expression:
    return one.rows if one.kind == pa.float64() else one.rows.cast(pa.float64(), safe=False)


def _in_order(one: Operand) -> pc.Expression:
    """Return doubles to compute with; Arrow regroups sums of sums, which would round otherwise."""
    return _double(one) if one.column or not one.columns else pc.coalesce(_double(one))


def _is_number(kind: pa.DataType) -> bool:
    return bool(_is.is_integer(kind) or _is.is_floating(kind) or _is.is_decimal(kind))


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Return the digits that values of an exact type may have, and how many are after the point."""
    return (kind.precision, kind.scale) if _is.is_decimal(kind) else (_INTEGER_DIGITS[kind.bit_width], 0)


def _decimal(digits: int, scale: int, result_digits: int = 0) -> pa.DataType:
    """Return a type of decimals, in 256 bits if it or the result has more than 38 digits."""
    is_short = max(digits, result_digits) <= MAX_PRECISION
    return pa.decimal128(digits, scale) if is_short else pa.decimal256(digits, scale)


def _named(one: Operand | Literal) -> str:
    if not isinstance(one, Operand):
        return f"a value of type {type_word(one)}"
    if one.column:
        return f"column {one.column} ({type_text(one.kind)})"
    used = " and ".join(dict.fromkeys(one.columns))
    return f"what is computed of {used}" if used else "what is computed"

"""Conditions on rows, evaluated over rows and over the bounds of whole units.

A unit is a partition, a file or a row group of which only bounds are known. Each condition carries three Arrow expressions:
one over rows, and two over a table of bounds (`kernels.bounds`): whether it may hold for some row of the unit, and whether it
may fail for some. Both are needed, since NOT swaps them. They return null where nothing is known, and Kleene's logic keeps that
through AND and OR: a unit is left out only where the first is certainly false. Bounds are compared by the same kernels, with the
same implicit casts, as the rows; those casts keep order, so a bound stays a bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.kernels.bounds import HIGH, LOW, NANS, NULLS, VALUES

_FIRST_SURROGATE, _LAST_SURROGATE, _LAST_CHARACTER = 0xD800, 0xDFFF, 0x10FFFF
_WILD: Final = {"%": ".*", "_": "."}
_OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

BOUNDED_VALUES_MAX: Final = 100
"""Largest list whose values are compared with bounds one by one; a larger list is compared by its range. Arrow takes a second a
unit for thousands of values, and crashes on more.
"""

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
"""Arrow's form of each comparison."""

MIRRORED: Final[Mapping[str, str]] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison with the same meaning when its sides are exchanged."""


@dataclass(frozen=True, eq=False)
class Condition:
    """Condition on rows and on the bounds of units.

    Attributes:
        rows: over rows; selects those for which it is true.
        may_hold: over bounds; false where no row can pass.
        may_fail: over bounds; false where every row passes, or is null.
        columns: names that `rows` uses, in order of appearance.
        fixed: column -> the whole numbers or texts to which a passing row is restricted, in the column's type.
    """

    rows: pc.Expression
    may_hold: pc.Expression
    may_fail: pc.Expression
    columns: tuple[str, ...]
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def computed(rows: pc.Expression, columns: Sequence[str]) -> Condition:
    """Return a condition that bounds cannot decide."""
    unknown = _unknown()
    return Condition(rows, unknown, unknown, tuple(dict.fromkeys(columns)))


def constant(is_true: bool) -> Condition:
    """Return a condition that holds for all rows, or for none."""
    return Condition(pc.scalar(is_true), pc.scalar(is_true), pc.scalar(not is_true), ())


def decided(rows: pc.Expression, *, is_true: bool, columns: Sequence[str], bounded: str = "") -> Condition:
    """Return one result for all values of an expression, and null for nulls.

    `bounded` is the column that the expression is; empty: it is computed.
    """
    found = pc.if_else(rows.is_valid(), pc.scalar(is_true), _unknown())
    if not bounded:
        return computed(found, columns)
    has, never = pc.field(VALUES + bounded), pc.scalar(False)
    return Condition(found, has if is_true else never, never if is_true else has, (bounded,))


def compared(column: str, operator: str, value: Any) -> Condition:
    """Compare a column with a value of its type, neither null nor NaN."""
    rows = COMPARISONS[operator](pc.field(column), pc.scalar(value))
    may_hold, may_fail = _possible(column, operator, value), _possible(column, _OPPOSITE[operator], value)
    # NaN passes no comparison but `!=`, and bounds leave it out.
    may_be_nan = pc.field(VALUES + column) & pc.field(NANS + column)
    if operator == "!=":
        may_hold = may_hold | may_be_nan
    else:
        may_fail = may_fail | may_be_nan
    fixed = _fixed(column, pa.array([value])) if operator == "=" else {}
    return Condition(rows, may_hold, may_fail, (column,), fixed)


def member(column: str, values: Sequence[Any] | pa.Array) -> Condition:
    """Test whether a column has one of some values; the result is null for a null, as in SQL.

    The values are of the column's type; those of a column of floats, of any width, are doubles.
    """
    array = values if isinstance(values, pa.Array) else pa.array(values)
    rows = found_in(pc.field(column), array, (column,)).rows
    fixed = _fixed(column, array)
    if len(array) > BOUNDED_VALUES_MAX:
        ends = pc.min_max(array)
        least, greatest = compared(column, ">=", ends["min"]), compared(column, "<=", ends["max"])
        return Condition(rows, least.may_hold & greatest.may_hold, _unknown(), (column,), fixed)
    bounds = combined(either, [compared(column, "=", value) for value in array])
    return Condition(rows, bounds.may_hold, bounds.may_fail, (column,), fixed)


def found_in(rows: pc.Expression, values: pa.Array, columns: Sequence[str]) -> Condition:
    """Test whether an expression has one of the values, without bounds; null for a null."""
    compared_as = rows
    if pa.types.is_floating(values.type):
        # `isin` casts the values to the expression's type, where 0.1 may be a single-precision number, and tells the zeros apart.
        compared_as = rows.cast(pa.float64(), safe=False)
        values = pa.concat_arrays([values, pa.array([0.0, -0.0])]) if 0.0 in values.to_pylist() else values
    # Arrow returns false for a null, which NOT would turn into true.
    return computed(pc.if_else(rows.is_valid(), compared_as.isin(values), _unknown()), columns)


def absent(column: str) -> Condition:
    """Test whether a column is null; NaN is a value."""
    return Condition(pc.field(column).is_null(), pc.field(NULLS + column), pc.field(VALUES + column), (column,))


def like(column: str, pattern: str) -> Condition:
    """Match a column with an SQL pattern of `%` and `_`; a backslash escapes."""
    rows = matched(pc.field(column), pattern)
    prefix = _prefix(pattern)
    may_hold = pc.field(VALUES + column)
    if prefix:
        may_hold = may_hold & (pc.field(HIGH + column) >= pc.scalar(prefix))
        after = _after_all_that_begin_with(prefix)
        if after is not None:
            may_hold = may_hold & (pc.field(LOW + column) < pc.scalar(after))
    return Condition(rows, may_hold, pc.field(VALUES + column), (column,))


def matched(rows: pc.Expression, pattern: str) -> pc.Expression:
    """Match texts with an SQL pattern, as `like` does."""
    if "\\" not in pattern:
        return pc.match_like(rows, pattern)
    # Arrow takes escapes for plain backslashes where it compares only beginnings, ends or parts.
    parts = (_WILD.get(part) or re.escape(part[-1]) for part in re.findall(r"\\.|.", pattern, re.DOTALL))
    return pc.match_substring_regex(rows, rf"(?s)\A{''.join(parts)}\z")


def both(left: Condition, right: Condition) -> Condition:
    """Combine two conditions by AND."""
    fixed = dict(left.fixed)
    for column, values in right.fixed.items():
        held = fixed.get(column)
        fixed[column] = values if held is None or len(values) < len(held) else held
    return Condition(
        left.rows & right.rows,
        left.may_hold & right.may_hold,
        left.may_fail | right.may_fail,
        _names(left, right),
        fixed,
    )


def either(left: Condition, right: Condition) -> Condition:
    """Combine two conditions by OR."""
    fixed = {name: (*values, *right.fixed[name]) for name, values in left.fixed.items() if name in right.fixed}
    return Condition(
        left.rows | right.rows,
        left.may_hold | right.may_hold,
        left.may_fail & right.may_fail,
        _names(left, right),
        fixed,
    )


def combined(join: Callable[[Condition, Condition], Condition], parts: Sequence[Condition]) -> Condition:
    """Combine many conditions by AND or OR, as a flat tree: Arrow recurses into expressions."""
    level = list(parts)
    while len(level) > 1:
        pairs = [join(one, other) for one, other in zip(level[::2], level[1::2], strict=False)]
        level = [*pairs, *level[len(pairs) * 2 :]]
    return level[0]


def negated(one: Condition) -> Condition:
    """Negate a condition."""
    return Condition(~one.rows, one.may_fail, one.may_hold, one.columns)


def possible_units(condition: Condition, bounds: pa.Table) -> npt.NDArray[np.bool_]:
    """Return n booleans for n units of `bounds_table`: False where certainly no row passes."""
    places = pa.array(np.arange(bounds.num_rows))
    answer = np.zeros(bounds.num_rows, np.bool_)
    try:
        kept = bounds.append_column("place", places).filter(pc.coalesce(condition.may_hold, pc.scalar(True)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # The comparison's common type cannot hold the bound, so it proves nothing. A row that cannot be compared raises its
        # own error.
        return ~answer
    answer[np.asarray(kept["place"])] = True
    return answer


def passing_units(condition: Condition, bounds: pa.Table) -> npt.NDArray[np.bool_]:
    """Return n booleans for n units of `bounds_table`: True where certainly every row passes.

    That is known of units in which each column of the condition has one value, such as the files of a partition.
    """
    passing = np.zeros(bounds.num_rows, np.bool_)
    values: dict[str, pa.Array | pa.ChunkedArray] = {}
    try:
        for name in condition.columns:
            low, high = bounds[LOW + name], bounds[HIGH + name]
            other = pc.or_(pc.or_(bounds[NULLS + name], bounds[NANS + name]), pc.not_equal(low, high))
            values[name] = pc.if_else(pc.fill_null(other, True), pa.scalar(None, low.type), low)
        is_one = np.all([np.asarray(one.is_valid(), bool) for one in values.values()], axis=0)
        if values and is_one.any():
            places = pa.array(np.flatnonzero(is_one))
            rows = pa.table(values).take(places).append_column("place.", places).filter(condition.rows)
            passing[np.asarray(rows["place."])] = True
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        pass  # types of which no bounds are known, or a row that raises its own error
    return passing


def _possible(column: str, operator: str, value: Any) -> pc.Expression:
    """Return an expression that is true where a value of the unit, except NaN, may pass."""
    low, high, has = pc.field(LOW + column), pc.field(HIGH + column), pc.field(VALUES + column)
    known = pc.scalar(value)
    match operator:
        case "=":
            return has & (low <= known) & (high >= known)
        case "!=":
            return has & ((low < known) | (high > known))
        case "<" | "<=":
            return has & COMPARISONS[operator](low, known)
    return has & COMPARISONS[operator](high, known)


def _unknown() -> pc.Expression:
    # Created on demand: Arrow imports pandas for the first scalar of a process.
    return pc.scalar(pa.scalar(None, pa.bool_()))


def _fixed(column: str, values: pa.Array) -> dict[str, tuple[Any, ...]]:
    is_plain = pa.types.is_integer(values.type) or pa.types.is_string(values.type)
    return {column: tuple(values.to_pylist())} if is_plain else {}


def _names(left: Condition, right: Condition) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*left.columns, *right.columns)))


def _prefix(pattern: str) -> str:
    ends = [at for at in map(pattern.find, "%_\\") if at >= 0]
    return pattern[: min(ends)] if ends else pattern


def _after_all_that_begin_with(prefix: str) -> str | None:
    """Return the smallest text above all texts with the prefix, by code points, or None."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        if code <= _LAST_CHARACTER:
            code = _LAST_SURROGATE + 1 if _FIRST_SURROGATE <= code <= _LAST_SURROGATE else code
            return prefix[:at] + chr(code)
    return None

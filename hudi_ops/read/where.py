"""Translate SQL filters to conditions. sqlglot parses; this module maps its nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import MAX_PRECISION
from hudi_ops.kernels import condition
from hudi_ops.kernels.condition import Condition

PARTS_MAX = 500
"""Most conditions in one chain of AND or OR."""

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_JOINS: dict[type[exp.Expression], Callable[[Condition, Condition], Condition]] = {
    exp.And: condition.both,
    exp.Or: condition.either,
}
_ARITHMETIC: dict[type[exp.Expression], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    exp.Add: lambda left, right: pc.add_checked(left, right),
    exp.Sub: lambda left, right: pc.subtract_checked(left, right),
    exp.Mul: lambda left, right: pc.multiply_checked(left, right),
    exp.Div: lambda left, right: pc.divide(left, right),
}
_TIMESTAMPS = frozenset({
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
})


def parse_where(text: str) -> Condition:
    """Return the condition of a SQL filter such as `origin = 'JFK' AND arr_delay IS NOT NULL`.

    Comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, and literals with DATE and TIMESTAMP (read as UTC). Text
    stands in single quotes; double quotes name a column.

    Raises:
        InvalidRequest: the text does not parse, is nested too deeply, or uses any other part of SQL.
    """
    try:
        return _condition(_tree(text), text)
    except RecursionError:
        raise InvalidRequest(
            f"the filter is nested too deeply: {text[:80]}…",
            expected="parentheses, NOT and arithmetic within each other at most some dozens of times",
            found=f"{text.count('(')} opening parentheses in {len(text)} characters",
            next_step="leave out parentheses that change nothing; write column IN (…) for many values of one column",
        ) from None


def _tree(text: str) -> exp.Expression:
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidRequest(
            f"the filter does not parse: {text}",
            expected="a SQL condition such as origin = 'JFK' AND month IN (1, 2)",
            found=_mistake(error),
        ) from error
    if not isinstance(tree, (exp.Condition, exp.Paren)):
        raise _unknown(tree, text)
    for column in tree.find_all(exp.Column):
        if len(column.parts) > 1:
            named = ".".join(part.name for part in column.parts)
            raise InvalidRequest(
                f"the filter names {named}, but columns have no qualifier",
                expected="names of columns; a field within a struct cannot be filtered by its name",
                found=text,
                next_step=f'filter the rows after reading, or write "{named}" if that is the name of a column',
            )
    return tree


def _mistake(error: sqlglot.errors.SqlglotError) -> str:
    """Describe a parse error in the terms of the user's text."""
    first = next(iter(getattr(error, "errors", [])), None)
    if first is None:
        return "a text without its closing quote, or no condition at all"
    near = f"{first['start_context'][-20:]}{first['highlight']}".strip()
    missing = "a value or a column" if first["description"].startswith("Required keyword") else first["description"]
    return f"{missing.replace('Expecting', 'no')}{' missing' if missing.startswith('a value') else ''} after {near!r}"


def _condition(node: exp.Expression, text: str) -> Condition:
    if type(node) in _JOINS:
        parts = [_condition(part, text) for part in _parts(node, text)]
        return condition.combined(_JOINS[type(node)], parts)
    if type(node) in _COMPARISONS:
        return _comparison(node.left, _COMPARISONS[type(node)], node.right, text)
    match node:
        case exp.Paren():
            return _condition(node.this, text)
        case exp.Not():
            return condition.negated(_condition(node.this, text))
        case exp.Column():
            return condition.compared(node.name, "=", True)
        case exp.In(this=exp.Column() as column) if node.expressions:
            return _member(column.name, [_value(item, text) for item in node.expressions], text)
        case exp.In() if node.expressions:
            values = [_value(item, text) for item in node.expressions]
            return condition.computed(_operand(node.this, text).isin(values), _columns(node))
        case exp.Between():
            low = _comparison(node.this, ">=", node.args["low"], text)
            return condition.both(low, _comparison(node.this, "<=", node.args["high"], text))
        case exp.Is(this=exp.Column() as column) if isinstance(node.expression, exp.Null):
            return condition.absent(column.name)
        case exp.Is() if isinstance(node.expression, exp.Null):
            return condition.computed(_operand(node.this, text).is_null(), _columns(node))
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            # The result is never null, so that IS NOT TRUE holds for a null.
            is_null = _condition(exp.Is(this=node.this, expression=exp.Null()), text)
            return condition.both(_comparison(node.this, "=", node.expression, text), condition.negated(is_null))
        case exp.Like(this=exp.Column() as column):
            return condition.like(column.name, str(_value(node.expression, text)))
        case exp.Like():
            matched = pc.match_like(_operand(node.this, text), str(_value(node.expression, text)))
            return condition.computed(matched, _columns(node))
        case exp.Boolean():
            return condition.computed(pc.scalar(bool(node.this)), ())
    raise _unknown(node, text)


def _member(column: str, values: list[Any], text: str) -> Condition:
    try:
        return condition.member(column, values)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"the filter looks for {column} among values of several types: {error}",
            expected="values of the column's type",
            found=text[:80],
            field=column,
        ) from error


def _parts(node: exp.Expression, text: str) -> list[exp.Expression]:
    """Return the operands of a chain of AND or OR.

    Raises:
        InvalidRequest: more than Arrow can compute.
    """
    parts = list(node.flatten(unnest=False))
    if len(parts) > PARTS_MAX:
        raise InvalidRequest(
            f"the filter joins too many conditions: {text[:80]}…",
            expected=f"at most {PARTS_MAX} beside each other",
            found=str(len(parts)),
            next_step="write column IN (…) for many values of one column",
        )
    return parts


def _comparison(left: exp.Expression, operator: str, right: exp.Expression, text: str) -> Condition:
    left, right = left.unnest(), right.unnest()
    if isinstance(left, exp.Column) and _is_value(right):
        return condition.compared(left.name, operator, _value(right, text))
    if isinstance(right, exp.Column) and _is_value(left):
        return condition.compared(right.name, condition.MIRRORED[operator], _value(left, text))
    rows = condition.COMPARISONS[operator](_operand(left, text), _operand(right, text))
    return condition.computed(rows, (*_columns(left), *_columns(right)))


def _operand(node: exp.Expression, text: str) -> pc.Expression:
    """Return one side of a comparison: a column, a value, or an arithmetic expression of them."""
    if type(node) in _ARITHMETIC:
        return _ARITHMETIC[type(node)](_operand(node.left, text), _operand(node.right, text))
    match node:
        case exp.Paren():
            return _operand(node.this, text)
        case exp.Column():
            return pc.field(node.name)
        case exp.Literal() | exp.Boolean() | exp.Neg() | exp.Cast():
            return pc.scalar(_value(node, text))
    return _condition(node, text).rows


def _is_value(node: exp.Expression) -> bool:
    return isinstance(node, (exp.Literal, exp.Boolean, exp.Neg, exp.Cast))


def _columns(node: exp.Expression) -> tuple[str, ...]:
    return tuple(column.name for column in node.find_all(exp.Column))


def _value(node: exp.Expression, text: str) -> Any:
    match node:
        case exp.Literal() if node.is_string:
            return node.this
        case exp.Literal():
            return _number(node.this, text)
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg():
            return -_value(node.this, text)
        case exp.Cast():
            return _typed(node, text)
        case exp.Paren():
            return _value(node.this, text)
    raise _unknown(node, text)


def _number(digits: str, text: str) -> int | float | Decimal:
    if not digits.isdigit():
        return float(digits)
    if int(digits) < 2**63:
        return int(digits)
    if len(digits) > MAX_PRECISION:
        raise InvalidRequest(
            f"{digits[:50]} in the filter is too large", expected=f"{MAX_PRECISION} digits", found=text
        )
    return Decimal(digits)


def _typed(node: exp.Cast, text: str) -> Any:
    value, kind = _value(node.this, text), node.to.this
    try:
        if kind == exp.DataType.Type.DATE:
            return date.fromisoformat(value)
        if kind in _TIMESTAMPS:
            moment = datetime.fromisoformat(value)
            return pa.scalar(moment, pa.timestamp("us", "UTC"))
        if kind == exp.DataType.Type.DECIMAL:
            return Decimal(str(value))
    except ValueError as error:
        raise InvalidRequest(
            f"{value!r} in the filter is not a {_word(kind)}",
            expected="for example DATE '2026-01-31' or TIMESTAMP '2026-01-31 09:30:00'",
            found=text,
        ) from error
    raise _unknown(node, text)


def _word(kind: exp.DataType.Type) -> str:
    return "timestamp" if kind in _TIMESTAMPS else str(kind.value).lower()


def _unknown(node: exp.Expression, text: str) -> InvalidRequest:
    return InvalidRequest(
        f"the filter uses {type(node).__name__.upper()}, which does not fit here: {text}",
        expected="comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, literals",
        found=node.sql(),
        next_step="filter the rest after reading",
    )

"""Filters as people write them: a SQL condition becomes an Arrow expression. sqlglot parses; here only its nodes are mapped."""

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

_COMPARISONS: dict[type[exp.Expression], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    exp.EQ: lambda left, right: left == right,
    exp.NEQ: lambda left, right: left != right,
    exp.LT: lambda left, right: left < right,
    exp.LTE: lambda left, right: left <= right,
    exp.GT: lambda left, right: left > right,
    exp.GTE: lambda left, right: left >= right,
    exp.And: lambda left, right: left & right,
    exp.Or: lambda left, right: left | right,
    exp.Add: lambda left, right: pc.add(left, right),
    exp.Sub: lambda left, right: pc.subtract(left, right),
    exp.Mul: lambda left, right: pc.multiply(left, right),
    exp.Div: lambda left, right: pc.divide(left, right),
}
_TIMESTAMPS = frozenset({
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
})


def parse_where(text: str) -> pc.Expression:
    """An Arrow filter from a SQL condition.

    Comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, and literals with DATE and TIMESTAMP (read as UTC).
    Text stands in single quotes; double quotes name a column.

    Args:
        text: for example `origin = 'JFK' AND arr_delay IS NOT NULL`.

    Raises:
        InvalidRequest: the text does not parse, or uses something else of SQL.
    """
    return _convert(_tree(text), text)


def referenced_columns(text: str) -> tuple[str, ...]:
    """Names of the columns that a condition uses, in order of appearance."""
    return tuple(dict.fromkeys(column.name for column in _tree(text).find_all(exp.Column)))


def _tree(text: str) -> exp.Expression:
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidRequest(
            f"the filter does not parse: {text}",
            expected="a SQL condition such as origin = 'JFK' AND month IN (1, 2)",
            found=str(error).splitlines()[0],
        ) from error
    if not isinstance(tree, (exp.Condition, exp.Paren)):
        raise _unknown(tree, text)
    return tree


def _convert(node: exp.Expression, text: str) -> pc.Expression:
    if type(node) in _COMPARISONS:
        return _COMPARISONS[type(node)](_convert(node.left, text), _convert(node.right, text))
    match node:
        case exp.Paren():
            return _convert(node.this, text)
        case exp.Not():
            return ~_convert(node.this, text)
        case exp.Column():
            return pc.field(node.name)
        case exp.In() if node.expressions:
            return _convert(node.this, text).isin([_value(item, text) for item in node.expressions])
        case exp.Between():
            value = _convert(node.this, text)
            return (value >= _convert(node.args["low"], text)) & (value <= _convert(node.args["high"], text))
        case exp.Is() if isinstance(node.expression, exp.Null):
            return _convert(node.this, text).is_null()
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            return _convert(node.this, text) == pc.scalar(bool(node.expression.this))
        case exp.Like():
            return pc.match_like(_convert(node.this, text), str(_value(node.expression, text)))
    return pc.scalar(_value(node, text))


def _value(node: exp.Expression, text: str) -> Any:
    match node:
        case exp.Literal() if node.is_string:
            return node.this
        case exp.Literal():
            return int(node.this) if node.this.isdigit() else float(node.this)
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg():
            return -_value(node.this, text)
        case exp.Cast():
            return _typed(node, text)
        case exp.Paren():
            return _value(node.this, text)
    raise _unknown(node, text)


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
        raise InvalidRequest(f"{value!r} in the filter is no {kind.value}", found=text) from error
    raise _unknown(node, text)


def _unknown(node: exp.Expression, text: str) -> InvalidRequest:
    return InvalidRequest(
        f"the filter uses {type(node).__name__.upper()}, which is not understood: {text}",
        expected="comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, literals",
        found=node.sql(),
        next_step="filter the rest after reading",
    )

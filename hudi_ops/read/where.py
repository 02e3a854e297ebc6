"""Translate SQL filters to conditions. sqlglot parses; this module maps its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NoReturn

import pyarrow as pa
import sqlglot
from sqlglot import exp

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels import condition
from hudi_ops.kernels.condition import Condition
from hudi_ops.read.literals import Literal, Number, as_decimal, as_double, is_text, moment_of, number_of
from hudi_ops.read.operands import Operand, absent, among, arithmetic, compared, raise_mismatch

PARTS_MAX: Final = 500
"""Most conditions in one chain of AND or OR."""

_COMPARISONS: Final[Mapping[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_JOINS: Final[Mapping[type[exp.Expression], Callable[[Condition, Condition], Condition]]] = {
    exp.And: condition.both,
    exp.Or: condition.either,
}
_ARITHMETIC: Final[Mapping[type[exp.Expression], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}

_ONE, _TWO = frozenset({"this"}), frozenset({"this", "expression"})
READ: Final[Mapping[type[exp.Expression], frozenset[str]]] = {
    **dict.fromkeys((*_JOINS, *_COMPARISONS, *_ARITHMETIC), _TWO),
    # Every division computes with doubles by IEEE 754: `typed` and `safe` change nothing.
    exp.Div: _TWO | {"typed", "safe"},
    exp.Is: _TWO | {"negate"},
    exp.Like: _TWO | {"negate"},
    exp.In: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.DataType: frozenset({"this", "expressions"}),
    exp.DataTypeParam: _ONE,
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
    **dict.fromkeys((exp.Not, exp.Paren, exp.Neg, exp.Column, exp.Boolean), _ONE),
}
"""All nodes that are translated, with the arguments that the translation reads.

A node with another argument that is set, such as `negate` of a newer sqlglot, is refused: its meaning would be lost in silence.
"""

_TYPES: Final = exp.DataType.Type
_TIMESTAMPS: Final = frozenset({_TYPES.TIMESTAMP, _TYPES.TIMESTAMPNTZ, _TYPES.TIMESTAMPTZ, _TYPES.TIMESTAMPLTZ})
_FLOATS: Final = {_TYPES.FLOAT: pa.float32(), _TYPES.DOUBLE: pa.float64()}


@dataclass(frozen=True)
class Filter:
    """Parsed SQL filter that is not bound yet to the types of its columns.

    Attributes:
        columns: names that it uses, in order of appearance.
    """

    text: str
    tree: exp.Expression
    columns: tuple[str, ...]

    def bind(self, schema: pa.Schema) -> Condition:
        """Return the condition on rows of a schema, which holds all columns of the filter.

        Raises:
            InvalidRequest: a value cannot be compared with its column, or the filter is nested too deeply.
        """
        try:
            return _Translation(schema, self.text).condition(self.tree)
        except RecursionError:
            _raise_nested(self.text)


def parse_where(text: str) -> Filter:
    """Return the filter in a SQL text such as `origin = 'JFK' AND arr_delay IS NOT NULL`.

    Comparisons, AND, OR, NOT, IN, BETWEEN, IS, LIKE, arithmetic, and literals with DATE and TIMESTAMP (read as UTC). Text stands
    in single quotes; double quotes name a column.

    Raises:
        InvalidRequest: the text does not parse, is nested too deeply, or uses any other part of SQL.
    """
    if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        _raise_unparsed(repr(text), "half of a character (a lone surrogate)")
    try:
        tree = _tree(text)
    except RecursionError:
        _raise_nested(text)
    return Filter(text, tree, tuple(dict.fromkeys(one.name for one in tree.find_all(exp.Column, bfs=False))))


def _tree(text: str) -> exp.Expression:
    try:
        # `parse_one` of some sqlglot versions passes over what follows the first statement.
        statements = [one for one in sqlglot.parse(text, dialect="duckdb") if one is not None]
    except sqlglot.errors.SqlglotError as error:
        _raise_unparsed(text, _mistake(error))
    if len(statements) != 1:
        _raise_unparsed(text, "several statements" if statements else "no condition at all")
    (tree,) = statements
    for column in tree.find_all(exp.Column):
        if len(column.parts) > 1:
            named = ".".join(part.name for part in column.parts)
            raise InvalidRequest(
                f"the filter names {named}, but columns have no qualifier",
                expected="names of columns; a field within a struct cannot be filtered by its name",
                found=text,
                next_step=f'filter the rows after reading, or write "{named}" if that is the name of a column',
            )
    refuse_unread(tree, text)
    return tree


def refuse_unread(tree: exp.Expression, text: str) -> None:
    """Refuse each node, and each argument of a node, that the translation does not read.

    Raises:
        InvalidRequest: there is one; its name and its text are given.
    """
    for node in tree.walk():
        known = READ.get(type(node))
        if known is None:
            _raise_unknown(node, text)
        for name, value in node.args.items():
            if value and name not in known:
                _raise_unknown(node, text, f" with {name}")


def _raise_unparsed(text: str, found: str) -> NoReturn:
    raise InvalidRequest(
        f"the filter does not parse: {text}",
        expected="a SQL condition such as origin = 'JFK' AND month IN (1, 2)",
        found=found,
    )


def _mistake(error: sqlglot.errors.SqlglotError) -> str:
    """Describe a parse error in the terms of the user's text."""
    first = next(iter(getattr(error, "errors", [])), None)
    if first is None:
        return "a text without its closing quote"
    near = f"{first['start_context'][-20:]}{first['highlight']}".strip()
    missing = "a value or a column" if first["description"].startswith("Required keyword") else first["description"]
    return f"{missing.replace('Expecting', 'no')}{' missing' if missing.startswith('a value') else ''} after {near!r}"


class _Translation:
    """Translates the nodes of one filter, whose columns have the types of a schema."""

    def __init__(self, schema: pa.Schema, text: str) -> None:
        self._schema, self._text = schema, text

    def condition(self, node: exp.Expression) -> Condition:
        found = self._stated(node)
        return condition.negated(found) if node.args.get("negate") else found

    def _stated(self, node: exp.Expression) -> Condition:
        """Return the condition of a node without its `negate`."""
        if type(node) in _JOINS:
            return condition.combined(_JOINS[type(node)], [self.condition(part) for part in self._parts(node)])
        if type(node) in _COMPARISONS:
            return compared(self._operand(node.left), _COMPARISONS[type(node)], self._operand(node.right))
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.Not():
                return condition.negated(self.condition(node.this))
            case exp.Boolean():
                return condition.constant(bool(node.this))
            case exp.Column():
                return compared(self._operand(node), "=", True)
            case exp.In() if node.expressions:
                return self._member(self._operand(node.this), [self._operand(item) for item in node.expressions])
            case exp.Between():
                one = self._operand(node.this)
                low = compared(one, ">=", self._operand(node.args["low"]))
                return condition.both(low, compared(one, "<=", self._operand(node.args["high"])))
            case exp.Is(expression=exp.Null()):
                return _absent(self._operand(node.this))
            case exp.Is(expression=exp.Boolean() as flag):
                # The result is never null, so that IS NOT TRUE holds for a null.
                one = self._operand(node.this)
                return condition.both(compared(one, "=", bool(flag.this)), condition.negated(_absent(one)))
            case exp.Like():
                return self._like(self._operand(node.this), self._operand(node.expression), node)
        _raise_unknown(node, self._text)

    def _parts(self, node: exp.Expression) -> list[exp.Expression]:
        """Return the operands of a chain of AND or OR.

        Raises:
            InvalidRequest: more than Arrow can compute.
        """
        parts = list(node.flatten(unnest=False))
        self._refuse_many(parts)
        return parts

    def _refuse_many(self, parts: Sequence[object]) -> None:
        if len(parts) > PARTS_MAX:
            raise InvalidRequest(
                f"the filter joins too many conditions: {self._text[:80]}…",
                expected=f"at most {PARTS_MAX} beside each other",
                found=str(len(parts)),
                next_step="write column IN (…) for many values of one column",
            )

    def _operand(self, node: exp.Expression) -> Operand | Literal:
        """Return one side of a comparison: a column, a literal, or what is computed of them."""
        if type(node) in _ARITHMETIC:
            return arithmetic(_ARITHMETIC[type(node)], self._operand(node.left), self._operand(node.right))
        match node:
            case exp.Paren():
                return self._operand(node.this)
            case exp.Column():
                return Operand.of(self._schema.field(node.name))
            case exp.Literal() if node.is_string:
                return str(node.this)
            case exp.Literal():
                return number_of(str(node.this))
            case exp.Boolean():
                return bool(node.this)
            case exp.Neg():
                return arithmetic("*", Number(Fraction(-1)), self._operand(node.this))
            case exp.Cast():
                return self._typed(node)
            case exp.Null():
                _raise_unknown(node, self._text)
        return Operand.computed(self.condition(node))

    def _member(self, one: Operand | Literal, items: list[Operand | Literal]) -> Condition:
        literals = [item for item in items if not isinstance(item, Operand)]
        if isinstance(one, Operand) and len(literals) == len(items):
            return among(one, literals)
        self._refuse_many(items)
        return condition.combined(condition.either, [compared(one, "=", item) for item in items])

    def _like(self, one: Operand | Literal, pattern: Operand | Literal, node: exp.Expression) -> Condition:
        if not isinstance(one, Operand) or not isinstance(pattern, str):
            _raise_unknown(node, self._text)
        if not is_text(one.kind):
            raise_mismatch(one, pattern)
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise InvalidRequest(
                f"a pattern of the filter ends with a backslash, which escapes nothing: {pattern}",
                expected="a character after each backslash",
                found=pattern,
                next_step="write \\\\ for a backslash",
            )
        if one.column:
            return condition.like(one.column, pattern)
        return condition.computed(condition.matched(one.rows, pattern), one.columns)

    def _typed(self, node: exp.Cast) -> Literal:
        """Return a literal that is cast to a type."""
        value, kind, limits = self._operand(node.this), node.to.this, [int(one.name) for one in node.to.expressions]
        if isinstance(value, str) and not limits and (kind == _TYPES.DATE or kind in _TIMESTAMPS):
            return moment_of(value, is_date=kind == _TYPES.DATE)
        if isinstance(value, str) and (kind == _TYPES.DECIMAL or kind in _FLOATS):
            value = number_of(value)
        if isinstance(value, Number) and kind == _TYPES.DECIMAL:
            return as_decimal(value, *limits)
        if isinstance(value, Number) and not limits and kind in _FLOATS:
            return as_double(value, _FLOATS[kind])
        _raise_unknown(node, self._text)


def _absent(one: Operand | Literal) -> Condition:
    return absent(one) if isinstance(one, Operand) else condition.constant(False)


def _raise_unknown(node: exp.Expression, text: str, used: str = "") -> NoReturn:
    raise InvalidRequest(
        f"the filter uses {type(node).__name__.upper()}{used}, which does not fit here: {text}",
        expected="comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, literals",
        found=node.sql(),
        next_step="write IS NULL to find nulls" if isinstance(node, exp.Null) else "filter the rest after reading",
    )


def _raise_nested(text: str) -> NoReturn:
    raise InvalidRequest(
        f"the filter is nested too deeply: {text[:80]}…",
        expected="parentheses, NOT and arithmetic within each other at most some dozens of times",
        found=f"{text.count('(')} opening parentheses in {len(text)} characters",
        next_step="leave out parentheses that change nothing; write column IN (…) for many values of one column",
    ) from None

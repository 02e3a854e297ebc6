"""Parse columns that a user writes as text: `id string, fare double`.

sqlglot parses; this module maps types.
"""

from __future__ import annotations

import pyarrow as pa
import sqlglot
from sqlglot import exp

from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import MAX_PRECISION

ALLOWED = (
    "string, boolean, int, bigint, float, double, decimal(p, s), date, timestamp (UTC), binary, array<type>, "
    "map<string, type>, struct<name: type, …>, each optionally with NOT NULL"
)

_T = exp.DataType.Type
_PLAIN: dict[object, pa.DataType] = {
    _T.TEXT: pa.string(),
    _T.BOOLEAN: pa.bool_(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.DATE: pa.date32(),
    _T.TIMESTAMP: pa.timestamp("us", "UTC"),
    _T.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _T.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    _T.BINARY: pa.binary(),
}


def parse_columns(text: str) -> pa.Schema:
    """Return the columns that a text names, in the type names of Spark SQL.

    Raises:
        InvalidRequest: the text does not parse, a name is there twice, or a type is none of those allowed.
    """
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({text})", dialect="spark")
    except (sqlglot.errors.SqlglotError, RecursionError):
        tree = None
    listed = tree.this.expressions if isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema) else []
    if not listed or tree is None or any(value for name, value in tree.args.items() if name not in {"this", "kind"}):
        raise InvalidRequest(**_unreadable(text, text or "no column"))
    fields = [_field(column, text) for column in listed]
    names = [field.name.lower() for field in fields]
    twice = next((field.name for field in fields if names.count(field.name.lower()) > 1), None)
    if twice is not None:
        raise InvalidRequest(
            f"the columns name {twice} twice", expected="each column once", found=text, field=twice, columns=text
        )
    return pa.schema(fields)


def _field(column: exp.Expression, text: str) -> pa.Field:
    kind = column.args.get("kind") if isinstance(column, exp.ColumnDef) else None
    if not isinstance(kind, exp.DataType) or not column.name:
        raise InvalidRequest(**_unreadable(text, column.sql("spark")))
    constraints = [one.kind for one in column.args.get("constraints") or ()]
    if any(not isinstance(one, exp.NotNullColumnConstraint) for one in constraints):
        raise InvalidRequest(**_unreadable(text, column.sql("spark")))
    is_nullable = all(bool(one.args.get("allow_null")) for one in constraints)
    return pa.field(column.name, _type(kind, text), nullable=is_nullable)


def _type(kind: exp.DataType, text: str) -> pa.DataType:
    parts = kind.expressions
    if kind.this in _PLAIN and not parts:
        return _PLAIN[kind.this]
    if kind.this is _T.DECIMAL:
        digits = [part.name for part in parts]
        if len(digits) <= 2 and all(one.isdecimal() and len(one) <= 3 for one in digits):
            precision, scale = [int(one) for one in digits] + [10, 0][len(digits) :]
            if 1 <= precision <= MAX_PRECISION and scale <= precision:
                return pa.decimal128(precision, scale)
    if kind.this is _T.ARRAY and len(parts) == 1:
        return pa.list_(_type(parts[0], text))
    if kind.this is _T.MAP and len(parts) == 2 and parts[0].this is _T.TEXT:
        return pa.map_(pa.string(), _type(parts[1], text))
    if kind.this is _T.STRUCT and parts:
        return pa.struct([_field(part, text) for part in parts])
    raise InvalidRequest(**_unreadable(text, kind.sql("spark")))


def _unreadable(text: str, found: str) -> dict[str, str]:
    return {
        "what": f"the columns {text!r} cannot be read",
        "expected": f"names and types separated by commas, as in 'id string, fare double'; types are {ALLOWED}",
        "found": found,
        "next_step": "correct the text; names consist of letters, digits and _",
        "columns": text,
    }

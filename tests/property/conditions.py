"""Conditions on columns of many types, and rows with the values that they ask for."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]
TEXTS = ["", "a", "ab", "b", "é", "日本", "\U0010ffff", "a\U0010ffff", "z" * 90, "z" * 90 + "a", "%", "it's", "default"]
PLACES = ["a", "a/b", "a=b", "10:30 50%", "München", "default", "7", "%2F", None]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1e308]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "small": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "double": (pa.float64(), FLOATS),
    "single": (pa.float32(), FLOATS[:7]),
    "text": (pa.string(), TEXTS),
    "price": (pa.decimal128(9, 2), [Decimal(one) for one in ("-1.25", "0.00", "0.01", "9999999.99")]),
    "wide": (pa.decimal128(38, 4), [Decimal(one) for one in ("-1.25", "0", "9" * 30 + ".0001")]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "at_ms": (pa.timestamp("ms", "UTC"), [*TIMES[1:2], dt.datetime(2024, 1, 1, 0, 0, 0, 1000)]),
    "flag": (pa.bool_(), [True, False]),
    "place": (pa.string(), PLACES[:-1]),
    "month": (pa.int32(), [-1, 0, 7, 12]),
    "born": (pa.date32(), DAYS[1:3]),
}
SCHEMA = pa.schema([("id", pa.string()), *((name, kind) for name, (kind, _) in COLUMNS.items())])


def literal(kind: pa.DataType, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(38, 4))"
    if isinstance(value, float):
        return repr(value)
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def is_spoken(value: Any) -> bool:
    """SQL has no literals for the others, and the smallest integer is a negated number too large."""
    return not (isinstance(value, float) and not math.isfinite(value)) and value != -(2**63)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    kind, values = COLUMNS[name]
    one = st.sampled_from([literal(kind, value) for value in values if is_spoken(value)])
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    shapes = [
        f"{name} {operator} {draw(one)}",
        f"{draw(one)} {operator} {name}",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
    ]
    shapes += [f"{name} BETWEEN {draw(one)} AND {draw(one)}", f"{name} IN ({draw(one)}, {draw(one)})"]
    shapes += [f"{name} NOT IN ({draw(one)}, {draw(one)})"]
    if pa.types.is_string(kind):
        shapes += [f"{name} LIKE {draw(one)[:-1]}%'", f"{name} LIKE {draw(one)}"]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        shapes += [f"{name} {operator} 0.5", f"{name} {operator} 1", f"{name} + 1 {operator} 1.5"]
    if name == "flag":
        shapes += ["flag"]
    return draw(st.sampled_from(shapes))


KEYS = st.sampled_from(["id = 'k3'", "id IN ('k1', 'absent')", "_hoodie_record_key = 'k2'", "id <> 'k3'", "id > 'k3'"])
CONDITIONS = st.recursive(
    st.one_of(comparisons(), comparisons(), KEYS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=4,
)


def rows_of(seed: int, count: int, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """Rows that run through the values of each column in steps of its own, so that row groups differ."""
    data: dict[str, pa.Array] = {"id": pa.array([f"k{number}" for number in range(count)])}
    for place, (name, (kind, values)) in enumerate(columns.items()):
        # Some stretches hold one value only, some nulls only, some everything.
        picks = [
            None
            if (stretch := (number // 4 + seed + place) % 7) == 0
            else values[(number * (stretch > 3) + stretch) % len(values)]
            for number in range(count)
        ]
        data[name] = pa.array(picks, kind)
    return pa.table(data)

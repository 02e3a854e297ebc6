"""Conditions on columns of many types, each with the same condition in DuckDB's words, and rows with the values that they ask for.

Where this library and DuckDB differ by intention, the second text says in DuckDB's words what is promised here (docs/tables.md):

- NaN is unequal to everything, itself included, and neither less nor greater; DuckDB takes it for the greatest number.
- A `float` column counts as doubles, so `single = 0.1` finds no 0.1 of single precision; DuckDB rounds the literal instead.
- A number in scientific notation is a double in arithmetic alone; DuckDB also compares with it as doubles.
- Whole numbers are added and multiplied without overflow.
- A backslash escapes in LIKE; in DuckDB only by ESCAPE.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

Columns = Mapping[str, tuple[pa.DataType, list[Any]]]
"""Name -> type, and values that rows and literals take."""

DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]
TEXTS = ["", "a", "ab", "b", "é", "日本", "\U0010ffff", "a\U0010ffff", "z" * 90, "z" * 90 + "a", "%", "it's", "default"]
PLACES = ["a", "a/b", "a=b", "10:30 50%", "München", "default", "7", "%2F", None]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1e308]
COLUMNS: Columns = {
    "whole": (pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "small": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "double": (pa.float64(), FLOATS),
    "single": (pa.float32(), FLOATS[:7]),
    "text": (pa.string(), TEXTS),
    "price": (pa.decimal128(9, 2), [Decimal(one) for one in ("-1.25", "0.00", "0.01", "9999999.99")]),
    "wide": (pa.decimal128(38, 4), [Decimal(one) for one in ("-1.25", "0", "9" * 30 + ".0001")]),
    "fine": (pa.decimal128(12, 12), [Decimal(one) for one in ("-0.999999999999", "0", "1e-12", "0.25")]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "at_ms": (pa.timestamp("ms", "UTC"), [*TIMES[1:2], dt.datetime(2024, 1, 1, 0, 0, 0, 1000)]),
    "flag": (pa.bool_(), [True, False]),
    "place": (pa.string(), PLACES[:-1]),
    "month": (pa.int32(), [-1, 0, 7, 12]),
    "born": (pa.date32(), DAYS[1:3]),
}
SCHEMA = pa.schema([("id", pa.string()), *((name, kind) for name, (kind, _) in COLUMNS.items())])


@dataclass(frozen=True)
class Drawn:
    """A condition, or an operand of one, here and in DuckDB.

    Attributes:
        family: what it can be compared with: exact, double, text, time, flag, bytes; empty for a condition.
        operator: the outermost arithmetic operator.
    """

    text: str
    duckdb: str
    family: str = ""
    operator: str = ""

    def __str__(self) -> str:
        return self.text


_EXACT = Context(prec=100)
_connection = duckdb.connect(config={"threads": 1})
_connection.execute("SET TimeZone = 'UTC'")


def asked_duckdb(condition: Drawn, rows: pa.Table) -> list[bool | None]:
    """Return DuckDB's result for each row.

    Raises:
        duckdb.Error: a number has more than DuckDB's 38 digits.
    """
    used = [name for name in rows.column_names if name in condition.text]
    plain = {name: _for_duckdb(rows[name]) for name in used}
    table = pa.table({**plain, "row.number": pa.array(range(rows.num_rows))})
    _connection.register("rows_asked", table)
    found = _connection.execute(f'SELECT ({condition.duckdb}) FROM rows_asked ORDER BY "row.number"').fetchall()
    return [None if one is None else bool(one) for (one,) in found]


def picked(condition: Drawn, rows: pa.Table) -> pa.Table:
    """Return the rows for which DuckDB finds a condition true."""
    return rows.filter(pa.array([bool(one) for one in asked_duckdb(condition, rows)], pa.bool_()))


def _for_duckdb(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.timestamp("us"))
    return column.cast(pa.float64()) if pa.types.is_float32(column.type) else column


def family_of(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return "exact"
    if pa.types.is_floating(kind):
        return "double"
    return {pa.string(): "text", pa.bool_(): "flag", pa.binary(): "bytes"}.get(kind, "time")


def compared(left: Drawn, operator: str, right: Drawn) -> Drawn:
    """Compare by IEEE 754 where doubles are compared."""
    if "double" in {left.family, right.family}:
        one, other = _as_double(left), _as_double(right)
        is_nan = f"isnan({one.duckdb}) OR isnan({other.duckdb})"
        result = (
            f"CASE WHEN {one.duckdb} IS NULL OR {other.duckdb} IS NULL THEN NULL "
            f"WHEN {is_nan} THEN {operator in {'<>', '!='}} ELSE {one.duckdb} {operator} {other.duckdb} END"
        )
    else:
        result = f"{left.duckdb} {operator} {right.duckdb}"
    return Drawn(f"{left.text} {operator} {right.text}", f"({result})")


def _as_double(one: Drawn) -> Drawn:
    # DuckDB reads a text as the nearest double, and a long decimal as one beside it.
    number = quoted(one.duckdb.strip("()")) if one.operator == "literal" else one.duckdb
    return Drawn(one.text, f"CAST({number} AS DOUBLE)", "double")


_RANKS = {"+": 1, "-": 1, "*": 2, "/": 2}


def computed(left: Drawn, operator: str, right: Drawn) -> Drawn:
    """Compute with the fewest parentheses here, and with all in DuckDB."""
    rank = _RANKS[operator]
    first = left.text if _RANKS.get(left.operator, 3) >= rank else f"({left.text})"
    second = right.text if _RANKS.get(right.operator, 3) > rank else f"({right.text})"
    text = f"{first} {operator} {second}"
    is_scientific = any("e" in one.text for one in (left, right) if one.operator == "literal")
    if operator == "/" or is_scientific or "double" in {left.family, right.family}:
        one, other = _as_double(left), _as_double(right)
        return Drawn(text, f"({one.duckdb} {operator} {other.duckdb})", "double", operator)
    return Drawn(text, f"({_wide(left)} {operator} {_wide(right)})", "exact", operator)


def _wide(one: Drawn) -> str:
    return f"CAST({one.duckdb} AS HUGEINT)" if one.operator == "whole" else one.duckdb


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def numbers(draw: st.DrawFn, kind: pa.DataType, values: list[Any]) -> Drawn:
    """Draw a number in the column's type, near one, or outside the type."""
    known = [Decimal(repr(one)) if isinstance(one, float) else Decimal(one) for one in values if _is_spoken(one)]
    one = draw(st.sampled_from([*known, Decimal(0), Decimal(1), Decimal("0.1")]))
    last = f"1e-{kind.scale}" if pa.types.is_decimal(kind) else "1"
    steps = ("0", "0", "0", last, f"-{last}", "1", "-1", "0.5", "-0.005", "1e-12", "1e20")
    one = _EXACT.add(one, Decimal(draw(st.sampled_from(steps))))
    plain = f"{one:f}"
    if len(plain.strip("-").replace(".", "")) > 38:
        plain = f"{one:.3f}" if abs(one) < 10**34 else "1" + "0" * 20
        one = Decimal(plain)
    forms = [plain, plain, plain, f"({plain})", f"{one:e}", f"CAST('{plain}' AS DECIMAL(38, 12))"]
    text = draw(st.sampled_from(forms[: 6 if abs(one) < 10**20 else 5]))
    if text.startswith("CAST"):
        return Drawn(text, text, "exact")
    if pa.types.is_floating(kind) and draw(st.integers(0, 3)) == 0 and abs(one) < 10**30:
        return Drawn(f"CAST({plain} AS FLOAT)", f"CAST(CAST('{plain}' AS FLOAT) AS DOUBLE)", "double")
    return Drawn(text, f"({plain})" if one < 0 else plain, "exact", "literal")


def _is_spoken(value: Any) -> bool:
    return not isinstance(value, float) or (math.isfinite(value) and 1e-12 < abs(value) < 1e30)


@st.composite
def literals(draw: st.DrawFn, kind: pa.DataType, values: list[Any]) -> Drawn:
    """Draw a literal that a column can be compared with."""
    family = family_of(kind)
    if family in {"exact", "double"}:
        return draw(numbers(kind, values))
    value = draw(st.sampled_from(values))
    match value:
        case bool():
            return Drawn(str(value).upper(), str(value).upper(), family)
        case bytes():
            return Drawn(quoted(value.decode()), f"{quoted(value.decode())}::BLOB", family)
        case str():
            return Drawn(quoted(value), quoted(value), family)
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    moment += dt.timedelta(microseconds=draw(st.sampled_from([0, 0, 0, 1])))
    day, time = f"DATE '{moment.date().isoformat()}'", f"TIMESTAMP '{moment.isoformat()}'"
    is_date = pa.types.is_date(kind)
    forms = [
        Drawn(day, day, family),
        Drawn(time, time, family),
        Drawn(f"TIMESTAMPTZ '{moment.isoformat()}+00:00'", time, family),
        Drawn(f"'{moment.date().isoformat()}'", f"CAST({day} AS {'DATE' if is_date else 'TIMESTAMP'})", family),
    ]
    return draw(st.sampled_from(forms if is_date else [*forms, Drawn(f"'{moment.isoformat()}'", time, family)]))


def column(name: str, kind: pa.DataType) -> Drawn:
    return Drawn(name, name, family_of(kind), "whole" if pa.types.is_integer(kind) else "")


@st.composite
def operands(draw: st.DrawFn, columns: Columns, name: str) -> Drawn:
    """Draw a column, or for a number what is computed of it."""
    kind, values = columns[name]
    one = column(name, kind)
    if one.family not in {"exact", "double"}:
        return one
    near = [other for other, (kind, _) in columns.items() if family_of(kind) in {"exact", "double"}]
    others = st.one_of(
        st.sampled_from([Drawn("2", "2", "exact", "literal"), Drawn("0.25", "0.25", "exact", "literal")]),
        numbers(kind, values),
        st.sampled_from(near).map(lambda other: column(other, columns[other][0])),
    )
    steps = draw(st.sampled_from([0, 0, 0, 0, 1, 1, 2]))
    if steps and draw(st.booleans()):
        one = Drawn(f"-{one.text}", f"(-{_wide(one)})", one.family)
    for _ in range(steps):
        pair = (one, draw(others))
        first, second = pair if draw(st.booleans()) else pair[::-1]
        one = computed(first, draw(st.sampled_from("+-*/")), second)
    return one


@st.composite
def atoms(draw: st.DrawFn, columns: Columns) -> Drawn:
    name = draw(st.sampled_from(sorted(columns)))
    kind, values = columns[name]
    family, plain = family_of(kind), column(name, kind)
    value = literals(kind, values)
    one = draw(operands(columns, name))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!="]))
    not_ = draw(st.sampled_from(["", "NOT "]))
    shapes = ["literal", "literal", "mirrored", "null", "between", "in", "column"]
    shapes += ["like", "like", "like"] if family == "text" else ["flag", "is"] if family == "flag" else []
    match draw(st.sampled_from(shapes)):
        case "literal":
            return compared(one, operator, draw(value))
        case "mirrored":
            return compared(draw(value), operator, one)
        case "null":
            return Drawn(f"{one.text} IS {not_}NULL", f"(({one.duckdb}) IS {not_}NULL)")
        case "between":
            low, high = draw(value), draw(value)
            ends = compared(one, ">=", low).duckdb, compared(one, "<=", high).duckdb
            return Drawn(f"{one.text} {not_}BETWEEN {low.text} AND {high.text}", f"({not_}({ends[0]} AND {ends[1]}))")
        case "in":
            items = draw(st.lists(value, min_size=1, max_size=4))
            equal = " OR ".join(compared(one, "=", item).duckdb for item in items)
            return Drawn(f"{one.text} {not_}IN ({', '.join(item.text for item in items)})", f"({not_}({equal}))")
        case "column":
            alike = [key for key, (other, _) in columns.items() if _go_together(kind, other)]
            return compared(
                one, operator, draw(st.sampled_from(sorted(alike)).flatmap(lambda key: operands(columns, key)))
            )
        case "like":
            pattern = "".join(draw(st.lists(st.sampled_from(_pieces(values)), max_size=4)))
            escaped = f"{plain.duckdb} {not_}LIKE {quoted(pattern)} ESCAPE '\\'"
            return Drawn(f"{name} {not_}LIKE {quoted(pattern)}", f"({escaped})")
        case "is":
            truth = draw(st.sampled_from(["TRUE", "FALSE", "UNKNOWN"]))
            in_duckdb = "NULL" if truth == "UNKNOWN" else truth
            return Drawn(f"{name} IS {not_}{truth}", f"({name} IS {not_}{in_duckdb})")
    return Drawn(name, name)


def _pieces(values: list[str]) -> list[str]:
    escaped = [one.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for one in values]
    return ["%", "%", "_", "\\%", "\\_", "\\\\", "\\x", *escaped]


def _go_together(kind: pa.DataType, other: pa.DataType) -> bool:
    numbers_ = {"exact", "double"}
    families = {family_of(kind), family_of(other)}
    return len(families) == 1 or families == numbers_


def joined(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    """Draw a larger condition; parentheses are left out at times, in both texts."""

    def join(parts: tuple[Drawn, str, Drawn, bool]) -> Drawn:
        left, word, right, is_bare = parts
        texts = [f"{a} {word} {b}" for a, b in ((left.text, right.text), (left.duckdb, right.duckdb))]
        return Drawn(*(texts if is_bare else [f"({text})" for text in texts]))

    def negate(parts: tuple[Drawn, bool]) -> Drawn:
        one, is_bare = parts
        return Drawn(*(f"NOT {text}" if is_bare else f"NOT ({text})" for text in (one.text, one.duckdb)))

    def state(parts: tuple[Drawn, str]) -> Drawn:
        one, said = parts
        return Drawn(f"({one.text}) {said}", f"(({one.duckdb}) {said})")

    is_said = [f"IS {not_}{truth}" for not_ in ("", "NOT ") for truth in ("TRUE", "FALSE", "NULL")]
    return st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner, st.booleans()).map(join),
        st.tuples(inner, st.booleans()).map(negate),
        st.tuples(inner, st.sampled_from(is_said)).map(state),
    )


def conditions(columns: Columns, further: st.SearchStrategy[Drawn] | None = None) -> st.SearchStrategy[Drawn]:
    """Draw conditions over columns, and of the further ones."""
    one = atoms(columns)
    return st.recursive(one if further is None else st.one_of(one, one, further), joined, max_leaves=4)


_WORDS = ["id = 'k3'", "id IN ('k1', 'absent')", "_hoodie_record_key = 'k2'", "id <> 'k3'", "id > 'k3'"]
CONDITIONS = conditions(COLUMNS, st.sampled_from(_WORDS).map(lambda text: Drawn(text, f"({text})")))


@st.composite
def kinds(draw: st.DrawFn) -> tuple[pa.DataType, list[Any]]:
    """Draw a column's type, and values of it."""
    kind = draw(
        st.sampled_from([
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.string(),
            pa.binary(),
            pa.bool_(),
            pa.date32(),
            pa.timestamp("ms", "UTC"),
            pa.timestamp("us", "UTC"),
            pa.timestamp("us"),
            *[pa.decimal128(9, 2)] * 3,
        ])
    )
    if pa.types.is_decimal(kind):
        digits = draw(st.integers(1, 38))
        kind = pa.decimal128(digits, draw(st.integers(0, digits)))
        most = 10**digits - 1
        whole = st.one_of(st.sampled_from([0, 1, -1, most, -most]), st.integers(-most, most))
        # Some are neighbours, which are one number as doubles.
        pairs = whole.map(lambda one: [Decimal(f"{each}e-{kind.scale}") for each in (one, one - (one > 0) + (one < 0))])
        return kind, draw(st.lists(pairs, min_size=1, max_size=3).map(lambda all_: [*chain.from_iterable(all_)]))
    return kind, draw(st.lists(_values(kind), min_size=1, max_size=5))


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return st.one_of(st.sampled_from([-most, most - 1, 0, 1]), st.integers(-5, 5), st.integers(-most, most - 1))
    if pa.types.is_floating(kind):
        return st.one_of(st.sampled_from(FLOATS[:7]), st.floats(width=kind.bit_width))
    if pa.types.is_date(kind):
        return st.one_of(st.sampled_from(DAYS), st.dates(max_value=dt.date(9999, 12, 30)))
    if pa.types.is_timestamp(kind):
        times = st.one_of(st.sampled_from(TIMES), st.datetimes(max_value=dt.datetime(9999, 12, 30)))
        return (
            times.map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000))
            if kind.unit == "ms"
            else times
        )
    if pa.types.is_binary(kind):
        return st.sampled_from([b"", b"a", b"ab", b"b"])
    if pa.types.is_boolean(kind):
        return st.booleans()
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.one_of(st.sampled_from(TEXTS), st.text(letters, max_size=3), st.text("a%_\\", max_size=4))


SCHEMAS = st.lists(kinds(), min_size=1, max_size=4).map(lambda kinds: {f"c{at}": one for at, one in enumerate(kinds)})


@st.composite
def tables(draw: st.DrawFn, columns: Columns) -> pa.Table:
    """Draw a few rows of some columns, nulls among them."""
    count = draw(st.integers(1, 9))
    data = {
        name: pa.array(draw(st.lists(st.sampled_from([None, *values]), min_size=count, max_size=count)), kind)
        for name, (kind, values) in columns.items()
    }
    return pa.table(data)


def rows_of(seed: int, count: int, columns: Columns) -> pa.Table:
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

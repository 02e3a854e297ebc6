"""A SQL filter selects the rows that DuckDB selects, and no bounds leave one of them out.

Goal: every operator of the grammar, over every type of column, has SQL's result for each row: true, false or null; a unit of rows
is left out by its bounds only if no row of it passes; the values that a lookup takes from a filter include those of each passing
row. Method: random columns, rows with nulls, NaN, extremes and unicode, and random conditions, each in two texts: `conditions.py`
says where the second one spells out a rule in which DuckDB differs.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, example, given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table
from hudi_ops.kernels.condition import COMPARISONS, Condition, negated, passing_units, possible_units
from hudi_ops.read.literals import Number, fit, values_of
from hudi_ops.read.where import parse_where
from tests.bounds import bound
from tests.property.conditions import SCHEMAS, Columns, Drawn, asked_duckdb, conditions, tables

UNIT_ROWS = 2


CONDITIONS_EACH = 4


@st.composite
def asked(draw: st.DrawFn) -> tuple[pa.Table, list[Drawn]]:
    columns: Columns = draw(SCHEMAS)
    wanted = st.lists(conditions(columns), min_size=CONDITIONS_EACH, max_size=CONDITIONS_EACH)
    return draw(tables(columns)), draw(wanted)


TOWNS = pa.table({"c": ["Ostend", "Oslo", "Paris", None]})
AMOUNTS = pa.table({
    "c": pa.array(
        [Decimal("123456789012345678.01"), Decimal("123456789012345678.02"), Decimal(5)], pa.decimal128(20, 2)
    )
})


LARGE = pa.table({"c": pa.array([1.801440065696563e16, 1.0, None])})
"""The first of these values takes no two: a sum rounds by the order of its terms."""


@settings(max_examples=bound(100, 200, 20_000 // CONDITIONS_EACH), suppress_health_check=list(HealthCheck))
@given(asked())
@example((
    LARGE,
    [Drawn(text, text) for text in ("c + (-c + 2) = 2", "2 + (c + 2) = c", "(c * 0.1) * 10 = c * (0.1 * 10)")],
))
@example((TOWNS, [Drawn("c NOT LIKE 'Os%'", "c NOT LIKE 'Os%'"), Drawn("NOT c NOT LIKE 'Os%'", "c LIKE 'Os%'")]))
@example((
    AMOUNTS,
    [Drawn(text, text) for text in ("c > 10", "c = 123456789012345678.01", "c IN (5, 5.001)", "c < 5.001")],
))
def test_a_filter_selects_what_duckdb_selects(given_: tuple[pa.Table, list[Drawn]]) -> None:
    rows, drawn = given_
    for one in drawn:
        check(rows, one)


def check(rows: pa.Table, drawn: Drawn) -> None:
    try:
        wanted = asked_duckdb(drawn, rows)
    except duckdb.Error:  # more digits than DuckDB's 38
        return
    parsed = parse_where(drawn.text)
    try:
        condition = parsed.bind(rows.schema)
    except InvalidRequest as error:
        if error.expected.startswith("at most 76 digits"):
            return
        raise
    assert results(condition, rows) == wanted, drawn
    bounds = bounds_table({name: bounds_of(rows[name]) for name in condition.columns}, -(-rows.num_rows // UNIT_ROWS))
    for one, sought in ((condition, True), (negated(condition), False)):
        may = possible_units(one, bounds)
        assert all(may[at // UNIT_ROWS] for at, result in enumerate(wanted) if result is sought), drawn
        passing = passing_units(one, bounds)
        assert not any(passing[at // UNIT_ROWS] for at, result in enumerate(wanted) if result is not sought), drawn
    for name, values in condition.fixed.items():
        held = rows[name].to_pylist()
        assert {held[at] for at, result in enumerate(wanted) if result} <= set(values), drawn


def results(condition: Condition, rows: pa.Table) -> list[bool | None]:
    numbered = rows.append_column("row.number", pa.array(range(rows.num_rows)))
    found: list[bool | None] = [None] * rows.num_rows
    for one, result in ((condition, True), (negated(condition), False)):
        for at in numbered.filter(one.rows)["row.number"].to_pylist():
            found[at] = result
    return found


def bounds_of(column: pa.ChunkedArray) -> ColumnBounds:
    """Bounds of units of a few rows, as Parquet has them: without NaN."""
    column = column.combine_chunks()
    units = [column[at : at + UNIT_ROWS] for at in range(0, len(column), UNIT_ROWS)]
    ends = []
    for unit in units:
        known = unit.drop_null()
        known = known.filter(pc.invert(pc.is_nan(known))) if pa.types.is_floating(column.type) else known
        found = pc.min_max(known)
        ends.append((found["min"], found["max"]))
    low, high = (pa.array([end[at] for end in ends], column.type) for at in (0, 1))
    has_nulls = pa.array([unit.null_count > 0 for unit in units])
    return ColumnBounds(low, high, has_nulls, pa.array([unit.null_count < len(unit) for unit in units]))


@settings(max_examples=bound(150, 300, 5000))
@given(
    kind=st.one_of(
        st.sampled_from([pa.int32(), pa.int64(), pa.uint64(), pa.int8()]),
        st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda at: pa.decimal128(digits, at))),
    ),
    near=st.fractions(-2, 2),
    edge=st.sampled_from([-1, 0, 1]),
    far=st.sampled_from([0, 0, 1, -1, 10**399, -(10**399)]),
)
def test_a_literal_beside_every_value_decides_as_its_neighbours(
    kind: pa.DataType, near: Fraction, edge: int, far: int
) -> None:
    """DuckDB has no numbers beyond 38 digits, so this one is compared with fractions."""
    is_decimal = pa.types.is_decimal(kind)
    unit = Fraction(1, 10**kind.scale) if is_decimal else Fraction(1)
    greatest = 10**kind.precision - 1 if is_decimal else 2 ** (kind.bit_width - (kind != pa.uint64())) - 1
    least = -greatest if is_decimal else 0 if kind == pa.uint64() else -greatest - 1
    number = (Fraction({-1: least, 0: 0, 1: greatest}[edge]) + near) * unit + far
    held = [one for one in {least, least + 1, -1, 0, 1, 2, greatest - 1, greatest} if least <= one <= greatest]
    values = values_of(kind, held)
    for operator, compare in COMPARISONS.items():
        found = fit(kind, operator, Number(number))
        wanted = [compare(one * unit, number) for one in held]
        if isinstance(found, bool):
            assert wanted == [found] * len(held), (kind, operator, number)
        else:
            (value,) = values_of(kind, [found[1]])
            rows = pa.table({"c": values}).append_column("wanted", pa.array(wanted))
            kept = rows.filter(COMPARISONS[found[0]](pc.field("c"), pc.scalar(value)))
            assert kept.num_rows == sum(wanted), (kind, found[0], number)
            assert all(kept["wanted"].to_pylist()), (kind, found[0], number)

"""A SQL filter selects the rows that DuckDB selects, and no bounds leave one of them out.

Goal: every operator of the grammar, over every type of column, has SQL's result for each row: true, false or null; a unit of rows is
left out by its bounds only if no row of it passes; the values that a lookup takes from a filter include those of each passing row.
Method: random columns, rows with nulls, NaN, extremes and unicode, and random conditions, each in two texts: `conditions.py` says
where the second one spells out a rule in which DuckDB differs.
"""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table
from hudi_ops.kernels.condition import COMPARISONS, Condition, negated, possible_units
from hudi_ops.read.literals import Number, fit, values_of
from hudi_ops.read.where import parse_where
from tests.bounds import bound
from tests.property.conditions import SCHEMAS, Columns, Drawn, asked_duckdb, conditions, tables

UNIT_ROWS = 2


@st.composite
def asked(draw: st.DrawFn) -> tuple[pa.Table, Drawn]:
    columns: Columns = draw(SCHEMAS)
    return draw(tables(columns)), draw(conditions(columns))


@settings(max_examples=bound(400, 800, 20_000), suppress_health_check=list(HealthCheck))
@given(asked())
def test_a_filter_selects_what_duckdb_selects(given_: tuple[pa.Table, Drawn]) -> None:
    check(*given_)


def check(rows: pa.Table, drawn: Drawn) -> None:
    try:
        wanted = asked_duckdb(drawn, rows)
    except duckdb.Error:  # more digits than DuckDB's 38
        assume(False)
    try:
        condition = parse_where(drawn.text).bind(rows.schema)
    except InvalidRequest as error:
        assert "digits" in str(error), drawn
        assume(False)
    assert results(condition, rows) == wanted, drawn
    bounds = bounds_table({name: bounds_of(rows[name]) for name in condition.columns}, -(-rows.num_rows // UNIT_ROWS))
    for one, sought in ((condition, True), (negated(condition), False)):
        may = possible_units(one, bounds)
        assert all(may[at // UNIT_ROWS] for at, result in enumerate(wanted) if result is sought), drawn
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

"""Filters: each condition selects the rows that SQL says, and what is not understood is refused by name."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pytest
from sqlglot import exp

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table
from hudi_ops.kernels.condition import possible_units
from hudi_ops.read.where import READ, parse_where, refuse_unread

ROWS = pa.table({
    "id": [1, 2, 3, 4],
    "name": ["ann", "bob", None, "a'b"],
    "price": [1.5, 2.0, -3.0, None],
    "on": [dt.date(2026, 1, 1), dt.date(2026, 2, 1), None, dt.date(2025, 1, 1)],
    "at": pa.array([1, 2, 3, None], pa.timestamp("us", "UTC")),
    "ok": [True, False, None, True],
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("id = 2", [2]),
        ("id <> 2 AND id < 4", [1, 3]),
        ("NOT (id = 1 OR id = 2)", [3, 4]),
        ("id IN (1, 4, 9)", [1, 4]),
        ("id NOT IN (1, 4)", [2, 3]),
        ("name NOT IN ('bob')", [1, 4]),
        ("2 < id", [3, 4]),
        ("(id) >= (3)", [3, 4]),
        ("id + 1 IN (2, 3)", [1, 2]),
        ("ok = (id > 1)", [4]),
        ("id BETWEEN 2 AND 3", [2, 3]),
        ("name IS NULL", [3]),
        ("ok IS NOT TRUE", [2, 3]),
        ("NOT (ok IS FALSE)", [1, 3, 4]),
        ("id < 99999999999999999999", [1, 2, 3, 4]),
        ("name IS NOT NULL AND price >= 2", [2]),
        ("name = 'a''b'", [4]),
        ("name LIKE 'a%'", [1, 4]),
        ("name NOT LIKE 'a%'", [2]),
        ("NOT name NOT LIKE 'a%'", [1, 4]),
        ("id IN (price, 2)", [2]),
        ("id + 0 NOT IN (1, 4)", [2, 3]),
        ("1 = 1.0 AND 'b' > 'a'", [1, 2, 3, 4]),
        ("id / 2 = 0.5", [1]),
        ("price = -3", [3]),
        ("price * 2 > id + 1.5", [1, 2]),
        ("\"on\" >= DATE '2026-01-01'", [1, 2]),
        ("at >= TIMESTAMP '1970-01-01 00:00:00.000002'", [2, 3]),
        ("ok = TRUE", [1, 4]),
        ("ok IS TRUE", [1, 4]),
        ("ok", [1, 4]),
    ],
)
def test_conditions(text: str, ids: list[int]) -> None:
    assert ROWS.filter(parse_where(text).bind(ROWS.schema).rows)["id"].to_pylist() == ids


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id =",
        "SELECT 1",
        "id = 1; DROP TABLE t",
        "upper(name) = 'A'",
        "id IN (SELECT 1)",
        "name SIMILAR TO 'a'",
        "id = 'x' || 'y'",
        "id IN ()",
        "id IN (1, NULL)",
        "name = NULL",
        "name LIKE name",
        "name LIKE 'a\\'",
        "id LIKE '1%'",
        "id",
        "CAST(id AS TEXT) = '1'",
        "id = 1 / 0",
        "\"on\" > CAST('2026-01-01' AS TIMESTAMP(3))",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="filter"):
        parse_where(text).bind(ROWS.schema)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name LIKE 'a!%' ESCAPE '!'", "ESCAPE"),
        ("name NOT LIKE 'a!%' ESCAPE '!'", "ESCAPE"),
        ("name ILIKE 'A%'", "ILIKE"),
        ("name NOT ILIKE 'A%'", "ILIKE"),
        ("name LIKE ANY ('a%', 'b%')", "ANY"),
        ("id = ANY (1, 2)", "ANY"),
        ("id IS DISTINCT FROM 1", "NULLSAFENEQ"),
        ("id IS NOT DISTINCT FROM 1", "NULLSAFEEQ"),
        ("name COLLATE nocase = 'A'", "COLLATE"),
        ("id NOT IN (SELECT 1)", "SUBQUERY|IN with query"),
        ("id IN price", "IN with field"),
        ("id % 2 = 1", "MOD"),
        ("id // 2 = 1", "INTDIV"),
        ("name GLOB 'a*'", "GLOB"),
        ("TRY_CAST('1.5' AS DECIMAL(9, 2)) = price", "TRYCAST"),
        ("CAST('1.5' AS DECIMAL(9, 2) FORMAT 'x') = price", "CAST with format"),
        ("id + NULL = 1", "NULL"),
    ],
)
def test_what_is_refused_is_named(text: str, named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"uses ({named})[ ,]"):
        parse_where(text).bind(ROWS.schema)


def test_no_argument_is_passed_over() -> None:
    """Each argument that a node of the grammar can have is read, or refused by its name."""
    texts = (
        "NOT (id + 1 - 2 * 3 / -4 IN (1) AND ok IS TRUE) OR name LIKE 'a' OR id BETWEEN 1 AND 2 OR name IS NULL",
        "id = 1 AND id <> 1 AND id < 1 AND id <= 1 AND id > 1 AND id >= CAST('1' AS DECIMAL(9, 2))",
    )
    seen = set()
    for text in texts:
        for place, node in enumerate(parse_where(text).tree.walk()):
            seen.add(type(node))
            for name in node.arg_types.keys() - READ[type(node)]:
                tree = parse_where(text).tree
                next(islice(tree.walk(), place, None)).set(name, exp.true())
                with pytest.raises(InvalidRequest, match=f"{type(node).__name__.upper()} with {name}"):
                    refuse_unread(tree, text)
    assert seen == set(READ)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("d = 1.25", [1]),
        ("d > 1", [1, 2]),
        ("d <> 1.255", [1, 2]),
        ("d IN (1.25, 1.255, 1e300)", [1]),
        ("d NOT IN (1.255)", [1, 2]),
        ("NOT d < 1e300", []),
        ("d < 1e300", [1, 2]),
        ("d BETWEEN 1.249 AND 1.251", [1]),
        ("d + 0.005 > 9999999.99", [2]),
        ("d = CAST('1.249' AS DECIMAL(9, 2))", [1]),
        ("n = 9007199254740993", [2]),
        ("n > 9007199254740992.5", [2]),
        ("n = 1.5 OR n <> 1.5", [1, 2]),
        ("n / 2 = 4503599627370496", [1, 2]),
        ("f = 0.1", []),
        ("f < 0.1000001 AND f > 0.1", [1]),
        ("f = CAST(0.1 AS FLOAT)", [1]),
        ("f < 1e399", [1]),
        ("f / 0 > 1e308", [1]),
        ("n = d", []),
        ("n > d", [1, 2]),
        ("day = '2024-02-29'", [1]),
        ("day < TIMESTAMP '2024-02-29 00:00:01'", [1]),
        ("day = TIMESTAMP '2024-02-29 00:00:01'", []),
        ("ms > TIMESTAMP '2024-02-28T23:59:59.999500'", [1]),
        ("ms = TIMESTAMPTZ '2024-02-29 02:00:00+02:00'", [1]),
        ("ms = '2024-02-29' AND ms = day", [1]),
        ("plain <= DATE '2024-02-29' AND plain = ms", [1]),
    ],
)
def test_literals_are_converted_to_the_type_of_their_column(text: str, ids: list[int]) -> None:
    moment = dt.datetime(2024, 2, 29)
    rows = pa.table({
        "id": [1, 2],
        "d": pa.array([Decimal("1.25"), Decimal("9999999.99")], pa.decimal128(9, 2)),
        "n": [2**53, 2**53 + 1],
        "f": pa.array([0.1, math.nan], pa.float32()),
        "day": pa.array([moment.date(), None]),
        "ms": pa.array([moment, None], pa.timestamp("ms", "UTC")),
        "plain": pa.array([moment, None], pa.timestamp("us")),
    })
    assert rows.filter(parse_where(text).bind(rows.schema).rows)["id"].to_pylist() == ids


@pytest.mark.parametrize("text", ["\"on\" > DATE '2026-13-01'", "at > TIMESTAMP 'soon'"])
def test_literals_that_are_no_dates(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no"):
        parse_where(text).bind(ROWS.schema)


def test_referenced_columns() -> None:
    assert parse_where("a = 1 AND (b > a OR NOT c IS NULL)").columns == ("a", "b", "c")


def test_a_list_finds_what_equality_finds() -> None:
    rows = pa.table({"f": pa.array([0.1, 2.5], pa.float32())})
    for text in ("f IN (0.1, 2.5)", "f = 0.1 OR f = 2.5"):
        assert rows.filter(parse_where(text).bind(rows.schema).rows).num_rows == 1, text


def test_no_sum_of_whole_numbers_overflows() -> None:
    rows = pa.table({"i": pa.array([2], pa.int32()), "n": pa.array([2**63 - 1])})
    for text in ("i + 2147483647 > 2147483647", "n + 1 = 9223372036854775808", "n * n * n > n * n", "-n - n < 0"):
        assert rows.filter(parse_where(text).bind(rows.schema).rows).num_rows == 1, text


def test_long_lists() -> None:
    """Arrow's own answer to 20,000 comparisons of bounds is the end of the process."""
    found = parse_where(f"id IN ({', '.join(map(str, range(2, 20_000)))})").bind(ROWS.schema)
    unit = ColumnBounds(*(pa.array([one]) for one in (1, 4, False, True)))
    assert ROWS.filter(found.rows)["id"].to_pylist() == [2, 3, 4]
    assert possible_units(found, bounds_table({"id": unit}, 1)).tolist() == [True]
    above = ColumnBounds(*(pa.array([one]) for one in (30_000, 40_000, False, True)))
    assert possible_units(found, bounds_table({"id": above}, 1)).tolist() == [False]
    with pytest.raises(InvalidRequest, match="too many conditions"):
        parse_where(" OR ".join(f"id = {one}" for one in range(20_000))).bind(ROWS.schema)
    few = parse_where(" OR ".join(f"id = {one}" for one in range(2, 500))).bind(ROWS.schema)
    assert ROWS.filter(few.rows).num_rows == 3


@pytest.mark.parametrize("text", ["id IN (1, 'a')", "id IN (1.5, DATE '2026-01-01')", f"id < {'9' * 500}"])
def test_values_that_do_not_go_together(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_where(text).bind(ROWS.schema)


@pytest.mark.parametrize(
    "text", ["s.id = 2", "id > 1 AND t.x IS NULL", "NOT a.b.c.d = 1", "s.id IN (1)", "id + s.id > 1"]
)
def test_a_name_with_a_qualifier_is_refused_and_not_cut(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"the filter (names|uses)") as caught:
        parse_where(text)
    assert "." in str(caught.value)


def test_a_column_whose_name_has_a_dot_is_written_in_quotes() -> None:
    assert parse_where('"s.id" = 2').columns == ("s.id",)


@pytest.mark.parametrize("text", [f"id + {'*'.join(['1e400'] * 12)} > 1", "name = '\ud800'"])
def test_what_python_cannot_write_as_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_where(text).bind(ROWS.schema)

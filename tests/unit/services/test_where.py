"""Filters: each condition selects the rows that SQL says, and what is not understood is refused by name."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table
from hudi_ops.kernels.condition import possible_units
from hudi_ops.read.where import parse_where

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
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="filter"):
        parse_where(text).bind(ROWS.schema)


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

"""Filters: each condition selects the rows that SQL says, and what is not understood is refused by name."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.services.where import parse_where

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
    assert ROWS.filter(parse_where(text).rows)["id"].to_pylist() == ids


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
        parse_where(text)


@pytest.mark.parametrize("text", ["\"on\" > DATE '2026-13-01'", "at > TIMESTAMP 'soon'"])
def test_literals_that_are_no_dates(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no"):
        parse_where(text)


def test_referenced_columns() -> None:
    assert parse_where("a = 1 AND (b > a OR NOT c IS NULL)").columns == ("a", "b", "c")

"""Sorting rows, ranks and cut points beside plain Python: all types, nulls, NaN, -0.0, skew."""

from __future__ import annotations

import math
from datetime import UTC
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.files.base.repeated_columns import decode_columns
from hudi_ops.kernels.sorting.cuts import choose_cuts, ends_of_shares, sampled_positions
from hudi_ops.kernels.sorting.order import UNSORTED, SortOrder
from hudi_ops.kernels.sorting.sort import ranks, ranks_among, sort_indices
from tests.bounds import examples

FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 5e-324]
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]) | st.integers(-3, 3),
    pa.int64(): st.sampled_from([-(2**63), -(2**40), 0, 2**16, 2**63 - 1]) | st.integers(-3, 3),
    pa.float32(): st.sampled_from(FLOATS[:-1]) | st.floats(width=32),
    pa.float64(): st.sampled_from(FLOATS) | st.floats(),
    pa.decimal128(10, 2): st.decimals(-99, 99, places=2, allow_nan=False),
    pa.decimal128(38, 3): st.decimals(-(10**34), 10**34, places=3, allow_nan=False) | st.just(Decimal(-1)),
    pa.string(): st.text(max_size=3) | st.sampled_from(["same prefix 1", "same prefix 22", "\U0001f600", "\uffff"]),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.time64("us"): st.times(),
    pa.null(): st.none(),
}


def key_of(value: Any) -> tuple[int, Any]:
    """The order of values in plain Python: nulls first, NaN last."""
    if value is None:
        return 0, 0
    if isinstance(value, float) and math.isnan(value):
        return 2, 0
    return 1, value.encode() if isinstance(value, str) else value


@st.composite
def columns(draw: st.DrawFn, count: int = 1) -> list[pa.ChunkedArray]:
    """Columns of one length: few values that repeat, nulls, several chunks, perhaps as a dictionary."""
    length, made = draw(st.integers(0, 40)), []
    for _ in range(count):
        kind = draw(st.sampled_from(list(TYPES)))
        values = [*draw(st.lists(TYPES[kind], min_size=1, max_size=6)), None]
        drawn = draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))
        cut = draw(st.integers(0, length))
        column = pa.chunked_array([pa.array(drawn[:cut], kind), pa.array(drawn[cut:], kind)], kind)
        is_encoded = kind == pa.string() and draw(st.booleans())
        made.append(pa.chunked_array([chunk.dictionary_encode() for chunk in column.chunks]) if is_encoded else column)
    return made


def table_of(found: list[pa.ChunkedArray]) -> pa.Table:
    return pa.table(dict(zip("abc", found, strict=False)))


@given(columns(3), st.integers(1, 3))
@settings(max_examples=examples(100))
def test_rows_are_in_the_order_of_plain_python_and_equal_rows_keep_theirs(
    found: list[pa.ChunkedArray], by: int
) -> None:
    order = sort_indices(table_of(found), SortOrder("linear", tuple("abc"[:by])))
    values = [column.to_pylist() for column in found[:by]]
    expected = sorted(range(len(values[0])), key=lambda row: [key_of(column[row]) for column in values])
    assert order.tolist() == expected


@given(columns())
@settings(max_examples=examples(60))
def test_a_rank_is_the_number_of_smaller_values(found: list[pa.ChunkedArray]) -> None:
    keys = [key_of(value) for value in found[0].to_pylist()]
    assert ranks(found[0]).tolist() == [sum(other < key for other in keys) for key in keys]


@given(columns(), st.integers(1, 10))
@settings(max_examples=examples(60))
def test_a_rank_among_a_sample_is_the_number_of_its_values_that_are_not_greater(
    found: list[pa.ChunkedArray], count: int
) -> None:
    keys = [key_of(value) for value in found[0].to_pylist()]
    expected = [sum(other <= key for other in keys[:count]) for key in keys]
    assert ranks_among(found[0], found[0].slice(0, count)).tolist() == expected


@given(columns(2), st.integers(1, 12), st.integers(1, 40))
@settings(max_examples=examples(100))
def test_buckets_follow_the_order_and_equal_ones_hold_equal_rows(
    found: list[pa.ChunkedArray], count: int, sampled: int
) -> None:
    rows = decode_columns(table_of(found), ("a", "b"))
    order = SortOrder("linear", ("a", "b"))
    cuts = choose_cuts(rows.slice(0, sampled), order, count)
    buckets = cuts.buckets(rows).tolist()
    keys = [[key_of(value) for value in row.values()] for row in rows.to_pylist()]
    in_order = sorted(range(rows.num_rows), key=lambda row: keys[row])
    assert all(buckets[low] <= buckets[high] for low, high in pairwise(in_order))
    assert all(0 <= bucket < cuts.count for bucket in buckets)
    for bucket in cuts.equal:
        held = [keys[row] for row in in_order if buckets[row] == bucket]
        assert all(key == held[0] for key in held)


def test_a_heavy_value_gets_a_bucket_of_its_own() -> None:
    rows = pa.table({"a": [1, 2, 3, *[7] * 20, 8, 9, 10]})
    cuts = choose_cuts(rows, SortOrder("linear", ("a",)), 8)
    buckets = cuts.buckets(rows)
    (heavy,) = cuts.equal
    assert set(buckets[3:23]) == {heavy}
    assert heavy not in {*buckets[:3], *buckets[23:]}


def test_without_an_order_rows_stay() -> None:
    assert sort_indices(pa.table({"a": [3, 1, 2]}), UNSORTED).tolist() == [0, 1, 2]


@pytest.mark.parametrize("curve", ["linear", "z-order", "hilbert"])
def test_nested_columns_are_refused(curve: Any) -> None:
    rows = pa.table({"a": pa.array([{"x": 1}]), "b": pa.array([[1]])})
    for name in ("a", "b"):
        with pytest.raises(InvalidRequest, match="cannot be sorted"):
            sort_indices(rows, SortOrder(curve, (name,)))


@pytest.mark.parametrize(
    ("curve", "columns", "says"),
    [
        ("zigzag", ("a",), "zigzag"),
        ("linear", (), "no column"),
        ("hilbert", (), "1 to 8 columns"),
        ("z-order", tuple("abcdefghi"), "1 to 8 columns"),
        ("none", ("a",), "none"),
        ("linear", ("a", "b", "a"), "a twice"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(curve: Any, columns: tuple[str, ...], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        SortOrder(curve, columns)


@pytest.mark.parametrize("distance", [1, 2, 7, 100])
def test_a_sample_does_not_depend_on_the_pieces(distance: int) -> None:
    whole = sampled_positions(0, 1000, distance)
    pieces = [first + sampled_positions(first, 37, distance) for first in range(0, 1000, 37)]
    found = np.concatenate(pieces)
    assert found[found < 1000].tolist() == whole.tolist()
    assert len(whole) >= 1000 // distance


def test_shares_are_of_about_equal_size() -> None:
    assert ends_of_shares([10, 10, 10, 10], [1, 1, 1, 1], 4) == [10, 20, 30, 40]
    assert ends_of_shares([10, 10], [300, 100], 2) == [7, 20]
    assert ends_of_shares([3], [0], 3) == [1, 2, 3]
    assert ends_of_shares([], [], 2) == [0, 0]

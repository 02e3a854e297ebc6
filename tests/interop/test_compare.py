"""The comparison must be blind to order and physical types, and to nothing else."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tests.interop.compare import assert_same_rows

pytestmark = pytest.mark.quick


def test_order_and_physical_types_do_not_matter() -> None:
    left = pa.table({
        "s": pa.array(["a", "b", None]),
        "n": pa.array([1, 2, 3], pa.int32()),
        "d": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal128(10, 2)),
        "t": pa.array([1_000, None, 3_000], pa.timestamp("us", "UTC")),
        "l": pa.array([["x"], [], None], pa.list_(pa.string())),
        "m": pa.array([[("k", 1), ("j", 2)], [], None], pa.map_(pa.string(), pa.int32())),
        "f": pa.array([float("nan"), 0.5, None]),
    })
    right = pa.table({
        "f": pa.array([None, 0.5, float("nan")], pa.float32()),
        "m": pa.array([None, [], [("j", 2), ("k", 1)]], pa.map_(pa.large_string(), pa.int64())),
        "l": pa.array([None, [], ["x"]], pa.large_list(pa.large_string())),
        "t": pa.array([3, None, 1], pa.timestamp("ms", "+00:00")),
        "d": pa.array([Decimal("2.0"), None, Decimal("1.5")], pa.decimal128(20, 1)),
        "n": pa.array([3, 2, 1], pa.int64()),
        "s": pa.array([None, "b", "a"]).dictionary_encode(),
    })
    assert_same_rows(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array(["a", "a", "b"]), pa.array(["a", "b", "b"])),
        (pa.array(["a"]), pa.array(["a", "a"])),
        (pa.array([None], pa.string()), pa.array([""])),
        (pa.array([[]], pa.list_(pa.int32())), pa.array([None], pa.list_(pa.int32()))),
        (pa.array([["a", "b"]]), pa.array([["b", "a"]])),
        (pa.array([1.1], pa.float32()), pa.array([1.1], pa.float64())),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
        (pa.array([1]), pa.array(["1"])),
        (pa.array([Decimal("1.23")]), pa.array([Decimal("1.2")])),
    ],
    ids=["multiplicity", "count", "null", "null-list", "list-order", "float-width", "zone", "type", "decimal"],
)
def test_a_difference_is_an_assertion_error(left: pa.Array, right: pa.Array) -> None:
    with pytest.raises(AssertionError):
        assert_same_rows(pa.table({"x": left}), pa.table({"x": right}))


def test_the_message_shows_the_differing_value_of_the_nearest_row() -> None:
    left = pa.table({"id": ["a", "b"], "p": ["x", "y"], "v": [1, 2]})
    right = pa.table({"id": ["b", "a"], "p": ["y", "x"], "v": [3, 1]})
    with pytest.raises(AssertionError, match=r"row \{'id': 'b', 'p': 'y'\}\n    v: left 2, right 3"):
        assert_same_rows(left, right)


def test_columns_must_agree_and_meta_columns_count_on_request() -> None:
    left = pa.table({"id": ["a"], "_hoodie_commit_time": ["1"], "_hoodie_is_deleted": [False]})
    right = pa.table({"id": ["a"], "_hoodie_commit_time": ["2"], "_hoodie_is_deleted": [False]})
    assert_same_rows(left, right)
    with pytest.raises(AssertionError, match="_hoodie_commit_time: left '1', right '2'"):
        assert_same_rows(left, right, with_meta=True)
    with pytest.raises(AssertionError, match="only left"):
        assert_same_rows(left, right.drop_columns(["_hoodie_is_deleted"]))

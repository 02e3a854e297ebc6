"""Dealing new keys: small groups fill up first, new ones share the rest evenly, and a key's group hangs on the key alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.services.write.routing.packing import Share, dealt_to, shares_of


@pytest.mark.parametrize(
    ("rows", "rooms", "per_file", "expected"),
    [
        (0, [5], 10, []),
        (3, [5], 10, [Share(3, 0)]),
        (5, [5, 5], 10, [Share(5, 0)]),
        (8, [5, 0, 5], 10, [Share(5, 0), Share(3, 2)]),
        (12, [], 10, [Share(6), Share(6)]),
        (31, [5], 10, [Share(5, 0), Share(9), Share(9), Share(8)]),
        (2, [0], 0, [Share(1), Share(1)]),
    ],
)
def test_small_groups_are_filled_then_new_ones_begin(
    rows: int, rooms: list[int], per_file: int, expected: list[Share]
) -> None:
    assert shares_of(rows, rooms, per_file) == expected


@given(st.integers(0, 10_000), st.lists(st.integers(0, 3_000), max_size=4), st.integers(1, 3_000))
def test_every_row_is_dealt_once(rows: int, rooms: list[int], per_file: int) -> None:
    dealt = shares_of(rows, rooms, per_file)
    assert sum(one.rows for one in dealt) == rows
    assert all(0 < one.rows <= (per_file if one.room is None else rooms[one.room]) for one in dealt)


@pytest.mark.parametrize("name", ["{0}", "k{0:09d}", "user-{0}-2024", "日本{0}"])
def test_keys_are_spread_as_the_shares_say_even_where_they_count_upwards(name: str) -> None:
    keys = pa.array([name.format(n) for n in range(20_000)])
    rows = [2_000, 8_000, 6_000, 4_000]
    found = np.bincount(dealt_to(keys, rows), minlength=4)
    assert (abs(found - rows) < 700).all(), found


def test_a_keys_share_does_not_hang_on_the_rows_beside_it() -> None:
    keys = pa.array([f"{n}" for n in range(1_000)])
    whole = dealt_to(keys, [10, 20, 30])
    assert (dealt_to(keys.take(pa.array([7, 500, 7])), [10, 20, 30]) == whole[[7, 500, 7]]).all()
    assert (dealt_to(keys, [5]) == 0).all()

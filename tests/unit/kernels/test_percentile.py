"""Percentiles by nearest rank."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings, strategies as st

from hudi_ops.kernels.percentile import nearest_rank
from tests.bounds import examples


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 50), max_size=120), st.integers(1, 100))
def test_the_nearest_rank_is_the_smallest_value_that_covers_its_share(values: list[int], percent: int) -> None:
    covering = [
        value for value in values if Fraction(sum(other <= value for other in values), len(values)) * 100 >= percent
    ]
    assert nearest_rank(np.array(values, np.int64), percent) == min(covering, default=None)

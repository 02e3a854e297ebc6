"""Sorting many texts."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from hudi_ops.kernels.text_order import ascending

_COUNT = 5000


@pytest.mark.parametrize("prefix", ["", "order-2024-"])
@pytest.mark.parametrize("alphabet", ["ab", "0123456789abcdef", "\x00aé\uffff\U0001f600"])
@pytest.mark.parametrize("longest", [2, 8, 9, 40])
def test_texts_are_in_the_order_of_their_bytes_and_equal_ones_in_their_own(
    prefix: str, alphabet: str, longest: int
) -> None:
    drawn = random.Random(f"{prefix}{alphabet}{longest}")
    texts = [prefix + "".join(drawn.choices(alphabet, k=drawn.randint(0, longest))) for _ in range(_COUNT)]
    expected = sorted(range(_COUNT), key=lambda at: texts[at].encode())
    assert ascending(pa.array(texts)).tolist() == expected
    assert ascending(pa.array(["zz", *texts]).slice(1)).tolist() == expected
    assert ascending(pa.array(["zz", *texts], pa.large_string()).slice(1)).tolist() == expected


def test_equal_texts_stay_in_their_order() -> None:
    assert ascending(pa.array(["x"] * _COUNT)).tolist() == list(range(_COUNT))
    assert ascending(pa.array([""] * _COUNT)).tolist() == list(range(_COUNT))
    assert ascending(pa.array([], pa.string())).tolist() == []

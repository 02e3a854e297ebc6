"""Goal: keys lie on a hash ring where Apache Hudi puts them, for all lengths, characters and chunks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.keys import xxhash
from hudi_ops.kernels.keys.xxhash import ring_hashes

VECTORS = {  # of Apache Hudi 1.1.1: docs/format §10.3
    "TXN-001": 849299051,
    "abc": 852579327,
    "ab": 1234828371,
    "polygenelubricants": 1996923932,
    "日本": 1623760180,
    "": 46947589,
}
P1, P2, P3, P4, P5 = 2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393
MASK = 0xFFFFFFFF


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & MASK


def xxhash32(text: str) -> int:
    """The algorithm word by word, in Python's numbers: the model of the kernel."""
    data = text.encode()
    at = 0
    found = P5
    if len(data) >= 16:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while at + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at + 4 * lane : at + 4 * lane + 4], "little")
                lanes[lane] = _rotated((lanes[lane] + word * P2) & MASK, 13) * P1 & MASK
            at += 16
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
    found = (found + len(data)) & MASK
    while at + 4 <= len(data):
        found = _rotated((found + int.from_bytes(data[at : at + 4], "little") * P3) & MASK, 17) * P4 & MASK
        at += 4
    for byte in data[at:]:
        found = _rotated((found + byte * P5) & MASK, 11) * P1 & MASK
    for shift, prime in ((15, P2), (13, P3), (16, 1)):
        found = (found ^ (found >> shift)) * prime & MASK
    return found & 0x7FFFFFFF


def test_hashes_are_apache_hudis() -> None:
    assert ring_hashes([pa.array(list(VECTORS))]).tolist() == list(VECTORS.values())
    assert [xxhash32(text) for text in VECTORS] == list(VECTORS.values())


@given(st.lists(st.text(max_size=80)), st.integers(0, 3))
def test_texts_of_any_length_hash_as_the_algorithm_says(texts: list[str], first: int) -> None:
    column = pa.array(["skipped"] * first + texts, pa.string()).slice(first)
    assert ring_hashes([column]).tolist() == [xxhash32(text) for text in texts]


def test_every_length_around_a_stripe_hashes_as_the_algorithm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xxhash, "BLOCK_ROWS", 7)
    texts = ["é" * (n // 2) + "x" * (n % 2) for n in range(70)]
    assert ring_hashes([pa.array(texts)]).tolist() == [xxhash32(text) for text in texts]


def test_values_are_joined_without_a_separator_and_nulls_add_nothing() -> None:
    columns = [pa.array(["a", "ab", None]), pa.array(["b", None, None], pa.string())]
    assert ring_hashes(columns).tolist() == [VECTORS["ab"], VECTORS["ab"], VECTORS[""]]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="columns of one length"):
        ring_hashes([pa.array(["a"]), pa.array(["a", "b"])])

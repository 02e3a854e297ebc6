"""Keys of one width are joined as values of fixed size; all others as texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_ops.kernels.merging.merge import pairs, with_fixed_width

SAME = pa.array(["aa", "bb", "é", "cc"])
"""Two bytes each, also where that is one letter."""


def test_keys_of_one_width_are_narrowed_without_a_copy() -> None:
    base, incoming = with_fixed_width(
        pa.chunked_array([SAME, pa.array([], pa.string()), SAME.slice(1, 2)]), SAME.slice(2)
    )
    assert base.type == incoming.type == pa.binary(2)
    assert base.to_pylist() == [b"aa", b"bb", "é".encode(), b"cc", b"bb", "é".encode()]
    assert incoming.to_pylist() == ["é".encode(), b"cc"]
    assert incoming.buffers()[1].address == SAME.buffers()[2].address + 4


@pytest.mark.parametrize(
    ("base", "incoming"),
    [
        (pa.array(["a", "bbb"]), pa.array(["aa", "bb"])),
        (pa.array(["aa", None]), pa.array(["aa", "bb"])),
        (pa.array(["aa"]), pa.array(["a"])),
        (pa.array(["", ""]), pa.array(["", ""])),
        (pa.array(["aa"]), pa.array([], pa.string())),
    ],
)
def test_others_stay_as_they_are(base: pa.Array, incoming: pa.Array) -> None:
    found = with_fixed_width(pa.chunked_array([base]), incoming)
    assert (found[0].type, found[1].type) == (pa.string(), pa.string())


def test_both_forms_find_the_same_pairs() -> None:
    rows, numbers = pairs(pa.chunked_array([SAME, SAME]), pa.array(["cc", "zz", "é"]))
    assert (rows.tolist(), numbers.tolist()) == ([2, 3, 6, 7], [2, 0, 2, 0])
    longer = pairs(pa.chunked_array([SAME, SAME]), pa.array(["cc", "zzz", "é"]))
    assert (rows.tolist(), numbers.tolist()) == (longer[0].tolist(), longer[1].tolist())

"""Keys of the z-order and the Hilbert curve beside slow references."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.kernels.sorting.curves import curve_keys, hilbert_transposed, interleaved
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.kernels.sorting.sort import sort_indices

SHAPES = [(1, 5), (2, 1), (2, 5), (3, 3), (4, 2), (8, 1)]


def grid(columns: int, bits: int) -> list[np.ndarray]:
    """Every combination of coordinates."""
    cells = np.arange(1 << (columns * bits), dtype=np.uint64)
    return [(cells >> np.uint64(bits * place)) & np.uint64((1 << bits) - 1) for place in range(columns)]


def slow_z_order(cell: list[int], bits: int) -> int:
    key = 0
    for bit in reversed(range(bits)):
        for value in cell:
            key = key << 1 | value >> bit & 1
    return key


@pytest.mark.parametrize(("columns", "bits"), [*SHAPES, (2, 32), (3, 21), (5, 12), (7, 9), (8, 8)])
def test_the_z_order_interleaves_bits(columns: int, bits: int) -> None:
    drawn = np.random.default_rng(columns * 100 + bits)
    cells = [drawn.integers(0, 1 << bits, 200, dtype=np.uint64) for _ in range(columns)]
    keys = interleaved(cells, bits).tolist()
    assert keys == [slow_z_order([int(value) for value in cell], bits) for cell in zip(*cells, strict=True)]


@pytest.mark.parametrize(("columns", "bits"), SHAPES)
def test_the_hilbert_curve_visits_each_cell_once_and_steps_to_a_neighbour(columns: int, bits: int) -> None:
    cells = grid(columns, bits)
    keys = interleaved(hilbert_transposed(cells, bits), bits)
    assert np.sort(keys).tolist() == list(range(len(keys)))
    along = np.argsort(keys)
    steps = sum(np.abs(np.diff(column[along].astype(np.int64))) for column in cells)
    assert set(np.asarray(steps).tolist()) == {1}


def test_the_hilbert_curve_of_large_coordinates_is_that_of_a_slow_reference() -> None:
    drawn = np.random.default_rng(5)
    for columns, bits in ((2, 32), (3, 21), (8, 8)):
        cells = [drawn.integers(0, 1 << bits, 50, dtype=np.uint64) for _ in range(columns)]
        found = hilbert_transposed(cells, bits)
        for row, cell in enumerate(zip(*cells, strict=True)):
            assert [int(column[row]) for column in found] == slow_hilbert([int(value) for value in cell], bits)


def slow_hilbert(axes: list[int], bits: int) -> list[int]:
    """Skilling's transform of one cell, step by step."""
    high = 1 << (bits - 1)
    bit = high
    while bit > 1:
        for place in range(len(axes)):
            if axes[place] & bit:
                axes[0] ^= bit - 1
            else:
                exchanged = (axes[0] ^ axes[place]) & (bit - 1)
                axes[0] ^= exchanged
                axes[place] ^= exchanged
        bit >>= 1
    for place in range(1, len(axes)):
        axes[place] ^= axes[place - 1]
    correction, bit = 0, high
    while bit > 1:
        if axes[-1] & bit:
            correction ^= bit - 1
        bit >>= 1
    return [axis ^ correction for axis in axes]


@pytest.mark.parametrize("curve", ["z-order", "hilbert"])
def test_keys_of_equal_ranks_are_equal_and_large_blocks_are_computed_alike(curve: str) -> None:
    count = 100_000
    first, second = np.arange(count, dtype=np.uint64) // np.uint64(2) * np.uint64(2), np.zeros(count, np.uint64)
    keys = curve_keys(curve, [first, second], count)  # type: ignore[arg-type]
    assert (keys[::2] == keys[1::2]).all()
    assert len(np.unique(keys)) == count // 2
    part = slice(40_000, 40_100)
    assert (keys[part] == curve_keys(curve, [first[part], second[part]], count)).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("curve", ["z-order", "hilbert"])
def test_a_box_lies_in_few_pieces_of_the_sorted_rows(curve: str) -> None:
    drawn = np.random.default_rng(7)
    # Skewed numbers, and texts: ranks spread both evenly.
    rows = pa.table({
        "a": drawn.exponential(size=20_000) ** 4,
        "b": pa.array([f"t{value:.9f}" for value in drawn.random(20_000) ** 6]),
    })
    found = rows.take(pa.array(sort_indices(rows, SortOrder(curve, ("a", "b")))))  # type: ignore[arg-type]
    bounds = [np.sort(np.asarray(rows.column(name)))[[9000, 10999]] for name in ("a", "b")]
    hit = 0
    for begin in range(0, 20_000, 400):
        piece = found.slice(begin, 400)
        values = [np.asarray(piece.column(name)) for name in ("a", "b")]
        hit += all(
            column.min() <= high and column.max() >= low for column, (low, high) in zip(values, bounds, strict=True)
        )
    assert hit <= 50 * 0.4

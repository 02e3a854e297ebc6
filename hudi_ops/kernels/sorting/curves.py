"""Keys along space-filling curves, of columns of ranks.

The columns share the 64 bits of a key evenly. The first column decides first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hudi_ops.kernels.sorting.order import Curve
from hudi_ops.kernels.sorting.positions import Words

_KEY_BITS = 64
_COLUMN_BITS_MAX = 32
_BLOCK_ROWS = 1 << 15
"""Rows whose keys are computed at a time: their columns stay in the processor's cache."""
_BYTE = np.uint64(0xFF)

Coordinates = list[npt.NDArray[np.uint64]]


def curve_keys(curve: Curve, columns: Sequence[Words], count: int) -> Words:
    """Return the key of each row.

    `columns` hold ranks below `count`, one array for each column. They are spread over as many bits as they need, and no more than
    their share of a key.
    """
    bits = min(_KEY_BITS // len(columns), _COLUMN_BITS_MAX, max(1, (count - 1).bit_length()))
    rows = len(columns[0])
    keys = np.empty(rows, np.uint64)
    for begin in range(0, rows, _BLOCK_ROWS):
        block = slice(begin, begin + _BLOCK_ROWS)
        spread = [(ranks[block] << np.uint64(bits)) // np.uint64(count) for ranks in columns]
        keys[block] = interleaved(hilbert_transposed(spread, bits) if curve == "hilbert" else spread, bits)
    return keys


def interleaved(columns: Sequence[Words], bits: int) -> Words:
    """Interleave the lower bits of columns: the key of the z-order curve.

    The highest bit of the first column comes first.
    """
    spread = _spread_bytes(len(columns))
    keys = np.zeros(len(columns[0]), np.uint64)
    for place, column in enumerate(columns):
        for at in range(0, bits, 8):
            shift = at * len(columns) + len(columns) - 1 - place
            keys |= spread[((column >> np.uint64(at)) & _BYTE).astype(np.intp)] << np.uint64(shift)
    return keys


def hilbert_transposed(columns: Sequence[Words], bits: int) -> Coordinates:
    """Return numbers of which the interleaved bits are the key of the Hilbert curve.

    Each column has `bits` bits. Rows whose keys differ by one differ by one in one column alone.

    Source: J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707 (2004).
    """
    axes = [column.copy() for column in columns]
    first = axes[0]
    for bit in range(bits - 1, 0, -1):
        below = np.uint64((1 << bit) - 1)
        for axis in axes:
            # All ones below the bit where the axis has it: there the first axis is inverted, elsewhere the two are exchanged.
            is_set = (axis >> np.uint64(bit)) & np.uint64(1)
            inverted = is_set * below
            exchanged = (first ^ axis) & (below ^ inverted)
            first ^= inverted | exchanged
            if axis is not first:
                axis ^= exchanged
    for before, axis in pairwise(axes):
        axis ^= before
    # Each bit of the correction is the parity of the higher bits of the last axis.
    parity = axes[-1].copy()
    for distance in (1, 2, 4, 8, 16):
        parity ^= parity >> np.uint64(distance)
    parity >>= np.uint64(1)
    for axis in axes:
        axis ^= parity
    return axes


def _spread_bytes(columns: int) -> Words:
    """Return each byte with its bits spread: adjacent bits are `columns` places apart."""
    byte = np.arange(256, dtype=np.uint64)
    spread = np.zeros(256, np.uint64)
    for bit in range(8):
        spread |= ((byte >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * columns)
    return spread

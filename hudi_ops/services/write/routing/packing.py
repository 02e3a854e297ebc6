"""Assignment of new keys to file groups, where the index leaves it open.

Small groups are filled first, up to a target size, then new ones are made. The principle is that of Apache Hudi's
`UpsertPartitioner`: the number of new rows alone decides how many each group takes, and a hash of its key decides to which of
them a row goes. So all rows of one key go to the same group, wherever they are routed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.keys.hashing import java_string_hash

_MIXER = np.uint32(2654435761)
"""Odd, and 2^32 divided by the golden ratio: it spreads hashes of keys that count upwards, which are close to each other."""


@dataclass(frozen=True, slots=True)
class Share:
    """New rows for one file group: that at position `room` of the small ones, or a new one."""

    rows: int
    room: int | None = None


def shares_of(rows: int, rooms: Sequence[int], rows_per_file: int) -> list[Share]:
    """Return the share of each group: small ones up to their rooms, then equal new ones.

    `rooms` are the rows that small groups take, in the order in which they are filled; a new group has about `rows_per_file` rows.
    """
    dealt: list[Share] = []
    left = rows
    for number, room in enumerate(rooms):
        taken = min(room, left)
        if taken > 0:
            dealt.append(Share(taken, number))
            left -= taken
    if left > 0:
        files = -(-left // max(1, rows_per_file))
        each, more = divmod(left, files)
        dealt += [Share(each + (number < more)) for number in range(files)]
    return dealt


def dealt_to(keys: pa.Array, rows: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the share of each key, by a hash of it; a share gets about its part of all keys."""
    if len(rows) == 1:
        return np.zeros(len(keys), np.int64)
    ends = np.cumsum(rows, dtype=np.float64) / max(1, sum(rows)) * 2.0**32
    places = java_string_hash(keys).view(np.uint32) * _MIXER
    return np.minimum(np.searchsorted(ends, places.astype(np.float64), side="right"), len(rows) - 1)

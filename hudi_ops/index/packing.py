"""Which file groups take new keys, where the index leaves it open: small ones first, up to a target size, then new ones.

As Apache Hudi does in principle (its `UpsertPartitioner`): how many rows each group takes is decided from their number alone, and
a hash of its key says which of them a row goes to. So rows of one key go together, wherever they are routed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.keys.hashing import java_string_hash

_MIXER = np.uint32(2654435761)
"""Odd, and 2^32 divided by the golden ratio: hashes of keys that count upwards lie close to each other, and are spread by it."""


@dataclass(frozen=True, slots=True)
class Share:
    """So many new rows go to one file group: to that of `room`, a number among the small ones, or to a new one."""

    rows: int
    room: int | None = None


def shares_of(rows: int, rooms: Sequence[int], rows_per_file: int) -> list[Share]:
    """Deal new rows of one partition to its groups.

    Args:
        rows: how many there are.
        rooms: how many each small group takes, in the order in which they are filled.
        rows_per_file: how many a new group takes, at least 1.

    Returns:
        What each group gets: small ones as far as they are needed, then new ones of about equal size.
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
    """The share of each key, by a hash of the key.

    Args:
        keys: record keys without nulls.
        rows: of each share, in order; a share gets about so many of all keys.

    Returns:
        Numbers of shares.
    """
    if len(rows) == 1:
        return np.zeros(len(keys), np.int64)
    ends = np.cumsum(rows, dtype=np.float64) / max(1, sum(rows)) * 2.0**32
    places = java_string_hash(keys).view(np.uint32) * _MIXER
    return np.minimum(np.searchsorted(ends, places.astype(np.float64), side="right"), len(rows) - 1)

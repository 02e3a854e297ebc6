"""Pack the slices of partitions into groups that a clustering rewrites together.

Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hudi_ops.view.columns.files import Longs

_BYTES_MAX = 1 << 62


@dataclass(frozen=True)
class Packs:
    """Packs of consecutive slices.

    Attributes:
        starts: place of the first slice of each pack.
        counts: number of its slices.
        outputs: number of files that it becomes.
    """

    starts: Longs
    counts: Longs
    outputs: Longs


def pack(partitions: Longs, sizes: Longs, group_bytes: int, target_bytes: int) -> Packs:
    """Pack slices, partition by partition, in their order.

    Args:
        partitions: number of the partition of each slice; slices of one partition are neighbours.
        sizes: in bytes.
        group_bytes: most bytes of a pack; a larger slice is a pack of its own.
        target_bytes: size of the files that a pack becomes.
    """
    count = len(sizes)
    if not count:
        none = np.empty(0, np.int64)
        return Packs(none, none, none)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    places = np.arange(count)
    # The place behind the pack that would begin at each place.
    fits = np.searchsorted(ends[1:], ends[:-1] + min(group_bytes, _BYTES_MAX), side="right")
    borders = np.append(np.flatnonzero(np.diff(partitions)) + 1, count)
    behind = np.minimum(np.maximum(fits, places + 1), borders[np.searchsorted(borders, places, side="right")]).tolist()
    found, at = [], 0
    while at < count:
        found.append(at)
        at = behind[at]
    starts = np.array(found, np.int64)
    outputs = np.maximum(1, -(-np.add.reduceat(sizes, starts) // min(target_bytes, _BYTES_MAX)))
    return Packs(starts, np.diff(np.append(starts, count)), outputs)

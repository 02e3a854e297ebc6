"""Percentiles of whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def nearest_rank(values: npt.NDArray[np.int64], percent: int) -> int | None:
    """Return the smallest value that at least `percent` of the values do not exceed, or None."""
    if not len(values):
        return None
    rank = max(0, -(-percent * len(values) // 100) - 1)
    return int(np.partition(values, rank)[rank])

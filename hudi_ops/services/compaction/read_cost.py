"""Measure what readers of a table merge: log files of its slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hudi_ops.kernels.percentile import nearest_rank
from hudi_ops.services.base.slices import keys_of
from hudi_ops.view.columns.slices import SliceColumns

WORST_MAX = 5
"""Most slices that are named for their number of log files, and again for their bytes."""


@dataclass(frozen=True)
class LoggedSlice:
    """Slice with log files; sizes in bytes."""

    partition_path: str
    file_id: str
    log_files: int
    log_bytes: int
    base_bytes: int


@dataclass(frozen=True)
class ReadCost:
    """Log files of the visible slices.

    Attributes:
        log_files: log files of a slice, 95th percentile of all slices by nearest rank; None without slices.
        log_bytes: bytes of all log files.
        base_bytes: bytes of all base files.
        worst: slices with most log files or most bytes of them.
    """

    log_files: int | None
    log_bytes: int
    base_bytes: int
    worst: tuple[LoggedSlice, ...]

    @property
    def log_ratio(self) -> float | None:
        """Bytes of log files for each byte of base files; None without base files."""
        return self.log_bytes / self.base_bytes if self.base_bytes else None

    def values(self) -> Mapping[str, float | None]:
        """Return the measured values by the names of their targets."""
        return {"log_files": self.log_files, "log_ratio": self.log_ratio}


def read_cost(slices: SliceColumns) -> ReadCost:
    """Measure the log files of visible slices; slices of pending plans count, too."""
    counts, log_bytes, base_bytes = slices.log_counts, slices.log_bytes, slices.base_bytes
    by_count = np.lexsort((-log_bytes, -counts))[:WORST_MAX]
    by_bytes = np.lexsort((-counts, -log_bytes))[:WORST_MAX]
    worst = np.unique(np.concatenate([by_count, by_bytes]))
    worst = worst[counts[worst] > 0]
    columns = (counts[worst].tolist(), log_bytes[worst].tolist(), base_bytes[worst].tolist())
    return ReadCost(
        log_files=nearest_rank(counts, 95),
        log_bytes=int(log_bytes.sum()),
        base_bytes=int(base_bytes.sum()),
        worst=tuple(LoggedSlice(*key, *sizes) for key, *sizes in zip(keys_of(slices, worst), *columns, strict=True)),
    )

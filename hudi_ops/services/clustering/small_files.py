"""Measure the small files of a table that a clustering would merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.services.base.slices import keys_of
from hudi_ops.services.clustering.packing import pack
from hudi_ops.view.columns.slices import NO_BASE, SliceColumns

SMALL_PART = 3
"""A file below the target size divided by this is small."""

WORST_MAX = 5
"""Most partitions that are named."""


@dataclass(frozen=True)
class SmallPartition:
    """Partition with small files that a clustering would merge.

    Attributes:
        partition_path: its path.
        file_id: file group of the smallest of these files.
        files: number of these files.
        size_bytes: bytes of all of them.
    """

    partition_path: str
    file_id: str
    files: int
    size_bytes: int


@dataclass(frozen=True)
class SmallFiles:
    """Small base files among the visible ones.

    Attributes:
        files: number of base files.
        small: number of those below a third of the target size which a clustering with default settings would merge.
        alone: number of other base files below a third of the target size: no others of their partition fit to them.
        worst: partitions with most of the files that would be merged.
    """

    files: int
    small: int
    alone: int
    worst: tuple[SmallPartition, ...]

    def values(self) -> Mapping[str, float | None]:
        """Return the measured values by the names of their targets."""
        return {"share": self.small / self.files if self.files else None}


def small_files(slices: SliceColumns, request: ClusteringRequest | None = None) -> SmallFiles:
    """Measure the small files among visible slices; slices of pending plans count, too.

    Args:
        slices: of a table without buckets.
        request: its sizes say which files are merged; None: the defaults of a clustering.
    """
    request = request or ClusteringRequest()
    base_bytes = slices.base_bytes
    sizes = base_bytes + slices.log_bytes
    partitions = slices.files.partition_of[slices.firsts]
    packed = np.flatnonzero(sizes < request.small_limit)
    packs = pack(partitions[packed], sizes[packed], request.group_bytes, request.target_bytes)
    is_merged = np.zeros(len(slices), bool)
    is_merged[packed] = np.repeat(packs.outputs < packs.counts, packs.counts)
    is_small = (slices.bases != NO_BASE) & (base_bytes * SMALL_PART < request.target_bytes)
    small = np.flatnonzero(is_small & is_merged)
    counts = np.bincount(partitions[small], minlength=len(slices.files.partitions))
    worst = []
    for at in np.argsort(-counts, kind="stable")[:WORST_MAX]:
        own = small[partitions[small] == at]
        if len(own):
            (key,) = keys_of(slices, own[np.argmin(base_bytes[own])][np.newaxis])
            worst.append(SmallPartition(*key, len(own), int(base_bytes[own].sum())))
    alone = int(np.count_nonzero(is_small & ~is_merged))
    return SmallFiles(slices.base_count, len(small), alone, tuple(worst))

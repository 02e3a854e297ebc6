"""Measure the sizes of a table's buckets, and find hash rings that need more of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hudi_ops.commit.session import Session
from hudi_ops.config.requests.resize import SPLIT_BYTES
from hudi_ops.index.ring_files import RingReader
from hudi_ops.kernels.percentile import nearest_rank
from hudi_ops.services.base.slices import keys_of
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.files import Longs
from hudi_ops.view.columns.slices import SliceColumns

TARGET_BYTES = SPLIT_BYTES // 2
"""Target size of a bucket, in bytes: a resize splits buckets that are larger than two of them."""

WORST_MAX = 5
"""Most buckets that are named."""

RINGS_READ_MAX = 3
"""Most rings that are read to count nodes without a file group."""


@dataclass(frozen=True)
class LargeBucket:
    """Bucket with its bytes: base file and log files."""

    partition_path: str
    file_id: str
    size_bytes: int


@dataclass(frozen=True)
class BucketSizes:
    """Sizes of the buckets that have files, in bytes.

    Attributes:
        partitions: number of partitions with buckets.
        p95_bytes: bytes of a bucket, 95th percentile by nearest rank; None without buckets.
        merged_p95_bytes: the same without the log files of buckets that have a base file.
        largest_bytes: of the largest one.
        total_bytes: of all.
        above_bytes: bytes of the buckets above the split size.
        above_partitions: number of their partitions.
        worst: the largest buckets.
    """

    partitions: int
    p95_bytes: int | None
    merged_p95_bytes: int | None
    largest_bytes: int
    total_bytes: int
    above_bytes: int
    above_partitions: int
    worst: tuple[LargeBucket, ...]

    def values(self) -> Mapping[str, float | None]:
        """Return the measured values by the names of their targets."""
        return {"size_ratio": self.p95_bytes / TARGET_BYTES if self.p95_bytes is not None else None}


def bucket_sizes(slices: SliceColumns) -> BucketSizes:
    """Measure the buckets of visible slices."""
    base_bytes = slices.base_bytes
    sizes = base_bytes + slices.log_bytes
    partitions = slices.files.partition_of[slices.firsts]
    is_above = sizes > SPLIT_BYTES
    worst = np.argsort(-sizes, kind="stable")[:WORST_MAX]
    named = zip(keys_of(slices, worst), sizes[worst].tolist(), strict=True)
    return BucketSizes(
        partitions=len(np.unique(partitions)),
        p95_bytes=nearest_rank(sizes, 95),
        merged_p95_bytes=nearest_rank(np.where(base_bytes > 0, base_bytes, sizes), 95),
        largest_bytes=int(sizes.max(initial=0)),
        total_bytes=int(sizes.sum()),
        above_bytes=int(sizes[is_above].sum()),
        above_partitions=len(np.unique(partitions[is_above])),
        worst=tuple(LargeBucket(*key, size) for key, size in named),
    )


def rings_at_limit(session: Session, state: TableState, slices: SliceColumns) -> int:
    """Count the hash rings that need more nodes than the table allows.

    They have a bucket above the split size, and as many nodes as is allowed. A node may lack a file group. A ring is read only
    where its first nodes without rows could make the difference, and at most `RINGS_READ_MAX` are.

    Raises:
        Conflict: a ring changed since the state was read.
        Corrupt: a ring cannot be read.
    """
    facts = state.log.properties.facts
    most = facts.buckets_max
    partitions = slices.files.partition_of[slices.firsts]
    above: Longs = np.unique(partitions[slices.base_bytes + slices.log_bytes > SPLIT_BYTES])
    if not most or not len(above):
        return 0
    counts = np.bincount(partitions)[above]
    unsure = above[(counts < most) & (counts + facts.buckets >= most)][:RINGS_READ_MAX]
    reader = RingReader.of(session.ctx.storage, state, session.commits)
    rings = [reader.read(slices.files.partitions[at]) for at in unsure.tolist()]
    full = sum(ring is not None and len(ring.prefixes) >= most for ring in rings)
    return int(np.count_nonzero(counts >= most)) + full

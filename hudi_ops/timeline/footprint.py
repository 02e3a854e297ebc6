"""What a write touches, as conflict rules see it: buckets, and sources."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.timeline.commit_metadata import CommitMetadata

BUCKET_DIGITS = 8
"""A bucket's file ids begin with its number in eight digits (docs/format.md §10.1)."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Groups as (partition path, bucket digits), and ids of sources whose ledger was read.

    With the simple bucket index two writers may both create the first file group of a bucket: their file ids differ, their
    bucket is the same. So footprints name buckets.
    """

    groups: frozenset[tuple[str, str]] = frozenset()
    sources: frozenset[str] = frozenset()

    def overlap(self, other: Footprint) -> tuple[str, ...]:
        """What both touch, as text for people; empty when they do not conflict."""
        shared = [f"{partition or '.'}/{group}" for partition, group in sorted(self.groups & other.groups)]
        return (*shared, *(f"source {name}" for name in sorted(self.sources & other.sources)))


def footprint_of(metadata: CommitMetadata, *, sources: frozenset[str] = frozenset()) -> Footprint:
    """What a completed write touched, from its statistics and its replaced groups."""
    groups = {(stat.partition_path, stat.file_id[:BUCKET_DIGITS]) for stat in metadata.stats}
    groups |= {
        (partition, file_id[:BUCKET_DIGITS]) for partition, ids in (metadata.replaced or {}).items() for file_id in ids
    }
    return Footprint(frozenset(groups), sources)

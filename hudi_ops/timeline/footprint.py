"""What a write touches, as conflict rules see it: buckets, and sources."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hudi_ops.timeline.commit_metadata import CommitMetadata

BUCKET_DIGITS = 8
"""A bucket's file ids begin with its number in eight digits (docs/format.md §10.1)."""


_OF_TABLE = frozenset({"INSERT_OVERWRITE_TABLE"})
_OF_PARTITIONS = frozenset({"INSERT_OVERWRITE", "DELETE_PARTITION"})


@dataclass(frozen=True, slots=True)
class Footprint:
    """Groups as (partition path, bucket digits), whole partitions, the whole table, and ids of sources whose ledger was read.

    With the simple bucket index two writers may both create the first file group of a bucket: their file ids differ, their
    bucket is the same. So footprints name buckets. What replaces a partition, or the table, also meets groups that came into
    being since: it names the partition, or `is_whole` says that it is all of them.
    """

    groups: frozenset[tuple[str, str]] = frozenset()
    sources: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    is_whole: bool = False

    @property
    def touched(self) -> frozenset[str]:
        """Every partition that it names, in whole or in part."""
        return self.partitions | {partition for partition, _ in self.groups}

    def overlap(self, other: Footprint) -> tuple[str, ...]:
        """What both touch, as text for people; empty when they do not conflict."""
        shared = [f"{partition or '.'}/{group}" for partition, group in sorted(self.groups & other.groups)]
        whole = (self.partitions & other.touched) | (other.partitions & self.touched)
        if self.is_whole:
            whole |= other.touched
        if other.is_whole:
            whole |= self.touched
        named = [f"partition {partition or '.'}" for partition in sorted(whole)]
        if self.is_whole and other.is_whole:
            named = ["the whole table"]
        return (*named, *shared, *(f"source {name}" for name in sorted(self.sources & other.sources)))


def footprint_of(metadata: CommitMetadata, *, sources: frozenset[str] = frozenset()) -> Footprint:
    """What a completed write touched, from its operation, its statistics and its replaced groups."""
    groups = {(stat.partition_path, stat.file_id[:BUCKET_DIGITS]) for stat in metadata.stats}
    groups |= {
        (partition, file_id[:BUCKET_DIGITS]) for partition, ids in (metadata.replaced or {}).items() for file_id in ids
    }
    if metadata.operation in _OF_TABLE:
        return Footprint(frozenset(groups), sources, is_whole=True)
    if metadata.operation in _OF_PARTITIONS:
        # A partition whose groups were all gone already is named with an empty list.
        partitions = frozenset(partition for partition, _ in groups) | frozenset(metadata.replaced or {})
        return Footprint(frozenset(groups), sources, partitions)
    return Footprint(frozenset(groups), sources)


def encode_footprint(footprint: Footprint | None) -> str:
    """As text in a PLAN; empty when it cannot be told."""
    if footprint is None:
        return ""
    return json.dumps({
        "groups": sorted(footprint.groups),
        "sources": sorted(footprint.sources),
        "partitions": sorted(footprint.partitions),
        "is_whole": footprint.is_whole,
    })


def decode_footprint(text: str) -> Footprint | None:
    """What `encode_footprint` wrote; None when it cannot be told."""
    if not text:
        return None
    said = json.loads(text)
    return Footprint(
        frozenset((partition, group) for partition, group in said["groups"]),
        frozenset(said["sources"]),
        frozenset(said["partitions"]),
        said["is_whole"],
    )

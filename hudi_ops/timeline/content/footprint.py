"""Footprint of a write for conflict rules, by its metadata or its announcement."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hudi_ops.errors import Corrupt
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plans import CompactionPlan, Plan, ReplacePlan

BUCKET_DIGITS = 8
"""A bucket's file ids begin with its number in eight digits (docs/format §10.1)."""

TAKEN_KEY = "hudi_ops.source"
"""Extra metadata of a commit that took files: the id of the source, which belongs to the commit's footprint."""

INTENT_KEY = "hudi_ops.intent"
"""Extra metadata of an inflight file of this library: the intended footprint of the write, encoded by `encode_footprint`."""

LOOKED_KEY = "hudi_ops.new_keys"
"""Extra metadata of a commit that looked up its new keys without a match, in a table whose index does not determine a key's group.

The value says where the commit looked: in the keys' `partition`, or in the whole `table`.
"""

INTENT_NAMES_MAX = 2_000
"""Most file groups, or else partitions, that an intent names: it must stay a small file."""


_OF_TABLE = frozenset({"INSERT_OVERWRITE_TABLE"})
_OF_PARTITIONS = frozenset({"INSERT_OVERWRITE", "DELETE_PARTITION"})
_REARRANGING = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT"})
"""Operations that add no keys, although they may write files."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Groups, partitions and sources that a write touches.

    Groups are (partition path, bucket digits); sources are the ids of sources whose ledger the write read.

    With the simple bucket index two writers may both create the first file group of a bucket: their file ids differ, but their
    bucket is the same. So footprints name buckets. A write that replaces a partition, or the table, also overlaps groups that
    were created since: it names the partition, or sets `is_whole`.

    With the other indexes a new key may go to any group, so two writers of one key may touch no common group. `adds` are the
    partitions into which possibly new keys were put; `looked` are those of them that the write searched for these keys first. A
    write that relies on a key's absence overlaps every write that adds keys there. `looks_everywhere`: the index is global.

    `children` are groups of a pending resize into which the write put the rows of its `groups` a second time. Two writes to
    different parents may share a child, so `children` do not count as overlap.
    """

    groups: frozenset[tuple[str, str]] = frozenset()
    sources: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    is_whole: bool = False
    adds: frozenset[str] = frozenset()
    looked: frozenset[str] = frozenset()
    looks_everywhere: bool = False
    children: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of_groups(cls, keys: Iterable[tuple[str, str]]) -> Footprint:
        """Return the footprint of file groups, each given by partition path and file id."""
        return cls(frozenset((partition, file_id[:BUCKET_DIGITS]) for partition, file_id in keys))

    @property
    def touched(self) -> frozenset[str]:
        """Every partition that the footprint names, wholly or partly."""
        return self.partitions | self.adds | {partition for partition, _ in self.groups}

    def overlap(self, other: Footprint) -> tuple[str, ...]:
        """Describe the overlap of both, for people; empty when they do not conflict.

        It is asymmetric: keys that `other` added matter only if this write looked up its own keys.
        """
        shared = [f"{partition or '.'}/{group}" for partition, group in sorted(self.groups & other.groups)]
        whole = (self.partitions & other.touched) | (other.partitions & self.touched)
        if self.is_whole:
            whole |= other.touched
        if other.is_whole:
            whole |= self.touched
        named = [f"partition {partition or '.'}" for partition in sorted(whole)]
        if self.is_whole and other.is_whole:
            named = ["the whole table"]
        met = other.adds if self.looks_everywhere and self.looked else other.adds & self.looked
        added = [f"new keys in partition {partition or '.'}" for partition in sorted(met - whole)]
        return (*named, *shared, *added, *(f"source {name}" for name in sorted(self.sources & other.sources)))

    def coarsened(self) -> Footprint | None:
        """Return the footprint, or its whole partitions, or None if even these are too many to name."""
        if max(map(len, (self.groups, self.partitions, self.adds, self.looked))) <= INTENT_NAMES_MAX:
            return self
        if len(self.touched) > INTENT_NAMES_MAX:
            return None
        return replace(self, groups=frozenset(), partitions=self.touched)


@dataclass(frozen=True, slots=True)
class Intent:
    """Announced footprint of a pending write.

    `is_exact` if it names every file group, as intents of this library do. Apache Hudi names groups for existing rows, but only the
    partition for new rows.
    """

    footprint: Footprint
    is_exact: bool


def intent_of(data: bytes) -> Intent | None:
    """Return the announcement of an inflight file (docs/format §2.4).

    None if the file is empty, half-written or names nothing: then the write may touch anything.
    """
    if not data:
        return None
    try:
        metadata = CommitMetadata.from_bytes(data, is_whole=True)
    except Corrupt:
        return None
    if INTENT_KEY in metadata.extra:
        said = decode_footprint(metadata.extra[INTENT_KEY])
        return Intent(said, is_exact=True) if said is not None else None
    known = footprint_of(metadata)
    # A statistic without a file id stands for new rows, which may go to any group of the partition.
    named = frozenset((partition, group) for partition, group in known.groups if group)
    coarse = known.partitions | {partition for partition, group in known.groups if not group}
    if not (named or coarse or known.is_whole):
        return None
    return Intent(replace(known, groups=named, partitions=coarse), is_exact=False)


def inflight_body(operation: str, intent: Footprint | None) -> bytes:
    """Encode the inflight file of a write, with its footprint; `intent` is None when unknown."""
    said = intent.coarsened() if intent is not None else None
    extra = {INTENT_KEY: encode_footprint(said)} if said is not None else {}
    return CommitMetadata(operation=operation, extra=extra).to_bytes()


def footprint_of(metadata: CommitMetadata, instant: str = "", *, sources: frozenset[str] = frozenset()) -> Footprint:
    """Return a completed write's footprint: statistics, replaced groups and its source.

    `instant` is that of the write: its log files under another instant belong to a dual write. Empty: there was no dual write.
    """
    if TAKEN_KEY in metadata.extra:
        sources |= {metadata.extra[TAKEN_KEY]}
    twice = {stat.path for stat in metadata.stats if instant and is_child_log(stat, instant)}
    groups = {(stat.partition_path, stat.file_id[:BUCKET_DIGITS]) for stat in metadata.stats if stat.path not in twice}
    children = {(stat.partition_path, stat.file_id[:BUCKET_DIGITS]) for stat in metadata.stats if stat.path in twice}
    groups |= {(partition, file_id[:BUCKET_DIGITS]) for partition, file_id in metadata.replaced_groups}
    adds = frozenset(stat.partition_path for stat in metadata.stats if _adds_keys(stat))
    if metadata.operation in _REARRANGING:
        adds = frozenset()
    looked = metadata.extra.get(LOOKED_KEY, "")
    named = Footprint(
        frozenset(groups),
        sources,
        adds=adds,
        looked=adds if looked else frozenset(),
        looks_everywhere=looked == "table",
        children=frozenset(children),
    )
    if metadata.operation in _OF_TABLE:
        return replace(named, is_whole=True)
    if metadata.operation in _OF_PARTITIONS:
        # A partition whose groups had all been deleted before has an empty list.
        partitions = frozenset(partition for partition, _ in groups) | frozenset(metadata.replaced or {})
        return replace(named, partitions=partitions)
    return named


def is_child_log(stat: WriteStat, instant: str) -> bool:
    """Return whether a write put the log file of a statistic under the instant of a resize."""
    return ".log." in stat.file_name and f"_{instant}.log." not in stat.file_name


def _adds_keys(stat: WriteStat) -> bool:
    """Return whether a statistic may have added keys: a new base file, or one with inserts.

    Log files hold no new keys if the index looks keys up.
    """
    return stat.num_inserts > 0 or (not stat.log_files and stat.prev_commit in {"", "null"})


def inputs_of(plan: Plan | None) -> Footprint | None:
    """Return the file groups that a service's plan works on, or None for other plans."""
    if not isinstance(plan, ReplacePlan | CompactionPlan):
        return None
    return Footprint.of_groups((slice_.partition_path, slice_.file_id) for slice_ in plan.slices)


def encode_footprint(footprint: Footprint | None) -> str:
    """Encode a footprint for a PLAN or an intent: equal texts for equal ones, or empty."""
    if footprint is None:
        return ""
    groups: dict[str, list[str]] = {}
    for partition, group in sorted(footprint.groups):
        groups.setdefault(partition, []).append(group)
    said = {
        "groups": groups,
        "partitions": sorted(footprint.partitions),
        "sources": sorted(footprint.sources),
        "whole": footprint.is_whole,
        "adds": sorted(footprint.adds),
        "looked": sorted(footprint.looked),
        "everywhere": footprint.looks_everywhere,
    }
    return json.dumps({key: value for key, value in said.items() if value})


def decode_footprint(text: str) -> Footprint | None:
    """Decode a text of `encode_footprint`; None if unknown, or for any other text."""
    try:
        said: Any = json.loads(text)
        return Footprint(
            frozenset((path, group) for path, groups in said.get("groups", {}).items() for group in groups),
            frozenset(said.get("sources", ())),
            frozenset(said.get("partitions", ())),
            is_whole=bool(said.get("whole")),
            adds=frozenset(said.get("adds", ())),
            looked=frozenset(said.get("looked", ())),
            looks_everywhere=bool(said.get("everywhere")),
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None

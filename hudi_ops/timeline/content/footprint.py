"""What a write touches, as conflict rules see it: buckets, partitions and sources; told by what it did, or by what it announced."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from hudi_ops.errors import Corrupt
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plans import CompactionPlan, Plan, ReplacePlan

BUCKET_DIGITS = 8
"""A bucket's file ids begin with its number in eight digits (docs/format.md §10.1)."""

TAKEN_KEY = "hudi_ops.source"
"""Extra metadata of a commit that took files: the id of the source, which belongs to the commit's footprint."""

INTENT_KEY = "hudi_ops.intent"
"""Extra metadata of an inflight file of ours: what the write is about to touch, as `encode_footprint` says it."""

LOOKED_KEY = "hudi_ops.new_keys"
"""Extra metadata of a commit whose new keys had been looked for in vain, in a table whose index does not tell a key's group: in
their `partition`, or in the whole `table`."""

INTENT_NAMES_MAX = 2_000
"""File groups, or else partitions, that an intent names: it must stay a small file."""


_OF_TABLE = frozenset({"INSERT_OVERWRITE_TABLE"})
_OF_PARTITIONS = frozenset({"INSERT_OVERWRITE", "DELETE_PARTITION"})
_REARRANGING = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT"})
"""Operations that bring no keys, whatever files they make."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Groups as (partition path, bucket digits), whole partitions, the whole table, and ids of sources whose ledger was read.

    With the simple bucket index two writers may both create the first file group of a bucket: their file ids differ, their
    bucket is the same. So footprints name buckets. What replaces a partition, or the table, also meets groups that came into
    being since: it names the partition, or `is_whole` says that it is all of them.

    With the other indexes a new key's group is anybody's choice, so that two writers of one key may touch no group in common.
    `adds` are the partitions into which keys were put that may have been new there, `looked` those of them that were searched
    for these keys before: who relies on a key's absence meets whoever adds keys. `looks_everywhere`: the index is global.
    """

    groups: frozenset[tuple[str, str]] = frozenset()
    sources: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    is_whole: bool = False
    adds: frozenset[str] = frozenset()
    looked: frozenset[str] = frozenset()
    looks_everywhere: bool = False

    @property
    def touched(self) -> frozenset[str]:
        """Every partition that it names, in whole or in part."""
        return self.partitions | self.adds | {partition for partition, _ in self.groups}

    def overlap(self, other: Footprint) -> tuple[str, ...]:
        """What both touch, as text for people; empty when they do not conflict.

        Not the same both ways: keys that `other` added matter to one that looked for its own, not to one that did not.
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
        """The same, or whole partitions where the file groups are too many to name; None when even those are."""
        if max(map(len, (self.groups, self.partitions, self.adds, self.looked))) <= INTENT_NAMES_MAX:
            return self
        if len(self.touched) > INTENT_NAMES_MAX:
            return None
        return replace(self, groups=frozenset(), partitions=self.touched)


@dataclass(frozen=True, slots=True)
class Intent:
    """What a pending write is about to touch; `is_exact` when it named every file group, as ours do.

    What Apache Hudi says is coarse: it names a partition for the rows that are new, and the groups of those that are not.
    """

    footprint: Footprint
    is_exact: bool


def intent_of(data: bytes) -> Intent | None:
    """What an inflight file announces; None when it is empty, half-written or silent: then it may touch anything.

    Source: docs/format.md §2.4.
    """
    if not data:
        return None
    try:
        metadata = CommitMetadata.from_bytes(data)
    except Corrupt:
        return None
    if INTENT_KEY in metadata.extra:
        said = decode_footprint(metadata.extra[INTENT_KEY])
        return Intent(said, is_exact=True) if said is not None else None
    known = footprint_of(metadata)
    # A statistic without a file id is of rows that are new: they may go to any group of the partition.
    named = frozenset((partition, group) for partition, group in known.groups if group)
    coarse = known.partitions | {partition for partition, group in known.groups if not group}
    if not (named or coarse or known.is_whole):
        return None
    return Intent(replace(known, groups=named, partitions=coarse), is_exact=False)


def inflight_body(operation: str, intent: Footprint | None) -> bytes:
    """Content of the inflight file of a write, which tells services what it is about to touch.

    Args:
        operation: as Apache Hudi names it.
        intent: None when nobody can tell.
    """
    said = intent.coarsened() if intent is not None else None
    extra = {INTENT_KEY: encode_footprint(said)} if said is not None else {}
    return CommitMetadata(operation=operation, extra=extra).to_bytes()


def footprint_of(metadata: CommitMetadata, *, sources: frozenset[str] = frozenset()) -> Footprint:
    """What a completed write touched, from its operation, its statistics, its replaced groups and the source that it names."""
    if TAKEN_KEY in metadata.extra:
        sources |= {metadata.extra[TAKEN_KEY]}
    groups = {(stat.partition_path, stat.file_id[:BUCKET_DIGITS]) for stat in metadata.stats}
    groups |= {
        (partition, file_id[:BUCKET_DIGITS]) for partition, ids in (metadata.replaced or {}).items() for file_id in ids
    }
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
    )
    if metadata.operation in _OF_TABLE:
        return replace(named, is_whole=True)
    if metadata.operation in _OF_PARTITIONS:
        # A partition whose groups were all gone already is named with an empty list.
        partitions = frozenset(partition for partition, _ in groups) | frozenset(metadata.replaced or {})
        return replace(named, partitions=partitions)
    return named


def _adds_keys(stat: WriteStat) -> bool:
    """A base file of a group that is new, or one that says so. Log files hold no new keys where keys are looked up."""
    return stat.num_inserts > 0 or (not stat.log_files and stat.prev_commit in {"", "null"})


def inputs_of(plan: Plan | None) -> Footprint | None:
    """File groups that a service's plan works on; None when there is no plan, or it is of another kind."""
    if isinstance(plan, ReplacePlan):
        slices = [one for group in plan.groups for one in group]
    elif isinstance(plan, CompactionPlan):
        slices = list(plan.slices)
    else:
        return None
    return Footprint(frozenset((one.partition_path, one.file_id[:BUCKET_DIGITS]) for one in slices))


def encode_footprint(footprint: Footprint | None) -> str:
    """As text in a PLAN or an intent; empty when it cannot be told. Equal footprints give equal texts."""
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
    """What `encode_footprint` wrote; None when it cannot be told, or for any other text."""
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

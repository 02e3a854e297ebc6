"""Check `buckets`: sizes of buckets, and hash rings at their limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.config.requests.resize import MERGE_BYTES, MERGE_SHARE, PLAN_BYTES_MAX, SPLIT_BYTES
from hudi_ops.config.requests.targets import BucketsTargets
from hudi_ops.config.table import BUCKETS_MAX
from hudi_ops.errors import Unsupported
from hudi_ops.health.advice import is_missed, notes, planned, waits
from hudi_ops.health.check import TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.health.plans_before import PlansBefore, plans_before
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.services.cancel.endings import Words
from hudi_ops.services.resize.bucket_sizes import TARGET_BYTES, BucketSizes, LargeBucket, bucket_sizes, rings_at_limit
from hudi_ops.services.resize.choose import refuse_foreign_writers
from hudi_ops.services.resize.service import RESIZE
from hudi_ops.timeline.state import TableState

ROUNDS_MAX = 5
"""Most resizes that are advised at once: each halves the large buckets."""

ROUND_SLACK = 1.1
"""Halves of a bucket may differ by about so much."""


@dataclass(frozen=True, kw_only=True)
class BucketsFacts(Facts):
    """Sizes of a table's buckets.

    Attributes:
        sizes: of the buckets that have files.
        at_limit: number of hash rings at their limit with a bucket above the split size; None: the table has no rings.
        buckets: number of buckets of a partition; of a ring, when it begins.
        buckets_max: most nodes of a ring; 0: no limit.
        has_record_index: the metadata table has one, with which no ring can be resized.
        refused: why hudi-ops does not resize the rings; empty: it does.
        before: pending plans that come before a resize of the largest buckets.
    """

    sizes: BucketSizes
    at_limit: int | None
    buckets: int
    buckets_max: int
    has_record_index: bool
    refused: str
    before: PlansBefore


def _measure(look: Look) -> BucketsFacts | NotHere:
    facts = look.state.log.properties.facts
    if not facts.has_buckets:
        return NotHere("the table has no buckets")
    sizes = bucket_sizes(look.slices)
    groups = [(one.partition_path, one.file_id) for one in sizes.worst]
    has_ring = facts.has_ring
    return BucketsFacts(
        sizes=sizes,
        at_limit=rings_at_limit(look.session, look.state, look.slices) if has_ring else None,
        buckets=facts.buckets,
        buckets_max=facts.buckets_max,
        has_record_index=MetadataPartition.RECORD_INDEX in look.state.config.all_metadata_partitions,
        refused=_refused(look.session, look.state) if has_ring else "",
        before=plans_before(look.session, look.state, RESIZE.action, groups) if has_ring else PlansBefore(),
    )


def _refused(session: Session, state: TableState) -> str:
    """Return why hudi-ops does not resize rings beside foreign writers; empty: it does."""
    try:
        refuse_foreign_writers(state, has_any=True)
    except Unsupported as error:
        # Commits are read for the answer, so only where it matters.
        if has_foreign_writers(session.ctx.storage, session.commits, state, pending=False):
            return f"{error.what}: {error.next_step}"
    return ""


def _judge(facts: BucketsFacts, targets: BucketsTargets, now_ms: int) -> Judgement:
    sizes = facts.sizes
    measures = tuple(Measure(name, value, targets.size_ratio) for name, value in sizes.values().items())
    if facts.at_limit is not None:
        measures = (*measures, Measure("at_limit", facts.at_limit, targets.at_limit, "rings"))
    evidence = tuple(map(_evidence, sizes.worst))
    if not any(one.is_missed for one in measures):
        return Judgement(measures, evidence)
    if facts.at_limit is None:
        return Judgement(measures, evidence, *_of_simple_buckets(facts, targets))
    if facts.refused:
        return Judgement(measures, evidence, note=facts.refused)
    if is_missed(measures, "at_limit") and facts.buckets_max >= BUCKETS_MAX:
        note = f"rings have the most buckets that are possible, {BUCKETS_MAX:,}: a table with more partitions is needed"
        return Judgement(measures, evidence, note=note)
    commands: list[Words] = []
    split_bytes = _split_bytes(targets)
    rounds = _rounds(sizes.largest_bytes, split_bytes)
    if is_missed(measures, "at_limit"):
        most = min(BUCKETS_MAX, facts.buckets_max << rounds)
        commands.append(("alter", TABLE, "--buckets-max", str(most)))
    if facts.has_record_index:
        commands.append(("index", TABLE, "drop", str(MetadataPartition.RECORD_INDEX), "--yes"))
    commands += planned(_resize(sizes, split_bytes), facts.before, rounds)
    return Judgement(measures, evidence, tuple(commands), waits(facts.before))


def _of_simple_buckets(facts: BucketsFacts, targets: BucketsTargets) -> tuple[tuple[Words, ...], str]:
    """Return commands and note for a table whose number of buckets cannot change."""
    sizes = facts.sizes
    if (sizes.merged_p95_bytes or 0) <= _ratio(targets) * TARGET_BYTES:
        return (("compact", TABLE),), "the log files make the buckets large"
    fitting = -(-facts.buckets * (sizes.p95_bytes or 0) // TARGET_BYTES)
    return (), notes([
        f"the number of buckets of this table, {facts.buckets:,}, cannot change",
        f"make a table with about {min(fitting, BUCKETS_MAX):,} buckets, or with hash rings, and ingest the rows into it",
    ])


def _ratio(targets: BucketsTargets) -> float:
    """Return the largest healthy ratio; without a target that at which a resize splits."""
    return SPLIT_BYTES / TARGET_BYTES if targets.size_ratio is None else targets.size_ratio


def _split_bytes(targets: BucketsTargets) -> int:
    """Return the size above which a resize must split a bucket."""
    return max(1, min(SPLIT_BYTES, int(_ratio(targets) * TARGET_BYTES)))


def _rounds(largest_bytes: int, split_bytes: int) -> int:
    """Return the number of resizes until halves of the largest bucket fit."""
    halvings = math.ceil(math.log2(max(1.0, largest_bytes / split_bytes * ROUND_SLACK)))
    return min(ROUNDS_MAX, max(1, halvings))


def _resize(sizes: BucketSizes, split_bytes: int) -> Words:
    """Return the words of a resize that splits every bucket above a size.

    With default settings a plan takes the partition with most bytes to split or merge, up to `PLAN_BYTES_MAX`. Without merges
    the partitions with large buckets come first.
    """
    is_default = split_bytes == SPLIT_BYTES
    words: list[str] = ["resize", TABLE]
    if not is_default:
        words += ["--split-size", str(split_bytes)]
    if sizes.partitions > 1:
        most = sizes.above_partitions if is_default else sizes.partitions
        words += ["--merge-size", "0", *(["--max-partitions", str(most)] if most > 1 else [])]
    elif not is_default:
        words += ["--merge-size", str(min(MERGE_BYTES, split_bytes // MERGE_SHARE))]
    if sizes.above_bytes > PLAN_BYTES_MAX or (not is_default and sizes.total_bytes > PLAN_BYTES_MAX):
        words += ["--max-bytes", str(sizes.total_bytes)]
    return tuple(words)


def _evidence(one: LargeBucket) -> Evidence:
    return Evidence("file group", f"{one.partition_path}/{one.file_id}".lstrip("/"), f"{one.size_bytes:,} bytes")


CHECK = Check("buckets", BucketsFacts, _measure, _judge)

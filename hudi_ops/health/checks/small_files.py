"""Check `small_files`: small base files, and the clustering that merges them."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.requests.targets import SmallFilesTargets
from hudi_ops.health.advice import notes, planned, waits
from hudi_ops.health.check import TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.health.plans_before import PlansBefore, plans_before
from hudi_ops.services.clustering.service import CLUSTERING
from hudi_ops.services.clustering.small_files import SmallFiles, SmallPartition, small_files


@dataclass(frozen=True, kw_only=True)
class SmallFilesFacts(Facts):
    """Small base files among the visible ones.

    Attributes:
        small: of the table.
        clustered_ms: when a clustering completed last, in ms since 1970; None: none did.
        before: pending plans that come before a clustering of the worst partitions' smallest files.
    """

    small: SmallFiles
    clustered_ms: int | None
    before: PlansBefore


def _measure(look: Look) -> SmallFilesFacts | NotHere:
    facts = look.state.log.properties.facts
    if facts.has_buckets:
        return NotHere("each bucket has a file of its own, which cannot be merged with others")
    if not facts.takes_rows:
        return NotHere("the index of the table is not known, so rows may not move between its file groups")
    small = small_files(look.slices)
    groups = [(one.partition_path, one.file_id) for one in small.worst]
    clustered_ms = look.completed_ms("clustering")
    before = plans_before(look.session, look.state, CLUSTERING.action, groups)
    return SmallFilesFacts(small=small, clustered_ms=clustered_ms, before=before)


def _judge(facts: SmallFilesFacts, targets: SmallFilesTargets, now_ms: int) -> Judgement:
    small = facts.small
    measures = tuple(Measure(name, value, getattr(targets, name)) for name, value in small.values().items())
    evidence = tuple(map(_evidence, small.worst))
    if not any(one.is_missed for one in measures):
        return Judgement(measures, evidence)
    alone = f"{small.alone:,} more small files cannot be merged within their partitions" if small.alone else ""
    commands = planned(("cluster", TABLE), facts.before)
    return Judgement(measures, evidence, commands, notes([alone, waits(facts.before)]), mended_ms=facts.clustered_ms)


def _evidence(one: SmallPartition) -> Evidence:
    where = f"partition {one.partition_path}" if one.partition_path else "the table"
    detail = f"the smallest of {one.files:,} small files in {where}, {one.size_bytes:,} bytes together"
    return Evidence("file group", f"{one.partition_path}/{one.file_id}".lstrip("/"), detail)


CHECK = Check("small_files", SmallFilesFacts, _measure, _judge)

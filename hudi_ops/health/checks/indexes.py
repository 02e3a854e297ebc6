"""Indexes that readers cannot use: not built yet, behind, or dropped by another program."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.requests.targets import IndexesTargets
from hudi_ops.health.check import EVIDENCE_MAX, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.services.indexing.dropped import UnreadyIndex, unready_count, unready_indexes

_WHY = {
    "announced": "announced, and no process builds it",
    "behind": "readers do without it: the metadata table lacks completed writes, {lacking} in all, the first {first}",
    "dropped": "another program dropped it",
    "being built": "{executor} builds it now",
}


@dataclass(frozen=True, kw_only=True)
class IndexesFacts(Facts):
    """Indexes that readers cannot use.

    Attributes:
        unready: their number.
        indexes: at most `EVIDENCE_MAX` of them, and of those that a live process builds.
        lacking: number of completed writes that the metadata table lacks.
        first: the first of these writes; empty: it lacks none.
    """

    unready: int
    indexes: tuple[UnreadyIndex, ...]
    lacking: int
    first: str


def measure(look: Look) -> IndexesFacts | NotHere:
    """Return the indexes that readers cannot use."""
    session, state = look.session, look.state
    behind = look.metadata.behind if state.config.metadata_partitions else ()
    found = unready_indexes(session, state, behind, look.lease_of)
    if not found and not state.config.all_metadata_partitions:
        return NotHere("the table has no index")
    building = [one for one in found if one.why == "being built"]
    ends = [
        lease.expires_ms + 1
        for plan in (state.timeline.pending if building else ())
        if plan.kind == "indexing"
        and (lease := look.lease_of(plan.time)) is not None
        and lease.expires_ms > look.now_ms
    ]
    return IndexesFacts(
        until_ms=min(ends, default=None),
        unready=unready_count(found),
        indexes=found[:EVIDENCE_MAX],
        lacking=len(behind),
        first=behind[0] if behind else "",
    )


def judge(facts: IndexesFacts, targets: IndexesTargets, now_ms: int) -> Judgement:
    """Judge the number of unready indexes by its target."""
    unready = Measure("unready", facts.unready, targets.unready, "indexes")
    missed = [one for one in facts.indexes if unready.is_missed and one.command]
    is_dropped = any(one.why == "dropped" for one in missed)
    return Judgement(
        (unready,),
        tuple(
            Evidence(
                "index", one.name, _WHY[one.why].format(executor=one.executor, lacking=facts.lacking, first=facts.first)
            )
            for one in facts.indexes
        ),
        tuple(dict.fromkeys(one.command for one in missed)),
        "name the indexes in the options of the other program's writers first: else they drop them again"
        if is_dropped
        else "",
    )


CHECK = Check("indexes", IndexesFacts, measure, judge)

"""Reasons to void a decided entry: foreign writes between its slot and its file.

A lock is released when its holder dies. Foreign writers, which know no slots, may then commit, plan or roll back before any process
applies the decision.

Source: docs/protocol §6.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lease.monitor import GAP_S_MAX
from hudi_ops.concurrency.pending import plan_inputs
from hudi_ops.context import TableContext
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.metadata.reader.instants import completed_beside, load_metadata_timeline
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.timeline.completed import logged_digest
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import Footprint, footprint_of
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, read_slot
from hudi_ops.timeline.log.entries import Complete, Plan, cancel_of
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.names import MERGING_ACTIONS, REWRITING_ACTIONS, WRITE_ACTIONS, State, completes_as
from hudi_ops.timeline.state import CommitReader, TableState
from hudi_ops.timeline.unlogged import unlogged_since

logger = logging.getLogger(__name__)

PROMPT_MS = 2_000
"""Time in ms for which a decider certainly holds the lock of its decision: lock sessions last longer."""

APPLIED_WITHIN_MS = EXPIRY_MS - round(1000 * GAP_S_MAX) - 5_000
"""Time in ms within which a decision may be applied beside foreign writers.

When it was made, the last heartbeat was at most `GAP_S_MAX` old.
"""


def why_void(ctx: TableContext, commits: CommitReader, state: TableState, entry: Complete) -> str | None:
    """Return why a decided completion must not become visible; None when it may."""
    if reason := undone(ctx, state, entry):
        return reason
    is_write = completes_as(entry.action) in WRITE_ACTIONS
    if (is_write or entry.metadata) and (reason := metadata_changed(ctx, state, entry)):
        return reason
    if not is_write:
        # Other actions have no rows to lose, and no reader depends on their completion order.
        return None
    mine = _footprint_reader(ctx, entry)
    if reason := completed_between(commits, state, entry, mine) or planned_between(ctx, state, entry, mine):
        return reason
    # This check is last: the others take time, and the process may pause during them.
    return stale_beside_foreign_writers(ctx, commits, state, entry)


def metadata_changed(ctx: TableContext, state: TableState, entry: Complete) -> str | None:
    """Return how the metadata table changed since the delta was made; None: unchanged.

    The other checks find foreign writes on the data table's timeline. Services and procedures of Apache Hudi may leave no trace but
    a metadata table that was begun, extended, compacted or cleaned.
    """
    if str(ctx.owner) == entry.owner and ctx.clock.now_ms() - entry.at_ms < PROMPT_MS:
        return None
    named = ", ".join(sorted(state.config.all_metadata_partitions))
    if not entry.metadata:
        return f"its delta is missing in a metadata table that was begun since: {named}" if named else None
    if not entry.metadata_seen:
        return None
    if not named:
        return "the metadata table that it has a delta for was dropped"
    own = load_metadata_timeline(ctx.storage)
    if logged_digest(completed_beside(own, entry.instant, entry.completion_time)) != entry.metadata_seen:
        return "something completed in the metadata table without a slot"
    return None


def undone(ctx: TableContext, state: TableState, entry: Complete) -> str | None:
    """Return why a completion counts as undone: no inflight file, or a rollback that names it."""
    found = state.timeline.find(entry.instant, entry.action)
    if found is None or State.INFLIGHT not in found.states:
        return "its inflight file is gone: it was rolled back by a writer that does not know the commit log"
    undoing = rollback_of(ctx.storage, state.timeline, entry.instant)
    if undoing is not None:
        return f"rollback {undoing.time} undoes it: its writer does not know the commit log"
    return None


def stale_beside_foreign_writers(
    ctx: TableContext, commits: CommitReader, state: TableState, entry: Complete
) -> str | None:
    """Return a reason if a foreign writer may have judged the entry's lease dead by now.

    Foreign writers judge a heartbeat before they take their lock, and not again under it: they would roll back the write even if
    its completed file appeared in between. The decider has not reported success yet. Foreign writers judge only writes this way,
    not rollbacks.
    """
    if ctx.clock.now_ms() - entry.at_ms < APPLIED_WITHIN_MS or completes_as(entry.action) not in WRITE_ACTIONS:
        return None
    if not has_foreign_writers(ctx.storage, commits, state):
        return None
    return f"it was decided more than {APPLIED_WITHIN_MS // 1000} s ago: a writer of Apache Hudi may be about to roll it back"


def completed_between(
    commits: CommitReader, state: TableState, entry: Complete, mine: Callable[[], Footprint | None]
) -> str | None:
    """Return a reason if a write completed without a slot: later, or earlier with an overlap.

    A write with an earlier completion time counts if the decider did not see it: its writer's clock was slow.
    """
    begun = entry.completion_time if entry.seen_from is None else min(entry.seen_from, entry.completion_time)
    # Most completions have a slot: below the entry's own time only those without a slot are examined.
    above = state.timeline.completed_since(entry.completion_time)
    unlogged = (one for one in unlogged_since(state, begun) if one.completion_time < entry.completion_time)
    since = [other for other in (*above, *unlogged) if not _is_known(other, state, entry)]
    for other in sorted(since, key=lambda other: other.time):
        # Earlier slots have earlier completion times, and later slots are applied later.
        if other.completion_time >= entry.completion_time:
            return f"{other.time} completed at {other.completion_time} without a slot"
        metadata = commits.metadata(state.timeline, other)
        if metadata is None or POINTER_KEY in metadata.extra:
            continue  # gone from the timeline, or a hudi_ops write of a lower slot
        footprint = mine()
        shared = footprint.overlap(footprint_of(metadata, other.time)) if footprint is not None else ("everything",)
        if shared:
            return f"{other.time} completed without a slot and touches the same: {', '.join(shared[:3])}"
    return None


def _is_known(other: Instant, state: TableState, entry: Complete) -> bool:
    """Return whether an earlier completion has a slot, or the decider accounted for it."""
    if other.completion_time >= entry.completion_time:
        return False
    is_told = other.time in state.log.completed or other.time in entry.seen
    return (
        is_told
        or entry.seen_from is None
        or entry.action in MERGING_ACTIONS
        or other.completion_time <= entry.seen_from
    )


def planned_between(
    ctx: TableContext, state: TableState, entry: Complete, mine: Callable[[], Footprint | None]
) -> str | None:
    """Return a reason for a plan without a slot: at or above the entry's time, or on its groups."""
    for plan in state.timeline.pending:
        if plan.action not in REWRITING_ACTIONS or plan.time == entry.instant or plan.time in entry.seen:
            continue
        if plan.time < entry.completion_time and (entry.seen_from is None or plan.action in MERGING_ACTIONS):
            continue  # a compaction that was planned earlier leaves the entry's rows to later slices
        if _is_cancelled(ctx, state, plan):
            continue
        if plan.time >= entry.completion_time:
            return f"{plan.action} {plan.time} was planned without it, by a writer that does not know the commit log"
        inputs, footprint = plan_inputs(ctx, state, plan), mine()
        if inputs is None or footprint is None or footprint.overlap(inputs):
            return f"{plan.action} {plan.time} was planned on the same file groups, without the commit log"
    return None


def clear_voided(ctx: TableContext, state: TableState) -> list[str]:
    """Remove the completed files of voided slots that a late applier left; return the paths."""
    zombies, undone_there = [], []
    for slot in sorted(state.log.voided):
        # Such a file may be the newest on the timeline. Then the log was read from it upwards, and lacks its slot.
        entry = state.log.at(slot) or read_slot(ctx.storage, slot)
        if isinstance(entry, Complete):
            found = state.timeline.find(entry.instant, entry.action)
            # A file with another completion time belongs to another decision.
            if found is not None and found.is_completed and found.completion_time == entry.completion_time:
                zombies.append(state.timeline.path(found.file_name))
                undone_there += [entry.instant] if entry.metadata else []
    for path in zombies:
        logger.warning("removed %s: its slot was voided", path)
        remove_paths(ctx.storage, Reason.VOIDED, [path])
    if undone_there:
        undo_delta(ctx.storage, undone_there)
    return zombies


def plan_undone(ctx: TableContext, state: TableState, entry: Plan) -> str | None:
    """Return why a decided plan must not appear: a rollback names it, so it had been applied."""
    undoing = rollback_of(ctx.storage, state.timeline, entry.instant)
    return (
        f"rollback {undoing.time} undoes it: its writer does not know the commit log" if undoing is not None else None
    )


def _is_cancelled(ctx: TableContext, state: TableState, plan: Instant) -> bool:
    fate = state.log.fate(plan.time) or reaching_back(ctx.storage, state.log, plan.time).fate(plan.time)
    return cancel_of(fate) is not None


def _footprint_reader(ctx: TableContext, entry: Complete) -> Callable[[], Footprint | None]:
    """Return a function that reads the footprint of the entry's write on its first call."""
    read: list[Footprint | None] = []

    def mine() -> Footprint | None:
        if not read:
            read.extend(_own(ctx, entry))
        return read[0]

    return mine


def _own(ctx: TableContext, entry: Complete) -> Iterator[Footprint | None]:
    try:
        body = ctx.storage.get(entry.payload)
        yield footprint_of(CommitMetadata.from_bytes(body, entry.payload), entry.instant)
    except (Corrupt, NotFound):
        yield None

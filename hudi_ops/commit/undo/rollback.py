"""Undoing a failed write: cancel it for good, delete what it wrote, take it off the timeline, and say so in a rollback instant.

Order (docs/protocol.md §7, docs/format.md §9.5): CANCEL slot, so that a sleeper finds itself cancelled; data files by markers;
inflight before requested; the rollback's own completed instant; leases last, markers once late tasks are ruled out. Every step can
be done twice, by anybody.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.commit.complete import Body, complete_action
from hudi_ops.commit.recover.dead_writers import is_foreign
from hudi_ops.commit.recover.sweep import release_rolled_back, remove_zombie_files
from hudi_ops.commit.session import Session
from hudi_ops.commit.takeover import take_over
from hudi_ops.commit.undo.cancel import cancel_write
from hudi_ops.commit.undo.rollback_files import (
    delete_files,
    delete_own_notes,
    delete_pending,
    metadata_bytes,
    plan_bytes,
)
from hudi_ops.commit.undo.unclaimed_files import files_of
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.attempt_status import refuse_taken_over
from hudi_ops.concurrency.ended import ends_if_it_fails
from hudi_ops.concurrency.lease.lease import Lease, lease_path, read_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.concurrency.transaction import Decided
from hudi_ops.errors import Busy, Cancelled, Conflict, Corrupt, HudiOpsError
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.content.archived import is_archived_write
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.content.rollbacks import rollback_of, targets_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import mark_cancelled, refuse_uncancelled
from hudi_ops.timeline.names import (
    REWRITING_ACTIONS,
    SERVICE_ACTIONS,
    WRITE_ACTIONS,
    State,
    inflight_name,
    ms_of_instant,
    requested_name,
)
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RolledBackWrite:
    """A write that was rolled back: by which rollback, and the paths of the data files that it had announced."""

    instant: str
    action: str
    rollback: str
    files: tuple[str, ...]


def rollback_attempt(session: Session, instant: str, error: HudiOpsError, written: Sequence[str] = ()) -> None:
    """Cancel and roll back an attempt of this process that failed with an error which promises that nothing landed.

    Args:
        session: the table.
        instant: the attempt's.
        error: why it failed.
        written: data files that it knows to be there: whoever rolled it back meanwhile may have removed their markers.
    """
    if error.details.get("taken_over"):
        return  # the instant, and the files of a higher epoch, are another's now
    try:
        with ends_if_it_fails(session.ctx, instant):
            if not cancel_write(session, instant, f"{type(error).__name__}: {error.what}"):
                return
            delete_files(session.ctx.storage, written)
            state = session.loader.load()
            found = state.timeline.find(instant)
            if found is None:
                remove_zombie_files(session, state, instant)  # somebody else rolled it back while it still wrote
            else:
                roll_back(session, found)
    except HudiOpsError as failure:
        # The first error is what the caller must hear; the next ingest finds the attempt and clears it.
        logger.warning("attempt %s was not undone: %s", instant, failure)


def roll_back(
    session: Session, target: Instant, rollback: Instant | None = None, *, abandoned: bool = False
) -> RolledBackWrite | None:
    """Remove a cancelled write, ours or Apache Hudi's, from storage and timeline.

    Args:
        session: the table.
        target: a pending write that a CANCEL slot names, or one whose rollback was begun.
        rollback: the pending rollback to finish; None: whichever names the target, or a new one.
        abandoned: whoever calls knows that the program which began the rollback has ended, where no heartbeat tells.

    Returns:
        None when it is not finished: somebody else is rolling it back, a rollback's plan cannot be read, or ours was voided.
    """
    storage = session.ctx.storage
    state = session.loader.load()
    # Whoever cancelled it may have died before it left the mark, by which later looks know what they find.
    mark_cancelled(storage, target.time, refuse_uncancelled(storage, state, target.time))
    if target.action in SERVICE_ACTIONS - REWRITING_ACTIONS:
        return _take_off(session, state, target)
    begun = rollback or rollback_of(storage, state.timeline, target.time)
    if begun is not None and begun.is_completed:
        # Another helper was faster, or a sleeper came after it: one rollback a target.
        return RolledBackWrite(
            target.time, target.kind, begun.time, tuple(remove_zombie_files(session, state, target.time))
        )
    if begun is None and (unread := unread_rollbacks(session, state, target.time)):
        logger.warning("%s stays: it may be what rollback %s undoes, whose plan cannot be read", target, unread[0])
        return None
    if begun is not None:
        mend_plan(session, state, begun)
    lease = read_lease(storage, target.time)
    foreign = may_be_foreign(target, lease)
    paths = files_of(session, state, target.time, foreign=foreign, plan=_plan_of(session, state, begun, target.time))
    attempt = _begin(session, target, paths) if begun is None else _resume(session, state, begun, abandoned=abandoned)
    if attempt is None:
        logger.warning("%s is being rolled back by somebody else, or has completed meanwhile", target)
        return None
    try:
        with session.keep(attempt.instant, "rollback", epoch=attempt.epoch, leased_s=attempt.leased_s) as monitor:
            delete_files(storage, paths, foreign=foreign, check=monitor.check)
            delete_own_notes(session, target.time)
            if state.config.all_metadata_partitions:
                # While the write is pending its blocks are passed over; once it is off the timeline they would count.
                undo_delta(storage, [target.time])
            delete_pending(session, state.timeline.folder, target, foreign=foreign)
            decided = _complete(session, attempt, target, paths)
    except Cancelled as error:
        logger.warning("the rollback of %s is left to another process: %s", target, error)
        return None
    if was_voided(decided):
        # It may be pending still: its lease, once dead, is what leads the next write to it.
        logger.warning("the rollback of %s was voided: left to whoever comes after its lease", target)
        return None
    release_rolled_back(session, target.time)
    if foreign:
        delete_files(storage, [lease_path(target.time)], foreign=True)
    session.release(attempt.instant)
    logger.warning("rolled back %s: %s files deleted", target, len(paths))
    return RolledBackWrite(target.time, target.kind, attempt.instant, tuple(paths))


def _take_off(session: Session, state: TableState, plan: Instant) -> RolledBackWrite:
    """Take a cancelled plan off the timeline that adds no data file; no rollback instant names such a plan."""
    delete_own_notes(session, plan.time)
    delete_pending(session, state.timeline.folder, plan)
    release_rolled_back(session, plan.time)
    logger.warning("took the cancelled %s %s off the timeline", plan.action, plan.time)
    return RolledBackWrite(plan.time, plan.kind, "", ())


def may_be_foreign(target: Instant, lease: Lease | None) -> bool:
    """Whether a write was Apache Hudi's, as far as can be told: its heartbeat names nobody, or it has none.

    Then its markers may be gone, so that the table has to be listed, and Hadoop's checksum files lie beside its files. A plan that
    nobody began to execute has no files.
    """
    if lease is not None:
        return is_foreign(lease)
    return target.action in WRITE_ACTIONS or State.INFLIGHT in target.states


def mend_plan(session: Session, state: TableState, rollback: Instant) -> None:
    """Replace the plan of a pending rollback, anybody's, that names paths which are no file's within the table.

    Apache Hudi executes any rollback that it finds pending, under the lock: it would fail on such a path, or delete what lies
    elsewhere. So the plan is put under the lock, too. It names what its own usable paths, the markers and a listing tell.
    """
    storage = session.ctx.storage
    try:
        plan = read_plan(storage, state.timeline, rollback)
    except Corrupt:
        return  # passed over: somebody may be writing it
    if not isinstance(plan, RollbackPlan) or not plan.strange or plan.target_action not in WRITE_ACTIONS:
        return
    target = state.timeline.find(plan.target)
    if target.is_completed if target is not None else is_archived_write(storage, state.config, plan.target):
        return  # its files are the table's rows: no plan of ours may name them
    paths = files_of(session, state, plan.target, foreign=True, plan=plan)
    body = plan_bytes(storage, Instant(plan.target, plan.target_action, State.INFLIGHT), paths)
    with hold_lock(session.ctx, f"mend the plan of rollback {rollback.time}"):
        timeline = session.loader.load().timeline
        found = timeline.find(rollback.time, "rollback")
        if found is not None and not found.is_completed:
            storage.put(timeline.path(requested_name(rollback.time, "rollback")), body)
            logger.warning(
                "replaced the plan of rollback %s, which named what is no file within the table", rollback.time
            )


def was_voided(decided: Decided | None) -> bool:
    """Whether a completion was decided and could not be applied: somebody without slots took the rollback's inflight away."""
    return decided is not None and not decided.applied


def unread_rollbacks(session: Session, state: TableState, target: str) -> list[str]:
    """Pending rollbacks that may be of `target`, for all that can be read of them: nothing is deleted beside such a one."""
    unread = []
    for instant in state.timeline.pending:
        if instant.kind != "rollback" or instant.time < target or State.REQUESTED not in instant.states:
            continue
        try:
            plan = read_plan(session.ctx.storage, state.timeline, instant)
        except Corrupt:
            plan = None
        if plan is None:
            unread.append(instant.time)
    return unread


def other_rollbacks(session: Session, rollback: str, target: str) -> list[str]:
    """Rollbacks of the same target besides ours, which two processes may have begun when a lock was lost.

    Looked for after ours is on the timeline: of two, the later one sees the earlier, so that at most one of them goes on.
    """
    storage, found = session.ctx.storage, session.loader.load().timeline
    others = (one for one in found if one.kind == "rollback" and one.time > target and one.time != rollback)
    return [one.time for one in others if target in targets_of(storage, found, one)]


def _plan_of(session: Session, state: TableState, rollback: Instant | None, target: str) -> RollbackPlan | None:
    plan = read_plan(session.ctx.storage, state.timeline, rollback) if rollback is not None else None
    return plan if isinstance(plan, RollbackPlan) and plan.target == target else None


def _begin(session: Session, target: Instant, paths: Sequence[str]) -> Attempt | None:
    """One plan a target: looked for under the lock before it is made, and once more after it."""
    ctx = session.ctx
    plan = plan_bytes(ctx.storage, target, paths)
    with hold_lock(ctx, f"begin the rollback of {target.time}"):
        timeline = session.loader.load().timeline
        found = timeline.find(target.time)
        # A writer without slots knows no CANCEL: it may have completed since, under this very lock.
        is_complete = found is not None and found.is_completed
        if is_complete or rollback_of(ctx.storage, timeline, target.time) is not None:
            return None
        attempt = begin(ctx, session.loader, "rollback", plan, is_locked=True)
    if not other_rollbacks(session, attempt.instant, target.time):
        return attempt
    for name in (inflight_name, requested_name):
        ctx.storage.delete(f"{attempt.begun.config.timeline_folder}/{name(attempt.instant, 'rollback')}")
    session.drop_name(attempt.instant)
    return None


def _resume(session: Session, state: TableState, rollback: Instant, *, abandoned: bool) -> Attempt | None:
    """One executor a rollback: a dead one of ours is taken over. Those without an owner are Apache Hudi's, which retries them.

    Where it has ended, as somebody says, its rollback is taken over as well. The TAKEOVER is decided under the lock, and only while
    the rollback is pending.
    """
    lease = read_lease(session.ctx.storage, rollback.time)
    if (lease is None or is_foreign(lease)) and not abandoned:
        return None
    try:
        attempt = take_over(session, rollback.time, "rollback")
    except (Busy, Conflict):
        return None  # its executor is alive, or withdrew it: the next write looks again
    if attempt is not None and State.INFLIGHT not in rollback.states:
        ensure(session.ctx.storage, state.timeline.path(inflight_name(rollback.time, "rollback")), b"")
    return attempt


def _complete(session: Session, attempt: Attempt, target: Instant, paths: Sequence[str]) -> Decided | None:
    def check(state: TableState) -> bool:
        found = state.timeline.find(attempt.instant, "rollback")
        if found is None or found.is_completed or state.log.fate(attempt.instant) is not None:
            return False
        refuse_taken_over(attempt, state)
        return True

    def make(state: TableState, completion: str) -> bytes:
        took_ms = ms_of_instant(completion) - ms_of_instant(attempt.instant)
        return metadata_bytes(session.ctx.storage, attempt.instant, took_ms, target, paths)

    return complete_action(session, attempt, Body(make), check)

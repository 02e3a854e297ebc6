"""Rollback of a failed write: cancel it, delete its files, complete a rollback instant.

Order (docs/protocol §7, docs/format §9.5): the CANCEL slot, which stops a paused writer; the data files that markers name;
the inflight, then the requested file; the rollback's own completion; the leases. Markers are deleted once no late task is possible.
Any process can repeat any step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.commit.decide.cancel import CancelReason, cancel_write
from hudi_ops.commit.decide.completion import Body, complete_action
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.owned.find import files_of
from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import checksum_of, remove, remove_paths
from hudi_ops.commit.recover.abort import may_have_files, record_aborted, release_aborted, remove_plan
from hudi_ops.commit.recover.rollback_bodies import (
    child_logs,
    metadata_bytes,
    plan_bytes,
)
from hudi_ops.commit.recover.sweep import remove_zombie_files
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.attempt_status import refuse_taken_over
from hudi_ops.concurrency.ended import ends_if_it_fails
from hudi_ops.concurrency.foreign.foreign_instants import may_be_foreign
from hudi_ops.concurrency.lease.lease import lease_path, read_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.concurrency.transaction import Decided
from hudi_ops.errors import Busy, Cancelled, Conflict, Corrupt, HudiOpsError
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.cancel.aborted_history import find_aborted
from hudi_ops.timeline.content.archived import is_archived_write
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.content.rollbacks import rollback_of, targets_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import mark_cancelled, refuse_uncancelled
from hudi_ops.timeline.log.plan_slots import plan_entry
from hudi_ops.timeline.names import (
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
    """A rolled back write: its rollback's time, and the paths of its announced data files."""

    instant: str
    action: str
    rollback: str
    files: tuple[str, ...]


def rollback_attempt(
    session: Session,
    instant: str,
    error: HudiOpsError,
    written: Sequence[str] = (),
    reason: CancelReason | None = None,
) -> None:
    """Cancel and roll back an attempt of this process whose error says that nothing landed.

    `written` are data files that are known to exist: a concurrent rollback may have removed their markers. `reason` is that of the
    CANCEL; None: the text of the error.
    """
    if error.details.get("taken_over"):
        return  # the instant, and files of a higher epoch, belong to another process now
    try:
        with ends_if_it_fails(session.ctx, instant):
            if not cancel_write(session, instant, reason or f"{type(error).__name__}: {error.what}"):
                return
            state = session.loader.load()
            found = state.timeline.find(instant)
            if written:
                target = found or Instant(instant, state.config.completed_write_action, State.INFLIGHT)
                remove(Removal(session, state, target, Reason.CANCELLED, written), {Part.CONTENT})
            if found is None:
                remove_zombie_files(session, state, instant)  # another process rolled it back while it still wrote
            else:
                roll_back(session, found, is_own=True)
    except HudiOpsError as failure:
        # The caller must see the first error; the next ingest finds the attempt and rolls it back.
        logger.warning("attempt %s was not rolled back: %s", instant, failure)


def roll_back(
    session: Session,
    target: Instant,
    rollback: Instant | None = None,
    *,
    abandoned: bool = False,
    is_own: bool = False,
) -> RolledBackWrite | None:
    """Remove a cancelled write, of hudi_ops or foreign, from storage and timeline.

    `target` is a pending write with a CANCEL slot or a pending rollback. `rollback` is the pending rollback to finish; None: one
    that names the target, or a new one. `abandoned`: the caller knows that the rollback's process has ended. `is_own`: the
    target is a failed attempt of this process, of which its error or the next try tells.

    Returns:
        None if the rollback is not finished: another process works on it, a rollback's plan is unreadable, or its slot was voided.
    """
    storage = session.ctx.storage
    state = session.loader.load()
    # The canceller may have died before it put the mark that later sweeps read.
    mark_cancelled(storage, target.time, refuse_uncancelled(storage, state, target.time))
    if target.action in SERVICE_ACTIONS and not may_have_files(session, state, target):
        remove_plan(session, state, target)
        return RolledBackWrite(target.time, target.kind, "", ())
    begun = rollback or rollback_of(storage, state.timeline, target.time)
    if begun is not None and begun.is_completed:
        # Another process finished first, or the target reappeared after it: one rollback per target.
        removed = remove_zombie_files(session, state, target.time)
        return RolledBackWrite(target.time, target.kind, begun.time, tuple(removed))
    if begun is None and (unread := unread_rollbacks(session, state, target.time)):
        logger.warning("%s stays: it may be the target of rollback %s, whose plan cannot be read", target, unread[0])
        return None
    if begun is not None:
        mend_plan(session, state, begun)
    lease = read_lease(storage, target.time)
    foreign = may_be_foreign(lease, target)
    paths = files_of(session, state, target.time, foreign=foreign, plan=_plan_of(session, state, begun, target.time))
    attempt = _begin(session, target, paths) if begun is None else _resume(session, state, begun, abandoned=abandoned)
    if attempt is None:
        logger.warning("%s is being rolled back by another process, or has completed", target)
        return None
    try:
        with session.keep(attempt.instant, "rollback", epoch=attempt.epoch, leased_s=attempt.leased_s) as monitor:
            removal = Removal(session, state, target, Reason.CANCELLED, paths, is_foreign=foreign)
            remove(removal, {Part.CONTENT}, check=monitor.check)
            if target.action in SERVICE_ACTIONS:
                record_aborted(session, state, target, rollback=attempt.instant, files=tuple(paths))
            remove(removal, {Part.TIMELINE})
            decided = _complete(session, attempt, target, paths)
    except Cancelled as error:
        logger.warning("the rollback of %s is left to another process: %s", target, error)
        return None
    if was_voided(decided):
        # The rollback may still be pending: once its lease is dead, the next write finds it.
        logger.warning("the rollback of %s was voided: the next write repeats it once its lease is dead", target)
        return None
    release_aborted(session, state, target)
    if foreign:
        remove_paths(storage, Reason.CANCELLED, [checksum_of(lease_path(target.time))])
    session.release(attempt.instant)
    logger.log(logging.INFO if is_own else logging.WARNING, "rolled back %s: %s files deleted", target, len(paths))
    return RolledBackWrite(target.time, target.kind, attempt.instant, tuple(paths))


def record_withdrawn(session: Session, state: TableState, instant: str) -> bool:
    """Remove a cancelled plan whose requested file is gone; return False if it was removed.

    `state` was read after the CANCEL.
    """
    storage = session.ctx.storage
    try:
        if state.timeline.find(instant) is not None or find_aborted(storage, state.timeline, instant) is not None:
            return False
    except Corrupt:
        return False  # `verify` reports the record
    entry = plan_entry(storage, state, instant)
    if entry is None or not session.was_cancelled(state, instant):
        return False
    return roll_back(session, Instant(instant, entry.action, State.REQUESTED)) is not None


def mend_plan(session: Session, state: TableState, rollback: Instant) -> None:
    """Replace the plan of a pending rollback, of any writer, if a path in it is no table file.

    Apache Hudi executes any pending rollback under the lock: such a path would make it fail, or delete other data. So the new plan
    is put under the lock, too. It names the usable paths of the old plan, the files of markers, and listed files.
    """
    storage = session.ctx.storage
    try:
        plan = read_plan(storage, state.timeline, rollback)
    except Corrupt:
        return  # skipped: another process may be writing it
    if not isinstance(plan, RollbackPlan) or not plan.strange or plan.target_action not in WRITE_ACTIONS:
        return
    target = state.timeline.find(plan.target)
    if target.is_completed if target is not None else is_archived_write(storage, state.config, plan.target):
        return  # the target's files hold rows of the table: no hudi_ops plan may name them
    paths = files_of(session, state, plan.target, foreign=True, plan=plan)
    body = plan_bytes(storage, Instant(plan.target, plan.target_action, State.INFLIGHT), paths)
    with hold_lock(session.ctx, f"mend the plan of rollback {rollback.time}"):
        timeline = session.loader.load().timeline
        found = timeline.find(rollback.time, "rollback")
        if found is not None and not found.is_completed:
            storage.put(timeline.path(requested_name(rollback.time, "rollback")), body)
            logger.warning(
                "replaced the plan of rollback %s, which named paths of no file within the table", rollback.time
            )


def was_voided(decided: Decided | None) -> bool:
    """Return whether a completion was voided: a foreign writer removed the rollback's inflight."""
    return decided is not None and not decided.applied


def unread_rollbacks(session: Session, state: TableState, target: str) -> list[str]:
    """Return unreadable pending rollbacks that may be of `target`; they prevent any deletion."""
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
    """Return other rollbacks of a target, begun by a second process after a lost lock.

    Call it after `rollback` is on the timeline: of two rollbacks the later one then sees the earlier, so at most one continues.
    """
    storage, timeline = session.ctx.storage, session.loader.load().timeline
    others = (
        instant
        for instant in timeline
        if instant.kind == "rollback" and instant.time > target and instant.time != rollback
    )
    return [instant.time for instant in others if target in targets_of(storage, timeline, instant)]


def _plan_of(session: Session, state: TableState, rollback: Instant | None, target: str) -> RollbackPlan | None:
    plan = read_plan(session.ctx.storage, state.timeline, rollback) if rollback is not None else None
    return plan if isinstance(plan, RollbackPlan) and plan.target == target else None


def _begin(session: Session, target: Instant, paths: Sequence[str]) -> Attempt | None:
    """Begin a target's rollback; None: another exists, as checked under the lock and after it."""
    ctx = session.ctx
    plan = plan_bytes(ctx.storage, target, paths)
    with hold_lock(ctx, f"begin the rollback of {target.time}"):
        timeline = session.loader.load().timeline
        found = timeline.find(target.time)
        # A foreign writer ignores a CANCEL, and may have completed its write since, under this lock.
        is_complete = found is not None and found.is_completed
        if is_complete or rollback_of(ctx.storage, timeline, target.time) is not None:
            return None
        attempt = begin(ctx, session.loader, "rollback", plan, is_locked=True)
    if not other_rollbacks(session, attempt.instant, target.time):
        return attempt
    own = Instant(attempt.instant, "rollback", State.INFLIGHT)
    remove(Removal(session, attempt.begun, own, Reason.VANISHED, ()), {Part.TIMELINE})
    session.drop_name(attempt.instant)
    return None


def _resume(session: Session, state: TableState, rollback: Instant, *, abandoned: bool) -> Attempt | None:
    """Take over a rollback whose executor is dead; a foreign one only when `abandoned`.

    Apache Hudi retries its own rollbacks. The TAKEOVER is decided under the lock, and only while the rollback is pending.
    """
    lease = read_lease(session.ctx.storage, rollback.time)
    if may_be_foreign(lease) and not abandoned:
        return None
    try:
        attempt = take_over(session, rollback.time, "rollback")
    except (Busy, Conflict):
        return None  # its executor is alive or withdrew the rollback: the next write tries again
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

    return complete_action(session, attempt, Body(make, child_logs(target, paths)), check)

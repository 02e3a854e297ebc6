"""Execute a requested cancel: remove the plan and its files, keep its record (RFC-79).

Source: docs/protocol §7, §26.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.recover.rollback import record_withdrawn, roll_back
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.errors import Busy, Corrupt
from hudi_ops.services.base.result import Result
from hudi_ops.services.cancel.errors import NotRequested
from hudi_ops.services.cancel.request import checked_reason, find_plan, refuse_not_cancellable, request_cancel
from hudi_ops.timeline.cancel.aborted import queue_path
from hudi_ops.timeline.cancel.aborted_history import find_aborted
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import cancel_slot, fate_of
from hudi_ops.timeline.log.entries import cancel_of
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

WAIT_STEP_S = 0.5


@dataclass(frozen=True)
class CancelResult(Result):
    """Result of a cancel.

    Attributes:
        table: name of the table.
        instant: the plan's.
        action: its pending word; empty if only the log knows it.
        state: `aborted`, nothing of the plan is left; `cancelled`, its executor has not ended yet; `cancellable`, of a dry run.
        reason: of the CANCEL that counts.
        requester: who asked for it first.
        rollback: the rollback instant that removed its files; empty: it had none.
        files: number of data files that were deleted.
        note: what happens next.
    """

    table: str
    instant: str
    action: str
    state: str
    reason: str = ""
    requester: str = ""
    rollback: str = ""
    files: int = 0
    note: str = ""


def execute_cancel(session: Session, instant: str) -> CancelResult:
    """Remove the files of a plan whose cancel was requested, and the plan from the timeline.

    A second call changes nothing. The rollback instant excludes other processes: of two processes only one removes the files.

    Raises:
        NotRequested: no CANCEL names the instant.
        Busy: its executor has a live lease, or another process removes it.
        InvalidRequest: as `request_cancel`.
    """
    state, plan = find_plan(session, instant)
    if plan is None:
        if record_withdrawn(session, state, instant):  # its canceller died before it recorded the plan
            state = session.loader.load()
        remove_paths(session.ctx.storage, Reason.CANCELLED, [queue_path(instant)])
        return _aborted(session, state, instant)
    if cancel_slot(session.ctx.storage, state, instant) is None:
        raise NotRequested(
            "no cancel of this plan was requested",
            table=state.config.name,
            instant=instant,
            expected="a CANCEL in the commit log",
            next_step=f"request it: `hudi-ops cancel TABLE {instant}`",
        )
    lease = read_lease(session.ctx.storage, instant)
    if lease is not None and not lease.is_dead(session.ctx.clock):
        until_s = max(0, lease.beaten_ms + EXPIRY_MS - session.ctx.clock.now_ms()) / 1000
        raise Busy(
            f"{lease.owner or 'a foreign writer'} has not stopped yet",
            table=state.config.name,
            instant=instant,
            expected="an executor that has ended",
            found=f"a lease that is good for another {until_s:.0f} s",
            next_step=f"it cannot complete any more, and stops at its next look; then `hudi-ops cancel TABLE {instant}` again",
            until_ms=lease.beaten_ms + EXPIRY_MS,
        )
    if roll_back(session, plan) is None:
        raise Busy(
            "another process removes the plan, or the plan of a pending rollback cannot be read",
            table=state.config.name,
            instant=instant,
            next_step="see `hudi-ops plans TABLE` and `hudi-ops verify TABLE`",
        )
    return _aborted(session, session.loader.load(), instant)


def cancel(
    session: Session,
    instant: str,
    reason: CancelReason,
    *,
    force: bool = False,
    request_only: bool = False,
    dry_run: bool = False,
    wait_s: float = 0.0,
) -> CancelResult:
    """Request the cancel of a plan and execute it, once its executor has stopped.

    Args:
        session: of this process.
        instant: request time of the plan.
        reason: why, and who asks.
        force: cancel a plan that does not say that it is cancellable.
        request_only: leave the removal to the executor, or to the next write.
        dry_run: check the request; change nothing.
        wait_s: longest time to wait for a live executor to stop, in seconds.

    Raises:
        InvalidRequest: as `request_cancel`.
    """
    if dry_run:
        checked_reason(reason.text)
        state, plan = find_plan(session, instant)
        if plan is None:
            return _aborted(session, state, instant)
        if cancel_slot(session.ctx.storage, state, instant) is None:
            refuse_not_cancellable(session, state, plan, force=force)
        return CancelResult(
            state.config.name, instant, plan.action, "cancellable", note="a dry run: nothing was changed"
        )
    asked = request_cancel(session, instant, reason, force=force)
    if request_only and asked.plan is not None:
        return _pending(
            session, asked.state, instant, asked.plan.action, "its executor, or the next write, removes the plan"
        )
    until_s = session.ctx.clock.monotonic_s() + wait_s
    while True:
        try:
            return execute_cancel(session, instant)
        except Busy as busy:
            if asked.plan is None or session.ctx.clock.monotonic_s() >= until_s:
                action = asked.plan.action if asked.plan is not None else ""
                return _pending(session, asked.state, instant, action, f"{busy.what}; {busy.next_step}")
            session.ctx.clock.sleep_s(WAIT_STEP_S)


def _pending(session: Session, state: TableState, instant: str, action: str, note: str) -> CancelResult:
    return _said(session, state, CancelResult(state.config.name, instant, action, "cancelled", note=note))


def _said(session: Session, state: TableState, result: CancelResult) -> CancelResult:
    """Return the result with the reason and the requester from the CANCEL of its instant."""
    cancel = cancel_of(fate_of(session.ctx.storage, state, result.instant))
    if cancel is None:
        return result
    return replace(result, reason=cancel.reason, requester=cancel.requester or cancel.owner)


def _aborted(session: Session, state: TableState, instant: str) -> CancelResult:
    storage = session.ctx.storage
    plan = next((one for one in state.timeline.aborted if one.time == instant), None)
    result = CancelResult(state.config.name, instant, plan.action if plan is not None else "", "aborted")
    try:
        record = find_aborted(storage, state.timeline, instant)
    except Corrupt as error:
        return _said(session, state, replace(result, note=f"its record cannot be read: {error.what}"))
    if record is None:
        return _said(session, state, result)
    return replace(
        result,
        action=record.action,
        reason=record.reason,
        requester=record.requester,
        rollback=record.rollback,
        files=len(record.files),
        note=_swept_note(plan),
    )


def _swept_note(plan: Instant | None) -> str:
    """Return what a later write does for an aborted plan; empty once it is swept.

    `plan` None: its record was archived.
    """
    is_swept = plan is None or State.SWEPT in plan.states
    return "" if is_swept else "a write in two minutes or later looks for late files once more"

"""Cancellation: an instant never completes once a CANCEL that names it holds a slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hudi_ops.commit.apply.put_back import decided_before
from hudi_ops.commit.decide.withdraw import may_withdraw, withdraw
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.transaction import First
from hudi_ops.errors import InvalidRequest
from hudi_ops.timeline.content.plans import CleanPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import cancel_slot, fate_of
from hudi_ops.timeline.log.entries import Cancel, Complete, Entry
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class CancelReason:
    """Why an instant is cancelled, for readers of the log and for its writer if it resumes.

    `cause`, `requester` and `by` are those of the CANCEL entry.
    """

    text: str
    cause: str = ""
    requester: str = ""
    by: str = ""


def cancel_write(
    session: Session,
    instant: str,
    reason: str | CancelReason,
    still: Callable[[], bool] = lambda: True,
    *,
    withdraws: bool = False,
) -> bool:
    """Decide that a write never completes; return False if it has completed or its writer lives.

    `still` is called under the lock before a new CANCEL, and returns whether the writer is still dead. `withdraws`: if Apache Hudi
    may execute the plan, first take it off the timeline, provided that no process began it.

    Raises:
        Busy: with `withdraws`, another program began to execute the plan.
        InvalidRequest: an executor began a clean; it is finished, not cancelled.
    """
    why = reason if isinstance(reason, CancelReason) else CancelReason(reason)
    completed = alive = False
    cancelled = -1
    # An instant whose completed file was deleted looks pending; its COMPLETE may be below the loaded part of the log.
    log = session.loader.known_log or session.loader.load().log
    if decided_before(session.ctx.storage, log, instant) is not None:
        return False

    def prepare(state: TableState, slot: int) -> Entry | First | None:
        nonlocal completed, alive, cancelled
        found = state.timeline.find(instant)
        # A COMPLETE that was decided after that read is in the loaded part of the log.
        fate = state.log.fate(instant) if found is not None else fate_of(session.ctx.storage, state, instant)
        completed = isinstance(fate[1] if fate else None, Complete) or (found is not None and found.is_completed)
        if completed:
            return None
        slot_before = fate[0] if fate is not None else cancel_slot(session.ctx.storage, state, instant)
        if slot_before is not None:
            cancelled = slot_before
            return None
        if found is not None:
            refuse_begun_clean(session, state, found)
        alive = not still()
        if alive:
            return None
        entry = Cancel(
            **session.entry(state, f"cancel {instant}"),
            instant=instant,
            reason=why.text,
            cause=why.cause,
            requester=why.requester,
            by=why.by,
        )
        if not withdraws or found is None or not may_withdraw(session, state, found):
            return entry

        def before(still_mine: Callable[[], bool]) -> None:
            withdraw(session, state, [instant], slot, still_mine)

        # `prepare` is called once more, finds the CANCEL, and decides nothing.
        return First(entry, before)

    decided = session.decide(prepare, f"cancel {instant}")
    if completed or alive:
        return False
    session.applier.mark(instant, decided.slot if decided is not None else cancelled)
    return True


def refuse_begun_clean(session: Session, state: TableState, found: Instant) -> None:
    """Refuse to cancel a clean of files that was begun (docs/protocol §20, step 6).

    Its executor may sleep before a deletion and wake up later, when a savepoint or a restore needs the file.

    Raises:
        InvalidRequest: a TAKEOVER names it, or Apache Hudi put its inflight file.
    """
    plan = read_plan(session.ctx.storage, state.timeline, found) if found.action == "clean" else None
    if not isinstance(plan, CleanPlan) or not any(plan.files.values()):
        return
    log = state.log
    taken = log.takeover(found.time) or reaching_back(session.ctx.storage, log, found.time).takeover(found.time)
    if taken is not None or State.INFLIGHT in found.states:
        raise InvalidRequest(
            "this clean was begun, and its executor may have deleted files: it cannot be cancelled",
            table=state.config.name,
            instant=found.time,
            expected="a clean that no process has begun to execute",
            found=f"slot {taken[0]}, a TAKEOVER by {taken[1].owner}"
            if taken is not None
            else "an inflight file of Apache Hudi",
            next_step=f"finish it: `hudi-ops clean TABLE execute --instant {found.time}`",
        )

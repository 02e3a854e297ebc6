"""Request the cancel of a pending plan: then it never completes (RFC-79).

The CANCEL slot decides, whether or not a process executes the plan. The queue file only shows the cancel; a repeated call puts it
again.

Source: docs/protocol §7, §26.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace

from hudi_ops.commit.checks import was_completed
from hudi_ops.commit.decide.cancel import CancelReason, cancel_write
from hudi_ops.commit.decide.withdraw import lock_and_put_back
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.recover.rollback import record_withdrawn
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.services.cancel.errors import AlreadyCommitted, InstantArchived, InstantNotFound, NotCancellable
from hudi_ops.timeline.cancel.aborted import queue_cancel
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import cancel_slot
from hudi_ops.timeline.log.entries import Plan
from hudi_ops.timeline.log.plan_slots import plan_entry
from hudi_ops.timeline.names import REWRITING_ACTIONS, SERVICE_ACTIONS, WRITE_ACTIONS, State, is_instant
from hudi_ops.timeline.state import TableState

REASON_CHARS_MAX = 1_000
NOT_CANCELLED = frozenset({"clean", "rollback", "restore", "savepoint"})
"""Actions that are finished, never cancelled: a part of their work may be done."""

_LIST = "copy the instant of a pending plan from `hudi-ops plans TABLE`"
_NOTHING = "nothing to cancel; `hudi-ops timeline TABLE` shows it"
_WRITE_STAYS = "a completed write stays; `hudi-ops restore TABLE` returns the table to a savepoint"


@dataclass(frozen=True)
class Requested:
    """A requested cancel.

    Attributes:
        state: the table's state in which the plan was found.
        plan: the plan; None: it was cancelled and removed before.
    """

    state: TableState
    plan: Instant | None


def checked_reason(text: str) -> str:
    """Return the reason of a cancel without surrounding blanks.

    Raises:
        InvalidRequest: it is empty, longer than `REASON_CHARS_MAX`, or has control characters.
    """
    reason = text.strip()
    if not reason or len(reason) > REASON_CHARS_MAX or any(unicodedata.category(char) == "Cc" for char in reason):
        raise InvalidRequest(
            "this cannot be the reason of a cancel",
            expected=f"1 to {REASON_CHARS_MAX} characters in one line, without control characters",
            found=f"{len(text)} characters, beginning {text[:20]!r}",
            next_step="say in one sentence why the plan is cancelled",
        )
    return reason


def request_cancel(session: Session, instant: str, reason: CancelReason, *, force: bool = False) -> Requested:
    """Decide that a pending plan never completes, whether or not a process executes it.

    A second call changes nothing. If the plan's completion is decided already, the call finishes the commit and is refused.

    Args:
        session: of this process.
        instant: request time of the plan.
        reason: why, and who asks.
        force: cancel a plan that does not say that it is cancellable.

    Raises:
        InvalidRequest: the reason or the instant is malformed.
        InstantNotFound: there is no such instant; or it was archived, or completed, as subclasses of `InvalidRequest` say.
        NotCancellable: it is a write or an action that is always finished; or its plan is not cancellable, without `force`.
        Unsupported: the table cannot be written.
        Busy: the lock was not free in time, or another program executes the plan, without `force`.
    """
    reason = replace(reason, text=checked_reason(reason.text))
    state, plan = find_plan(session, instant)
    if plan is None:
        return Requested(state, None)
    if cancel_slot(session.ctx.storage, state, instant) is None:
        refuse_not_cancellable(session, state, plan, force=force)
    is_forced = force and State.INFLIGHT in plan.states
    if not cancel_write(session, instant, reason, withdraws=not is_forced):
        refuse_committed(session, state, instant)
    state = session.loader.load()
    if record_withdrawn(session, state, instant):
        return Requested(session.loader.load(), None)
    slot = cancel_slot(session.ctx.storage, state, instant)
    if slot is not None:
        queue_cancel(session.ctx.storage, state.log.table_id, instant, slot)
    return Requested(state, plan)


def find_plan(session: Session, instant: str) -> tuple[TableState, Instant | None]:
    """Return the state and the pending instant; None: a cancelled plan that was removed.

    Raises:
        InvalidRequest: the instant is malformed.
        InstantNotFound: there is none.
        InstantArchived: it completed, and was archived.
        AlreadyCommitted: it completed. Raised by `refuse_committed`.
        Unsupported: the table cannot be written.
    """
    if not is_instant(instant):
        raise InvalidRequest(
            f"{instant!r} is not an instant", expected="17 digits", found=repr(instant), next_step=_LIST
        )
    state = finish_unfinished(session)
    refuse_unwritable(state.config)
    if state.timeline.find(instant) is None and lock_and_put_back(session, state):
        state = session.loader.load()
    found = state.timeline.find(instant)
    if found is not None:
        if found.is_completed:
            refuse_committed(session, state, instant)
        return state, found
    if any(one.time == instant for one in state.timeline.aborted) or session.was_cancelled(state, instant):
        return state, None
    if was_completed(session, state, instant):
        raise InstantArchived(
            "this instant completed, and was archived",
            table=state.config.name,
            instant=instant,
            expected="a pending plan",
            next_step="it cannot be cancelled; `hudi-ops restore TABLE` returns the table to a savepoint",
        )
    if undone := undone_by(session.ctx.storage, state.config, state.timeline, instant):
        raise InstantNotFound(
            f"this instant was undone by {undone}",
            table=state.config.name,
            instant=instant,
            expected="a pending plan",
            found=str(undone),
            next_step=_NOTHING,
            other=undone.time,
        )
    raise InstantNotFound(
        "no such instant", table=state.config.name, instant=instant, expected="a pending plan", next_step=_LIST
    )


def refuse_not_cancellable(session: Session, state: TableState, found: Instant, *, force: bool) -> None:
    """Refuse an instant that a cancel must not end.

    Apache Hudi leaves no heartbeat when it executes a plan, and does not look at CANCELs: its files would come after the removal.

    Raises:
        NotCancellable: says why, and what helps.
        Busy: another program began to execute the plan, and may be running.
    """
    why = next_step = ""
    if found.action in WRITE_ACTIONS:
        why = f"a pending {found.action} is a write, not a plan"
        next_step = f"once its writer has ended: `hudi-ops rollback TABLE {found.time}`"
    elif found.action in NOT_CANCELLED or found.action not in REWRITING_ACTIONS | {"indexing"}:
        why = f"a {found.action} is never cancelled"
        next_step = (
            f"`hudi-ops clean TABLE execute --instant {found.time}` finishes it"
            if found.action == "clean"
            else f"`hudi-ops {'restore' if found.action == 'restore' else 'recover'} TABLE` finishes it"
        )
    elif not force:
        why, next_step = _not_said(plan_entry(session.ctx.storage, state, found.time), found)
    if why:
        raise NotCancellable(
            why, table=state.config.name, instant=found.time, expected="a cancellable plan", next_step=next_step
        )
    if not force and State.INFLIGHT in found.states and read_lease(session.ctx.storage, found.time) is None:
        raise Busy(
            f"another program began to execute this {found.action}, and does not look at cancels",
            table=state.config.name,
            instant=found.time,
            expected="a plan that no other program executes",
            found="an inflight file without a heartbeat",
            next_step=f"let it finish; once it has surely ended, `hudi-ops cancel TABLE {found.time} --force`",
        )


def _not_said(entry: Plan | None, found: Instant) -> tuple[str, str]:
    """Return why a plan needs force, and the command that helps; empty if it does not."""
    if entry is not None and entry.cancellable:
        return "", ""
    forced = f"`hudi-ops cancel TABLE {found.time} --force`"
    if entry is None:
        return (
            f"this {found.action} was planned by another program, which may execute it without asking",
            f"stop that program first, then {forced}: a program that still executes the plan fails, or completes it",
        )
    return f"this {found.action} was not planned as cancellable", f"{forced} cancels it all the same"


def refuse_committed(session: Session, state: TableState, instant: str) -> None:
    """Refuse to cancel an instant that completed.

    Raises:
        AlreadyCommitted: always; says whether it was a plan.
    """
    found = state.timeline.find(instant)
    done = found if found is not None and found.is_completed else None
    metadata = session.commits.metadata(state.timeline, done) if done is not None and done.is_write else None
    is_service = metadata is not None and (metadata.is_merge or metadata.operation == "CLUSTER")
    what, next_step = "the plan completed: its files are part of the table", _NOTHING
    if found is not None and found.action not in SERVICE_ACTIONS and not is_service:
        what = f"this {found.kind} is complete, and was never a plan"
        next_step = _WRITE_STAYS if metadata is not None else _NOTHING
    raise AlreadyCommitted(
        what,
        table=state.config.name,
        instant=instant,
        expected="a pending plan",
        found=str(done or "an instant that has completed since"),
        next_step=next_step,
    )

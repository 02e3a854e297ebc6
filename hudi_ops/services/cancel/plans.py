"""Describe the plans of table services: pending ones, requested cancels, aborted ones."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import Lease, read_lease
from hudi_ops.errors import Corrupt, InvalidRequest, NotFound
from hudi_ops.services.base.result import Result
from hudi_ops.timeline.cancel.aborted import read_aborted
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.content.footprint import inputs_of
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Cancel, Plan
from hudi_ops.timeline.log.plan_slots import newest_takeover, plan_entry
from hudi_ops.timeline.names import SERVICE_ACTIONS, State, ms_of_instant
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class PlanRow(Result):
    """A plan of a table service.

    Attributes:
        instant: its request time.
        action: its pending word, for example `compaction`.
        state: `planned`, `running`, `left` (begun, its executor has ended), `cancelled` (not removed yet), or `aborted`.
        age_s: time since it was planned, in seconds.
        groups: number of file groups that it works on; None if the plan cannot be read or names none.
        policy: whether a cancel may end it, and when it is overdue.
        executor: who executes it, or did last.
        epoch: number of executors so far.
        cancelled_by: who asked for its cancel; empty without a cancel.
        reason: why it was cancelled.
        next: what happens next, or the command that helps.
    """

    instant: str
    action: str
    state: str
    age_s: float
    groups: int | None
    policy: str
    executor: str = ""
    epoch: int = 0
    cancelled_by: str = ""
    reason: str = ""
    next: str = ""


def describe_plans(session: Session, instant: str | None = None, *, aborted: bool = False) -> list[PlanRow]:
    """Return the pending plans, oldest first.

    Args:
        session: of this process.
        instant: only this plan, in any state.
        aborted: include plans that were cancelled and removed.

    Raises:
        InvalidRequest: there is no such plan.
    """
    state = session.loader.load()
    rows = [_pending(session, state, one) for one in state.timeline.pending if one.action in SERVICE_ACTIONS]
    if aborted or instant is not None:
        rows += [_aborted(session, state, one) for one in state.timeline.aborted]
    found = sorted((row for row in rows if instant in (None, row.instant)), key=lambda row: row.instant)
    if instant is not None and not found:
        raise InvalidRequest(
            "no such plan",
            table=state.config.name,
            instant=instant,
            expected="the instant of a pending or aborted plan",
            next_step="`hudi-ops plans TABLE --aborted` lists all plans",
        )
    return found


def _pending(session: Session, state: TableState, plan: Instant) -> PlanRow:
    storage = session.ctx.storage
    entry, taken = plan_entry(storage, state, plan.time), newest_takeover(storage, state, plan.time)
    lease = read_lease(storage, plan.time)
    is_live = lease is not None and not lease.is_dead(session.ctx.clock)
    fate = fate_of(storage, state, plan.time)
    cancel = fate[1] if fate is not None and isinstance(fate[1], Cancel) else None
    word = "running" if is_live else "left" if taken is not None or len(plan.states) > 1 else "planned"
    return PlanRow(
        instant=plan.time,
        action=plan.action,
        state="cancelled" if cancel is not None else word,
        age_s=_age_s(session, state, plan),
        groups=_groups(session, state, plan),
        policy=str(policy_of(entry)) if entry is not None else "planned by another program",
        executor=_executor(lease) if is_live else taken.owner if taken is not None else "",
        epoch=taken.epoch if taken is not None else 0,
        cancelled_by=(cancel.requester or cancel.owner) if cancel is not None else "",
        reason=cancel.reason if cancel is not None else "",
        next=_next(plan, word, is_cancelled=cancel is not None, is_live=is_live),
    )


def policy_of(entry: Plan) -> CancelPolicy:
    """Return the cancel policy in a PLAN entry; entries of earlier releases are not cancellable."""
    return CancelPolicy(bool(entry.cancellable), entry.cancel_after_hours, entry.cancel_after_instants)


def _aborted(session: Session, state: TableState, plan: Instant) -> PlanRow:
    age_s = _age_s(session, state, plan)
    try:
        record = read_aborted(session.ctx.storage, state.timeline, plan)
    except (Corrupt, NotFound) as error:
        return PlanRow(
            plan.time, plan.action, "aborted", age_s, None, "", next=f"its record cannot be read: {error.what}"
        )
    return PlanRow(
        instant=plan.time,
        action=plan.action,
        state="aborted",
        age_s=age_s,
        groups=None,
        policy="",
        epoch=max(record.epochs, default=0),
        cancelled_by=record.requester,
        reason=record.reason,
        next="nothing" if State.SWEPT in plan.states else "a later write looks once more for late files",
    )


def _next(plan: Instant, word: str, *, is_cancelled: bool, is_live: bool) -> str:
    if is_cancelled:
        if is_live:
            return "its executor stops at its next look, and removes the plan"
        return f"the next write, or `hudi-ops cancel TABLE {plan.time}`, removes it"
    if word == "running":
        return "its executor completes it"
    command = {"compaction": "compact", "clean": "clean"}.get(plan.action)
    if command is None:
        return f"the program that planned this {plan.action} executes it"
    return f"`hudi-ops {command} TABLE execute --instant {plan.time}` executes it"


def _groups(session: Session, state: TableState, plan: Instant) -> int | None:
    try:
        found = inputs_of(read_plan(session.ctx.storage, state.timeline, plan))
    except Corrupt:
        return None
    return len(found.groups) or None if found is not None else None


def _age_s(session: Session, state: TableState, plan: Instant) -> float:
    return round(max(0, session.ctx.clock.now_ms() - ms_of_instant(plan.time, state.zone)) / 1000, 3)


def _executor(lease: Lease | None) -> str:
    if lease is None:
        return ""
    return str(lease.owner) if lease.owner is not None else "a program of Apache Hudi"

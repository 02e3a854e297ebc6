"""Describe the plans of table services: pending ones, requested cancels, aborted ones."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.owned.find import needs_listing
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_instants import may_be_foreign
from hudi_ops.concurrency.lease.lease import Lease, read_lease
from hudi_ops.errors import Corrupt, InvalidRequest, NotFound
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.base.result import Result
from hudi_ops.services.cancel.due import policy_of, why_overdue
from hudi_ops.timeline.cancel.aborted import AbortedPlan, read_aborted
from hudi_ops.timeline.cancel.aborted_history import load_aborted
from hudi_ops.timeline.content.footprint import inputs_of
from hudi_ops.timeline.content.plans import Plan as PlanContent, read_plan
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Plan, cancel_of
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
        overdue: why the next clean cancels it; empty: it does not.
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
    overdue: str = ""


def describe_plans(session: Session, instant: str | None = None, *, aborted: bool = False) -> list[PlanRow]:
    """Return the pending plans, oldest first.

    Args:
        session: of this process.
        instant: only this plan, in any state.
        aborted: include plans that were cancelled and removed, also those whose record was archived.

    Raises:
        InvalidRequest: there is no such plan.
        Corrupt: the history of aborted plans cannot be read, and it was asked for.
    """
    state = session.loader.load()
    plans = [one for one in state.timeline.pending if one.action in SERVICE_ACTIONS and instant in (None, one.time)]
    rows = [_pending(session, state, one) for one in plans]
    if aborted or (instant is not None and not rows):
        rows += _aborted(session, state, instant)
    found = sorted(rows, key=lambda row: row.instant)
    if instant is not None and not found:
        raise InvalidRequest(
            "no such plan",
            table=state.config.name,
            instant=instant,
            expected="the instant of a pending or aborted plan",
            found=str(undone_by(session.ctx.storage, state.config, state.timeline, instant) or ""),
            next_step="`hudi-ops plans TABLE --aborted` lists all plans",
        )
    return found


def _pending(session: Session, state: TableState, plan: Instant) -> PlanRow:
    storage = session.ctx.storage
    entry, taken = plan_entry(storage, state, plan.time), newest_takeover(storage, state, plan.time)
    lease = read_lease(storage, plan.time)
    is_live = lease is not None and not lease.is_dead(session.ctx.clock)
    cancel = cancel_of(fate_of(storage, state, plan.time))
    content, overdue = _content(session, state, plan), why_overdue(session, state, plan)
    word = "running" if is_live else "left" if taken is not None or len(plan.states) > 1 else "planned"
    return PlanRow(
        instant=plan.time,
        action=plan.action,
        state="cancelled" if cancel is not None else word,
        age_s=_age_s(session, state, plan.time),
        groups=_groups(content),
        policy=_said_policy(entry, is_a_resize=is_resize(content)),
        executor=executor_of(lease) if is_live else taken.owner if taken is not None else "",
        epoch=taken.epoch if taken is not None else 0,
        cancelled_by=(cancel.requester or cancel.owner) if cancel is not None else "",
        reason=cancel.reason if cancel is not None else "",
        next=_removal(session, plan, lease, is_live=is_live)
        if cancel is not None
        else f"overdue now: the next clean cancels it; until then {_next(plan, word, content, entry)}"
        if overdue
        else _next(plan, word, content, entry),
        overdue=overdue,
    )


def _said_policy(entry: Plan | None, *, is_a_resize: bool) -> str:
    """Return the cancel policy of a plan in words; None: another program planned it."""
    if entry is None:
        return "planned by another program"
    policy = policy_of(entry)
    # A write puts its rows into the new buckets of a resize as well, unless it replaces the old ones.
    return policy.said("leaves out buckets that writes replace") if is_a_resize else str(policy)


def _aborted(session: Session, state: TableState, instant: str | None) -> list[PlanRow]:
    """Return the aborted plans, on the timeline and in their history; `instant`: only this one."""
    storage, timeline = session.ctx.storage, state.timeline
    rows = {record.instant: _recorded(session, state, record) for record in load_aborted(storage, instant)}
    for plan in timeline.aborted:
        if plan.time in rows or instant not in (None, plan.time):
            continue
        try:
            record = read_aborted(storage, timeline, plan)
        except (Corrupt, NotFound) as error:
            age_s, note = _age_s(session, state, plan.time), f"its record cannot be read: {error.what}"
            rows[plan.time] = PlanRow(plan.time, plan.action, "aborted", age_s, None, "", next=note)
        else:
            note = "nothing" if State.SWEPT in plan.states else "a later write looks once more for late files"
            rows[plan.time] = _recorded(session, state, record, note)
    return list(rows.values())


def _recorded(session: Session, state: TableState, record: AbortedPlan, note: str = "nothing") -> PlanRow:
    return PlanRow(
        instant=record.instant,
        action=record.action,
        state="aborted",
        age_s=_age_s(session, state, record.instant),
        groups=None,
        policy="",
        epoch=max(record.epochs, default=0),
        cancelled_by=record.requester,
        reason=record.reason,
        next=note,
    )


def _removal(session: Session, plan: Instant, lease: Lease | None, *, is_live: bool) -> str:
    """Return who removes a cancelled plan."""
    if is_live:
        return "its executor stops at its next look, and removes the plan"
    is_listed = needs_listing(session, plan.time, foreign=may_be_foreign(lease, plan))
    return f"the next {'clean' if is_listed else 'write'}, or `hudi-ops cancel TABLE {plan.time}`, removes it"


def _next(plan: Instant, word: str, content: PlanContent | None, entry: Plan | None) -> str:
    if word == "running":
        return "its executor completes it"
    words = executing_words(plan, is_a_resize=is_resize(content), is_ours=entry is not None)
    if not words:
        return f"the program that planned this {plan.action} executes it"
    return f"`hudi-ops {' '.join(words)}` executes it"


def executing_words(plan: Instant, *, is_a_resize: bool, is_ours: bool) -> tuple[str, ...]:
    """Return the words of the command that executes a plan, with `TABLE` for the table.

    Empty: only the program that planned it executes it.
    """
    command = {"compaction": "compact", "clustering": "cluster", "clean": "clean"}.get(plan.action)
    if is_a_resize:
        command = "resize"
    elif plan.action == "indexing" and is_ours:
        command = "index"
    return (command, "TABLE", "execute", "--instant", plan.time) if command is not None else ()


def _content(session: Session, state: TableState, plan: Instant) -> PlanContent | None:
    try:
        return read_plan(session.ctx.storage, state.timeline, plan)
    except Corrupt:
        return None


def _groups(content: PlanContent | None) -> int | None:
    found = inputs_of(content)
    return len(found.groups) or None if found is not None else None


def _age_s(session: Session, state: TableState, instant: str) -> float:
    """Return the age of a plan; 0 for a file whose name is no time of the calendar."""
    try:
        return round(max(0, session.ctx.clock.now_ms() - ms_of_instant(instant, state.zone)) / 1000, 3)
    except InvalidRequest:
        return 0.0


def executor_of(lease: Lease | None) -> str:
    """Return who executes a plan, by its lease; empty: it has none."""
    if lease is None:
        return ""
    return str(lease.owner) if lease.owner is not None else "a program of Apache Hudi"

"""Measure the pending plans of a table by a bounded number of reads.

The facts say how old the plans are, when they are overdue, and which command ends them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_instants import has_foreign_executor
from hudi_ops.concurrency.lease.lease import Lease
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.cancel.due import due_ms, instants_since, policy_of
from hudi_ops.services.cancel.endings import words_of_plan
from hudi_ops.services.cancel.plans import executor_of
from hudi_ops.timeline.cancel.aborted import QUEUE
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import cancel_of
from hudi_ops.timeline.log.plan_slots import pending_plan_entry
from hudi_ops.timeline.names import REWRITING_ACTIONS, SERVICE_ACTIONS, ms_of_instant
from hudi_ops.timeline.state import TableState

PLANS_READ = 3
"""Most plans that are read, the oldest ones; the timeline alone says how many others there are."""


@dataclass(frozen=True)
class PendingPlan:
    """A pending plan of a service. Times are in ms since 1970.

    Attributes:
        instant: its request time.
        action: its pending word.
        planned_ms: its age begins here.
        state: `planned`, `running`, `left` (begun, its executor has ended), or `cancelled` (not removed yet).
        executor: process of its lease; empty: it has none.
        live_until_ms: until then its executor counts as alive, unless it renews its lease; None: no process executes it.
        due_ms: time from which it is overdue; None: never.
        is_hard: it is overdue even while a process executes it.
        command: words of the command that executes it, with `TABLE` for the table; empty: only the program that planned it does.
        cancel: words of the command that cancels it.
        is_foreign_run: another program began to execute it, and leaves no heartbeat.
    """

    instant: str
    action: str
    planned_ms: int
    state: str
    executor: str
    live_until_ms: int | None
    due_ms: int | None
    is_hard: bool
    command: tuple[str, ...]
    cancel: tuple[str, ...]
    is_foreign_run: bool

    def is_overdue(self, now_ms: int) -> bool:
        """Return whether the plan is overdue at a time, unless its executor renews its lease."""
        is_free = self.is_hard or self.live_until_ms is None or now_ms > self.live_until_ms
        return self.state != "cancelled" and self.due_ms is not None and now_ms >= self.due_ms and is_free


@dataclass(frozen=True)
class PendingPlans:
    """Pending plans of all services.

    Attributes:
        count: their number.
        oldest: the oldest ones, at most `PLANS_READ`.
        newest_ms: newest time on the timeline, in ms since 1970: ages are counted by this or by the clock, whichever is later.
    """

    count: int
    oldest: tuple[PendingPlan, ...]
    newest_ms: int


LeaseOf = Callable[[str], Lease | None]


def pending_plans(session: Session, state: TableState, lease_of: LeaseOf) -> PendingPlans:
    """Return the number of pending plans, and the facts of the oldest ones.

    Args:
        session: of this process.
        state: of the table.
        lease_of: returns the lease of an instant.
    """
    plans = [one for one in state.timeline.pending if one.action in SERVICE_ACTIONS]
    oldest = plans[:PLANS_READ]
    # The queue shows the cancels that are not executed yet, in one call for all plans.
    queued = {info.name for info in session.ctx.storage.list_folder(QUEUE).files} if oldest else set()
    return PendingPlans(
        len(plans),
        tuple(_described(session, state, one, queued, lease_of(one.time)) for one in oldest),
        time_of(state, state.timeline.newest_time) or 0,
    )


def _described(
    session: Session, state: TableState, plan: Instant, queued: Collection[str], lease: Lease | None
) -> PendingPlan:
    entry = pending_plan_entry(session.ctx.storage, state, plan.time)
    is_live = lease is not None and not lease.is_dead(session.ctx.clock)
    is_begun = len(plan.states) > 1
    is_foreign_run = has_foreign_executor(plan, lease)
    planned_ms = time_of(state, plan.time) or 0  # a name that is no calendar time is older than any
    due = None
    if entry is not None and entry.cancellable and plan.action in REWRITING_ACTIONS:
        due = due_ms(policy_of(entry), planned_ms, instants_since(state, plan), is_begun=is_begun)
    is_cancelled = cancel_of(state.log.fate(plan.time)) is not None or plan.time in queued
    words = words_of_plan(session.ctx.storage, state, plan, is_ours=entry is not None)
    is_forced = entry is None or not entry.cancellable or is_foreign_run
    return PendingPlan(
        plan.time,
        plan.action,
        planned_ms,
        "cancelled" if is_cancelled else "running" if is_live else "left" if is_begun else "planned",
        executor_of(lease),
        lease.expires_ms if lease is not None and is_live else None,
        due,
        session.upkeep.cancel is not None and session.upkeep.cancel.hard,
        (*words, "--abandoned") if words and is_foreign_run and words[0] != "rollback" else words,
        ("cancel", "TABLE", plan.time, *(("--force",) if is_forced and not is_cancelled else ())),
        is_foreign_run,
    )


def time_of(state: TableState, instant: str) -> int | None:
    """Return the time of an instant in ms since 1970; None: its name is no calendar time."""
    try:
        return ms_of_instant(instant, state.zone)
    except InvalidRequest:
        return None

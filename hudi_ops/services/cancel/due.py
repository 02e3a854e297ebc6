"""Decide whether a plan is overdue.

Source: docs/protocol §26, step 6.
"""

from __future__ import annotations

import math

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.concurrency.lease.own_clock import storage_ms
from hudi_ops.timeline.cancel.policy import CancelPolicy, said_hours
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Plan
from hudi_ops.timeline.log.plan_slots import newest_takeover, plan_entry
from hudi_ops.timeline.names import REWRITING_ACTIONS, ms_of_instant
from hudi_ops.timeline.state import TableState

HOUR_MS = 3_600_000


def policy_of(entry: Plan) -> CancelPolicy:
    """Return the cancel policy in a PLAN entry."""
    hours, instants = entry.cancel_after_hours, entry.cancel_after_instants
    return CancelPolicy(entry.cancellable, hours, instants, entry.on_overlap, entry.cancel_wait_s)


def due_ms(policy: CancelPolicy, planned_ms: int, since: int, *, is_begun: bool) -> int | None:
    """Return the time from which a plan without a live executor is overdue; None: never.

    Args:
        policy: of the plan.
        planned_ms: time of the plan. This and the result are in ms since 1970.
        since: number of instants on the timeline that were requested after it.
        is_begun: it has a TAKEOVER. Without one it is not overdue before it is as old as an expired lease (`EXPIRY_MS`).
    """
    least_ms = 0 if is_begun else EXPIRY_MS
    if policy.instants is not None and since >= policy.instants:
        return planned_ms + least_ms
    if policy.hours is not None:
        return planned_ms + max(math.ceil(policy.hours * HOUR_MS), least_ms)
    return None


def instants_since(state: TableState, plan: Instant) -> int:
    """Return the number of instants on the timeline that were requested after a plan."""
    return sum(time > plan.time for time in state.timeline.by_time)


def why_overdue(session: Session, state: TableState, plan: Instant, *, asks_storage: bool = False) -> str:
    """Return why a plan is overdue; empty if it is not.

    Its age is counted in the table's own times. Where these stand still, it is counted by this machine's clock, and with
    `asks_storage` by the storage's as well: the smaller age counts, so that one wrong clock cancels nothing.
    """
    storage = session.ctx.storage
    entry = plan_entry(storage, state, plan.time) if plan.action in REWRITING_ACTIONS else None
    if entry is None or not entry.cancellable or session.was_cancelled(state, plan.time):
        return ""
    lease = read_lease(storage, plan.time)
    is_hard = session.upkeep.cancel is not None and session.upkeep.cancel.hard
    if not is_hard and lease is not None and not lease.is_dead(session.ctx.clock):
        return ""
    policy, planned_ms = policy_of(entry), ms_of_instant(plan.time, state.zone)
    since = instants_since(state, plan)
    due = due_ms(policy, planned_ms, since, is_begun=newest_takeover(storage, state, plan.time) is not None)

    def why(now_ms: int) -> str:
        age_ms = now_ms - planned_ms
        if due is None or now_ms < due:
            return ""
        if policy.hours is not None and age_ms >= policy.hours * HOUR_MS:
            age = f"{age_ms / HOUR_MS:.1f} h" if age_ms >= HOUR_MS else f"{age_ms // 60_000} min"
            return f"it is overdue: planned {age} ago, limit {said_hours(policy.hours)}"
        return f"it is overdue: {since} instants came after it, limit {policy.instants}"

    now_ms = session.ctx.clock.now_ms()
    found = why(ms_of_instant(state.timeline.newest_time, state.zone))
    if found or not why(now_ms):
        return found
    return why(min(now_ms, storage_ms(storage) or 0) if asks_storage else now_ms)

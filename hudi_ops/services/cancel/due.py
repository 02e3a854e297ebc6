"""Decide whether a plan is overdue.

Source: docs/protocol.md §26, step 6.
"""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.concurrency.lease.own_clock import storage_ms
from hudi_ops.timeline.cancel.policy import CancelPolicy, said_hours
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Plan
from hudi_ops.timeline.log.plan_slots import newest_takeover, plan_entry
from hudi_ops.timeline.names import REWRITING_ACTIONS, ms_of_instant
from hudi_ops.timeline.state import TableState


def policy_of(entry: Plan) -> CancelPolicy:
    """Return the cancel policy in a PLAN entry."""
    hours, instants = entry.cancel_after_hours, entry.cancel_after_instants
    return CancelPolicy(entry.cancellable, hours, instants, entry.on_overlap, entry.cancel_wait_s)


def why_overdue(session: Session, state: TableState, plan: Instant, *, asks_storage: bool = False) -> str:
    """Return why a plan is overdue; empty if it is not.

    Its age is counted in the table's own times. Where these stand still, it is counted by this machine's clock, and with
    `asks_storage` by the storage's as well: the smaller age counts, so that one wrong clock cancels nothing. A plan without a
    TAKEOVER is not overdue before it is as old as an expired lease (`EXPIRY_MS`).
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
    is_begun = newest_takeover(storage, state, plan.time) is not None
    since = sum(time > plan.time for time in state.timeline.by_time)

    def why(now_ms: int) -> str:
        age_ms = now_ms - planned_ms
        if age_ms < EXPIRY_MS and not is_begun:
            return ""
        if policy.hours is not None and age_ms >= policy.hours * 3_600_000:
            age = f"{age_ms / 3_600_000:.1f} h" if age_ms >= 3_600_000 else f"{age_ms // 60_000} min"
            return f"it is overdue: planned {age} ago, limit {said_hours(policy.hours)}"
        if policy.instants is not None and since >= policy.instants:
            return f"it is overdue: {since} instants came after it, limit {policy.instants}"
        return ""

    now_ms = session.ctx.clock.now_ms()
    found = why(ms_of_instant(state.timeline.newest_time, state.zone))
    if found or not why(now_ms):
        return found
    return why(min(now_ms, storage_ms(storage) or 0) if asks_storage else now_ms)

"""Find the pending plans that a new plan may cancel, from the metadata of commits and plans."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.timeline.state import TableState


def outranked(session: Session, state: TableState, action: str, *, reach_back: bool = False) -> dict[str, Contender]:
    """Return the pending plans that a plan of `action` may cancel, by instant.

    They are cancellable, and of services with a lower priority (RFC-79). With `reach_back`, older slots are read, too, to find the
    publishers of plans. Call it so before the lock is taken; under the lock the publishers are then known. Source: docs/protocol
    §26, step 11.
    """
    settings = session.conflicts
    if not any(settings.outranks(action, plan.action) for plan in state.timeline.pending):
        return {}
    plans = session.contenders.plans(state, Contender("", action, None, "service"), reach_back=reach_back)
    return {
        plan.instant: plan
        for plan in plans
        if settings.outranks(action, plan.action) and plan.is_cancellable and not plan.is_cancelled
    }

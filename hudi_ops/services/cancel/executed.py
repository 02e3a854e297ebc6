"""Cancel the plan that a process executes, before the process is stopped.

Source: docs/protocol §26.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.context import Owner
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.result import Result
from hudi_ops.services.cancel.request import request_cancel
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import SERVICE_ACTIONS


@dataclass(frozen=True)
class Stopped(Result):
    """What a stop did to the plans of a process.

    Attributes:
        table: name of the table.
        cancelled: instants of the plans whose cancel is decided.
        kept: instants of the other plans, with the reason why they stay.
    """

    table: str
    cancelled: tuple[str, ...] = ()
    kept: dict[str, str] = field(default_factory=dict)


def cancel_executed(session: Session, owner: Owner | None, reason: CancelReason, instant: str | None = None) -> Stopped:
    """Request the cancel of the plans that a process executes.

    Plans that are not cancellable stay, and the result says why.

    Args:
        session: of the calling process.
        owner: the executing process; None: it has not begun.
        reason: why, and who asks.
        instant: the plan that the process was to execute; it is cancelled, too, unless another process executes it.

    Raises:
        Unsupported: the table cannot be written.
        Busy: the lock was not free in time.
    """
    state = session.loader.load()
    cancelled, kept = [], {}
    for plan in state.timeline.pending:
        if plan.action not in SERVICE_ACTIONS or not _is_executed(session, plan, owner, instant):
            continue
        try:
            request_cancel(session, plan.time, reason)
            cancelled.append(plan.time)
        except InvalidRequest as error:
            # It is not cancellable, or it completed after the state was read.
            kept[plan.time] = error.what
    return Stopped(state.config.name, tuple(cancelled), kept)


def _is_executed(session: Session, plan: Instant, owner: Owner | None, instant: str | None) -> bool:
    """Return whether the process executes a plan, or is the next one to execute it."""
    lease = read_lease(session.ctx.storage, plan.time)
    if lease is not None and owner is not None and lease.role == "execute" and lease.owner == owner:
        return True
    return plan.time == instant and (lease is None or lease.is_dead(session.ctx.clock))

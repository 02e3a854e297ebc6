"""Take a plan off the timeline before its CANCEL, where Apache Hudi may execute it.

Apache Hudi does not look at CANCELs. Its executor checks that the requested file exists, then puts the inflight file. So under the
table lock the requested file goes first; an inflight file that appears after that ends the withdrawal, and the plan stays.

A crash before the CANCEL leaves the queue file, by which a clean finishes the withdrawal. An inflight file without its requested
file makes the table unreadable for Apache Hudi (docs/format.md §2.3); the next recovery puts the requested file back.

Source: docs/protocol.md §26.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.errors import Busy, NotFound
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.cancel.aborted import queue_cancel, queue_path
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.plan_slots import newest_takeover, plan_entry
from hudi_ops.timeline.names import State, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

FOREIGN_STEP_S = 1.0
"""Time that a foreign executor may take between its check of the requested file and its inflight file; two storage calls."""


def withdraw(session: Session, state: TableState, instant: str, slot: int, still_mine: Callable[[], bool]) -> None:
    """Remove the requested file of a plan that no process began.

    Requires the table lock; without it, as `still_mine` tells, nothing is changed. Nor does a second call after a lost slot change
    anything. `slot` is that of the CANCEL to come.

    Raises:
        Busy: a program began to execute it, or completed it; the requested file is where it was.
    """
    storage = session.ctx.storage
    plan = _as_listed(session, state, instant)
    if plan is None or not still_mine():
        return
    _refuse_begun(state, plan)
    path = state.timeline.path(requested_name(instant, plan.action))
    body = storage.get(path)
    queue_cancel(storage, state.log.table_id, instant, slot)
    storage.delete(path)
    session.ctx.clock.sleep_s(FOREIGN_STEP_S)
    if (begun := _as_listed(session, state, instant)) is not None:
        ensure(storage, path, body)
        storage.delete(queue_path(instant))
        _refuse_begun(state, begun)
    logger.info("took plan %s off the timeline before its CANCEL: Apache Hudi writes to the table too", instant)


def may_withdraw(session: Session, state: TableState, instant: str) -> bool:
    """Return whether a plan is withdrawn before its CANCEL.

    It is if it is ours, not begun, and Apache Hudi writes to the table.
    """
    storage = session.ctx.storage
    if not has_foreign_writers(storage, session.commits, state):
        return False
    return plan_entry(storage, state, instant) is not None and newest_takeover(storage, state, instant) is None


def put_requested_back(session: Session, state: TableState, plan: Instant) -> None:
    """Put back the requested file of a plan that a foreign program began amid its withdrawal."""
    storage = session.ctx.storage
    entry = plan_entry(storage, state, plan.time)
    if entry is None or session.was_cancelled(state, plan.time):
        return
    try:
        body = storage.get(entry.payload)
    except NotFound:
        return  # it ended meanwhile
    logger.warning("put back the requested file of %s, which a foreign program began", plan)
    ensure(storage, state.timeline.path(requested_name(plan.time, plan.action)), body)


def _as_listed(session: Session, state: TableState, instant: str) -> Instant | None:
    return session.loader.relist(state).timeline.find(instant)


def _refuse_begun(state: TableState, plan: Instant) -> None:
    """Refuse to withdraw a plan that a program began.

    Raises:
        Busy: the plan is not only requested.
    """
    if plan.states == {State.REQUESTED}:
        return
    raise Busy(
        f"another program began to execute this {plan.action}, and does not look at cancels",
        table=state.config.name,
        instant=plan.time,
        expected="a plan that no program executes",
        found="a completed file" if plan.is_completed else "an inflight file without a heartbeat",
        next_step="let it finish, then run the same call again",
        other=plan.time,
    )

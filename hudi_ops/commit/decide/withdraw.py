"""Take plans off the timeline before their CANCELs, if Apache Hudi may execute them.

Apache Hudi does not read CANCELs. Its executor checks that the requested file exists, then puts the inflight file. So under the
table lock the requested file is deleted first; if an inflight file appears after that, the withdrawal ends and the plan stays.

An error before the CANCEL puts the requested file back. A process that dies leaves the queue file: the next write, clean or cancel
puts the requested file back, and withdraws the plan again if it ends it. An inflight file without its requested file makes the
table unreadable for Apache Hudi (docs/format §2.3).

Source: docs/protocol §26.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from hudi_ops.commit.checks import was_completed
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.errors import Busy, NotFound
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.cancel.aborted import QUEUE, queue_cancel, queue_path
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.plan_slots import newest_takeover, plan_entry
from hudi_ops.timeline.names import State, is_instant, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

FOREIGN_STEP_S = 1.0
"""Time in seconds that a foreign executor may take from its check of the requested file to its inflight file: two storage calls."""


def withdraw(
    session: Session, state: TableState, instants: Sequence[str], slot: int, still_mine: Callable[[], bool]
) -> bool:
    """Remove the requested files of plans that no process began; return False without the lock.

    Requires the table lock. Plans that are not on the timeline are skipped.

    Args:
        session: session of this process.
        state: state as of the decision.
        instants: instants of the plans.
        slot: slot of the first CANCEL to come.
        still_mine: returns whether the lock is still held.

    Raises:
        Busy: a program began to execute a plan, or completed it; all requested files are put back.
    """
    storage = session.ctx.storage
    timeline = session.loader.relist(state).timeline
    plans = [plan for instant in instants if (plan := timeline.find(instant)) is not None]
    for plan in plans:
        _refuse_foreign_execution(state, plan)
    bodies = {timeline.path(requested_name(plan.time, plan.action)): plan for plan in plans}
    held = {path: storage.get(path) for path in bodies}
    if not still_mine():
        return False
    try:
        for path, plan in bodies.items():
            queue_cancel(storage, state.log.table_id, plan.time, slot)
            remove_paths(storage, Reason.WITHDRAWN, [path])
        if plans:
            session.ctx.clock.sleep_s(FOREIGN_STEP_S)
        timeline = session.loader.relist(state).timeline
        for plan in plans:
            if (begun := timeline.find(plan.time)) is not None:
                _refuse_foreign_execution(state, begun)
    except BaseException:
        # The lock is released after this, so other writers must see these plans again.
        for path, body in held.items():
            ensure(storage, path, body)
            remove_paths(storage, Reason.NOT_CANCELLED, [queue_path(bodies[path].time)])
        raise
    if plans:
        logger.info(
            "took plans %s off the timeline before their CANCELs: Apache Hudi writes to the table too", instants
        )
    return True


def may_withdraw(session: Session, state: TableState, plan: Instant) -> bool:
    """Return whether a plan is withdrawn before its CANCEL.

    It is if it is ours, not begun, and Apache Hudi writes to the table.
    """
    storage = session.ctx.storage
    if State.INFLIGHT in plan.states or not has_foreign_writers(storage, session.commits, state):
        return False
    return plan_entry(storage, state, plan.time) is not None and newest_takeover(storage, state, plan.time) is None


def put_back_plans(session: Session, state: TableState, own: Collection[str] = ()) -> bool:
    """Put back the requested files of plans whose canceller died; return whether there were any.

    Requires the table lock: no other process is withdrawing then. `own` are the plans that this decision withdrew. Costs one
    listing of the queue.
    """
    storage, has_any = session.ctx.storage, False
    for info in storage.list_folder(QUEUE).files:
        if info.name not in own and (body := find_withdrawn(session, state, info.name)) is not None:
            plan, requested = body
            ensure(storage, state.timeline.path(requested_name(plan.time, plan.action)), requested)
            remove_paths(storage, Reason.NOT_CANCELLED, [info.path])
            logger.warning("put back the requested file of %s, which a dead process took off the timeline", plan)
            has_any = True
    return has_any


def find_withdrawn(session: Session, state: TableState, instant: str) -> tuple[Instant, bytes] | None:
    """Return a plan of ours that a dead canceller withdrew, and its requested bytes."""
    found = state.timeline.find(instant) if is_instant(instant) else None
    is_whole = found is not None and State.REQUESTED in found.states
    if is_whole or not is_instant(instant) or session.was_cancelled(state, instant):
        return None
    entry = plan_entry(session.ctx.storage, state, instant)
    if entry is None or fate_of(session.ctx.storage, state, instant) is not None:
        return None
    if found is None and was_completed(session, state, instant):
        return None  # a foreign program completed and archived it
    try:
        return found or Instant(instant, entry.action, State.REQUESTED), session.ctx.storage.get(entry.payload)
    except NotFound:
        return None  # another process removed the plan and its payload since


def lock_and_put_back(session: Session, state: TableState) -> bool:
    """Put back plans that dead cancellers withdrew, under the lock; return whether any were.

    Without a queue file the lock is not taken.
    """
    names = [info.name for info in session.ctx.storage.list_folder(QUEUE).files]
    if not any(find_withdrawn(session, state, name) is not None for name in names):
        return False
    with hold_lock(session.ctx, "put back withdrawn plans"):
        return put_back_plans(session, session.finish_decided())


def _refuse_foreign_execution(state: TableState, plan: Instant) -> None:
    """Refuse to withdraw a plan that another program began or completed.

    Raises:
        Busy: the plan has an inflight or a completed file.
    """
    if plan.states == {State.REQUESTED}:
        return
    raise Busy(
        f"another program began to execute this {plan.action}, and does not look at cancels",
        table=state.config.name,
        instant=plan.time,
        expected="a plan that no program executes",
        found="its completed file" if plan.is_completed else "its inflight file, without a heartbeat",
        next_step="let it finish, then run the same call again",
        other=plan.time,
    )

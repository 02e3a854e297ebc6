"""What every writer does first: finish what was decided, and clear away what dead attempts left.

Only attempts whose lease is dead are touched: its process has ended, or its last beat is too old. A live one is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from hudi_ops.concurrency.lease import Lease, list_leases, read_lease
from hudi_ops.concurrency.locks import LockProvider
from hudi_ops.concurrency.markers import marked_instants
from hudi_ops.concurrency.transaction import unfinished
from hudi_ops.services.boundary import clear_archived
from hudi_ops.services.rollback import cancel_write, clear_risen, roll_back, undo_files
from hudi_ops.services.session import Session
from hudi_ops.timeline.commit_log import payload_folder
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State
from hudi_ops.timeline.plans import RollbackPlan, read_plan
from hudi_ops.timeline.rollbacks import targets_of
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

TEMP_AGE_MS = 24 * 3600 * 1000
"""Age from which the half of a put is nobody's: no put takes a day."""

_INGESTION = frozenset({"commit", "deltacommit", "replacecommit"})
"""What a write is while it is pending. A clustering is pending as `clustering`; what has no lease of ours is left alone."""


def recover(session: Session) -> list[str]:
    """Bring the table into a state to start from.

    Returns:
        Request times of the dead writes that were rolled back.
    """
    # Before the state: a dead lease without an instant on the timeline is then of an attempt that never got there.
    dead = _dead_leases(session)
    state = finish_unfinished(session)
    if clear_archived(session, state):
        state = session.loader.load()
    undone = _finish_rollbacks(session, state)
    if undone:
        state = session.loader.load()
    for instant in state.timeline.pending:
        if instant.action not in _INGESTION:
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        if lease is None:
            _clear_if_cancelled(session, state, instant.time)
        elif _is_ours_and_dead(session, lease) and cancel_write(session, instant.time, "its writer is gone"):
            undone += [instant.time] if roll_back(session, instant) else []
    _sweep(session, session.loader.load() if undone else state, dead)
    return undone


def finish_unfinished(session: Session) -> TableState:
    """Apply completions that were decided and are not on the timeline yet; returns the state after it."""
    state = session.loader.load()
    if unfinished(state) is None:
        return state
    with cast(LockProvider, session.ctx.locks).acquire(session.ctx.lock_timeout_s, "finish decided instants"):
        return session.finish_decided()


def _clear_if_cancelled(session: Session, state: TableState, instant: str) -> None:
    # A sleeper that wakes up after its rollback may leave an inflight without its requested, which makes the whole table unreadable
    # for Apache Hudi (docs/format.md §2.3). Pending writes without a lease that no slot names are other programs', and stay.
    if session.was_cancelled(state, instant):
        clear_risen(session, state, instant)


def _finish_rollbacks(session: Session, state: TableState) -> list[str]:
    """Resume rollbacks whose executor died; their target may be off the timeline already."""
    undone = []
    for instant in state.timeline.pending:
        if instant.action != "rollback":
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        if lease is None or not _is_ours_and_dead(session, lease):
            continue
        for target in targets_of(session.ctx.storage, state.timeline, instant):
            found = state.timeline.find(target) or Instant(target, _action_of(session, state, instant), State.INFLIGHT)
            # The target was cancelled before its rollback was begun; a crash in between leaves only the CANCEL.
            if not found.is_completed and roll_back(session, found):
                undone.append(target)
    return undone


def _action_of(session: Session, state: TableState, rollback: Instant) -> str:
    """What its target was, once that is off the timeline: its plan remembers."""
    plan = read_plan(session.ctx.storage, state.timeline, rollback)
    return plan.target_action if isinstance(plan, RollbackPlan) else state.config.completed_write_action


def _is_ours_and_dead(session: Session, lease: Lease) -> bool:
    return lease.owner is not None and lease.is_dead(session.ctx.clock)


def _dead_leases(session: Session) -> list[str]:
    """Instants whose lease is of ours and dead, as of now."""
    leases = ((time, read_lease(session.ctx.storage, time)) for time in list_leases(session.ctx.storage))
    return [time for time, lease in leases if lease is not None and _is_ours_and_dead(session, lease)]


def _clear_unborn(session: Session, state: TableState, instant: str) -> None:
    """Clear what was left of an instant that is not on the timeline: a plan's bytes, for one, put before its slot was claimed."""
    if session.ctx.storage.list(payload_folder(instant)) and not session.has_fate(state, instant):
        # Its planner may sleep right before the claim, and a slot must not name bytes that are gone.
        if not cancel_write(session, instant, "its planner is gone"):
            return
        undo_files(session, instant)
    session.settle(instant)


def _sweep(session: Session, state: TableState, dead: Sequence[str]) -> None:
    """Drop leases and markers of instants that are settled, or that never reached the timeline.

    Args:
        session: the table's.
        state: read after `dead` was.
        dead: instants whose lease was dead.
    """
    known = {instant.time: instant for instant in state.timeline}
    for time in dead:
        instant = known.get(time)
        if instant is None:
            _clear_unborn(session, state, time)
        elif instant.is_completed:
            session.settle(time)
    session.ctx.storage.sweep_temp(TEMP_AGE_MS, session.ctx.clock.now_ms())
    for time in marked_instants(session.ctx.storage):
        # A task that outlived its cancelled attempt announced, and perhaps wrote, another file.
        if time in known or read_lease(session.ctx.storage, time) is not None:
            continue
        if session.was_cancelled(state, time):
            clear_risen(session, state, time)

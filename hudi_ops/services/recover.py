"""What every writer does first: finish what was decided, and clear away what dead attempts left.

Only attempts whose lease is dead are touched: its process has ended, or its last beat is too old. A live one is left alone.
"""

from __future__ import annotations

import logging
from typing import cast

from hudi_ops.concurrency.lease import drop_lease, list_leases, read_lease
from hudi_ops.concurrency.locks import LockProvider
from hudi_ops.concurrency.markers import delete_markers
from hudi_ops.concurrency.transaction import unfinished
from hudi_ops.services.rollback import cancel_write, roll_back, rollback_target
from hudi_ops.services.session import Session
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

_INGESTION = frozenset({"commit", "deltacommit"})


def recover(session: Session) -> list[str]:
    """Bring the table into a state to start from.

    Returns:
        Request times of the dead writes that were rolled back.
    """
    state = session.loader.load()
    if unfinished(state) is not None:
        with cast(LockProvider, session.ctx.locks).acquire(session.ctx.lock_timeout_s, "finish decided instants"):
            state = session.finish_decided()
    _remove_lone_inflights(session, state)
    undone = _finish_rollbacks(session, state)
    for instant in session.loader.load().timeline.pending:
        is_dead = instant.action in _INGESTION and _is_ours_and_dead(session, instant.time)
        if is_dead and cancel_write(session, instant.time, "its writer is gone"):
            roll_back(session, instant)
            undone.append(instant.time)
    _sweep_leases(session)
    return undone


def _remove_lone_inflights(session: Session, state: TableState) -> None:
    # An inflight without its requested makes the whole table unreadable for Apache Hudi (fact 13). It is what a rollback leaves
    # that died between the two deletes of one that undid things in the wrong order, or a sleeper that woke up.
    for instant in state.timeline.pending:
        if instant.states == {State.INFLIGHT} and _is_ours_and_dead(session, instant.time):
            session.ctx.storage.delete(state.timeline.path(instant.file_name))


def _finish_rollbacks(session: Session, state: TableState) -> list[str]:
    """Resume rollbacks whose executor died; their target may be off the timeline already."""
    undone = []
    for instant in state.timeline.pending:
        if instant.action != "rollback" or not _is_ours_and_dead(session, instant.time):
            continue
        target = rollback_target(session, state, instant)
        found = state.timeline.find(target) or Instant(target, state.config.completed_write_action, State.INFLIGHT)
        # The target was cancelled before its rollback was begun; a crash in between leaves only the CANCEL.
        if target and not found.is_completed:
            roll_back(session, found)
            undone.append(target)
    return undone


def _is_ours_and_dead(session: Session, instant: str) -> bool:
    lease = read_lease(session.ctx.storage, instant)
    return lease is not None and lease.owner is not None and lease.is_dead(session.ctx.clock)


def _sweep_leases(session: Session) -> None:
    """Drop leases and markers of instants that are settled, or that never reached the timeline."""
    known = {instant.time: instant for instant in session.loader.load().timeline}
    for time in list_leases(session.ctx.storage):
        instant = known.get(time)
        if (instant is None or instant.is_completed) and _is_ours_and_dead(session, time):
            delete_markers(session.ctx.storage, time)
            drop_lease(session.ctx, time)

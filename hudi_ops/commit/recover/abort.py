"""Record a cancelled plan while it leaves the timeline (RFC-79, `execute_cancel`).

`commit.recover.rollback` deletes the data files. The record `.aborted` is put before the inflight and the requested file are
deleted, so that a plan is always pending or aborted. The queue file goes last. Any process can repeat any step.
"""

from __future__ import annotations

import logging
from typing import Any

from hudi_ops.commit.owned.find import resize_of
from hudi_ops.commit.owned.kinds import Reason, Removal
from hudi_ops.commit.owned.remove import remove, remove_paths
from hudi_ops.commit.recover.index_builds import remove_index_build
from hudi_ops.commit.recover.sweep import release_rolled_back
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.concurrency.markers import FOLDER as MARKERS
from hudi_ops.errors import NotFound
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.cancel.aborted import AbortedPlan, aborted_path, mark_swept, queue_path
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Takeover, cancel_of
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.log.plan_slots import plan_entry
from hudi_ops.timeline.names import REWRITING_ACTIONS, SERVICE_ACTIONS, State, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


def epochs_of(session: Session, state: TableState, instant: str) -> tuple[int, ...]:
    """Return the epochs of all TAKEOVERs of an instant, in order."""
    known = reaching_back(session.ctx.storage, state.log, instant)
    return tuple(entry.epoch for _, entry in known.own if isinstance(entry, Takeover) and entry.instant == instant)


def may_have_files(session: Session, state: TableState, plan: Instant) -> bool:
    """Return whether files of a cancelled plan may exist.

    After the CANCEL no hudi_ops process begins the plan. But for a resize writers put files under its instant before it is begun.
    """
    if plan.action not in REWRITING_ACTIONS:
        return False
    if resize_of(session, state, plan.time) is not None:
        return True
    if State.INFLIGHT in plan.states or epochs_of(session, state, plan.time):
        return True
    folder = session.ctx.storage.list_folder(f"{MARKERS}/{plan.time}")
    return bool(folder.files or folder.folders)


def remove_plan(session: Session, state: TableState, plan: Instant) -> None:
    """Abort a plan without data files; it gets no rollback instant."""
    record_aborted(session, state, plan)
    if plan.action == "indexing":
        remove_index_build(session, state, plan)
    remove(Removal(session, state, plan, Reason.CANCELLED, data_files=()))
    release_aborted(session, state, plan)
    logger.warning("removed the cancelled %s %s from the timeline", plan.action, plan.time)


def record_aborted(session: Session, state: TableState, plan: Instant, **facts: Any) -> None:
    """Put the record of a cancelled plan before it leaves the timeline; the first one stays."""
    storage = session.ctx.storage
    fate = fate_of(storage, state, plan.time)
    if fate is None or (cancel := cancel_of(fate)) is None:
        return  # callers cancel the plan first (`refuse_uncancelled`)
    try:
        body = storage.get(state.timeline.path(requested_name(plan.time, plan.action)))
    except NotFound:
        body = _published(session, state, plan)  # it was withdrawn; or a foreign writer, or another aborter, removed it
    record = AbortedPlan.of(plan, fate[0], cancel, body, epochs=epochs_of(session, state, plan.time), **facts)
    ensure(storage, aborted_path(state.timeline, plan), record.to_bytes())


def _published(session: Session, state: TableState, plan: Instant) -> bytes:
    """Return the bytes of a plan of ours from the payload of its PLAN; empty without one."""
    entry = plan_entry(session.ctx.storage, state, plan.time)
    try:
        return session.ctx.storage.get(entry.payload) if entry is not None else b""
    except NotFound:
        return b""


def release_aborted(session: Session, state: TableState, target: Instant) -> None:
    """Drop the lease of an undone instant; for a plan also delete the queue file.

    A second sweep for its files follows later, since a task that its executor stopped may not have ended. A plan that was never
    begun is marked as swept at once.
    """
    is_begun = State.INFLIGHT in target.states or bool(epochs_of(session, state, target.time))
    is_noted = release_rolled_back(session, target.time, is_late=is_begun and target.action in REWRITING_ACTIONS)
    if target.action not in SERVICE_ACTIONS:
        return
    with best_effort(target.time):
        if not is_noted:
            mark_swept(session.ctx.storage, state.timeline, target)
        remove_paths(session.ctx.storage, Reason.CANCELLED, [queue_path(target.time)])

"""Cancel overdue plans and remove cancelled ones; a clean does this first (RFC-79, "Clean").

Each cancel and each removal takes the lock for itself, so that writers wait for one decision at most.

Source: docs/protocol §26.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.commit.decide.withdraw import lock_and_put_back
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.recover.rollback import record_withdrawn
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.errors import Busy, InvalidRequest, NotFound
from hudi_ops.services.base.result import EndedPlans
from hudi_ops.services.cancel.abort import execute_cancel
from hudi_ops.services.cancel.due import why_overdue
from hudi_ops.services.cancel.request import request_cancel
from hudi_ops.timeline.cancel.aborted import QUEUE
from hudi_ops.timeline.names import SERVICE_ACTIONS, is_instant
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

PLANS_MAX = 50
"""Most plans that one call cancels or removes; the next call goes on."""


@dataclass(frozen=True, kw_only=True)
class OverdueResult(EndedPlans):
    """What a call did to overdue and cancelled plans.

    Attributes:
        table: name of the table.
        dry_run: these are the plans that a call would cancel and remove, and nothing was changed.
        note: that there was nothing to do.
    """

    table: str
    dry_run: bool = False
    note: str = ""


def preview_overdue(session: Session, state: TableState | None = None) -> OverdueResult:
    """Return what `cancel_overdue` would do, now or in a given state; change nothing.

    Raises:
        Unsupported: the table cannot be read.
    """
    state = state or session.loader.load()
    cancelled: list[str] = []
    removed: list[str] = []
    waiting: list[str] = []
    for plan in (one for one in state.timeline.pending if one.action in SERVICE_ACTIONS):
        if len({*cancelled, *removed, *waiting}) >= PLANS_MAX:
            break
        if why_overdue(session, state, plan):
            cancelled.append(plan.time)
        elif not session.was_cancelled(state, plan.time):
            continue
        lease = read_lease(session.ctx.storage, plan.time)
        (removed if lease is None or lease.is_dead(session.ctx.clock) else waiting).append(plan.time)
    return _result(state, cancelled, removed, waiting, dry_run=True)


def cancel_overdue(session: Session) -> OverdueResult:
    """Cancel overdue plans without a live executor, remove cancelled plans, and tidy the queue.

    With the table's setting `cancel.hard`, overdue plans with a live executor are cancelled, too; the executor stops at its next
    check.

    Raises:
        Unsupported: the table cannot be written.
    """
    state = session.loader.load()
    plans = [one for one in state.timeline.pending if one.action in SERVICE_ACTIONS]
    cancelled: list[str] = []
    removed: list[str] = []
    waiting: list[str] = []
    for plan in plans:
        if len({*cancelled, *removed, *waiting}) >= PLANS_MAX:
            break
        try:
            if why := why_overdue(session, state, plan, asks_storage=True):
                request_cancel(session, plan.time, CancelReason(why, "policy"))
                cancelled.append(plan.time)
            if plan.time in cancelled or session.was_cancelled(state, plan.time):
                execute_cancel(session, plan.time)
                removed.append(plan.time)
        except (Busy, InvalidRequest) as error:
            # It has a live executor, or it completed after the state was read.
            logger.info("plan %s stays: %s", plan.time, error)
            if plan.time in cancelled or session.was_cancelled(state, plan.time):
                waiting.append(plan.time)
    _tidy_queue(session)
    return _result(state, cancelled, removed, waiting)


def _result(
    state: TableState, cancelled: list[str], removed: list[str], waiting: list[str], *, dry_run: bool = False
) -> OverdueResult:
    note = "" if cancelled or removed or waiting else "no plan is overdue or cancelled"
    ended = tuple(cancelled), tuple(removed), tuple(waiting)
    return OverdueResult(*ended, table=state.config.name, dry_run=dry_run, note=note)


def _tidy_queue(session: Session) -> None:
    """Delete the queue files that show no pending cancel; record plans whose canceller died."""
    storage = session.ctx.storage
    files = storage.list_folder(QUEUE).files
    if not files:
        return
    state = session.loader.load()
    if lock_and_put_back(session, state):
        state = session.loader.load()
    left = []
    for info in files:
        try:
            is_ours = json.loads(storage.get(info.path))["table_id"] == state.log.table_id
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # reported by `verify`, never acted on
        except NotFound:
            continue  # another process deleted it
        if not is_ours or not is_instant(info.name):
            continue
        plan = state.timeline.find(info.name)
        if plan is None or plan.is_completed:
            record_withdrawn(session, state, info.name)
            remove_paths(storage, Reason.NOT_CANCELLED if plan else Reason.CANCELLED, [info.path])
        elif not session.was_cancelled(state, info.name):
            left.append(info.path)
    if left:
        with hold_lock(session.ctx, "tidy the queue of cancels"):  # no plan is being withdrawn now
            state = session.finish_decided()
            for path in left:
                instant = path.rpartition("/")[2]
                if state.timeline.find(instant) is not None and not session.was_cancelled(state, instant):
                    remove_paths(storage, Reason.NOT_CANCELLED, [path])

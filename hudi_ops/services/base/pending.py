"""Find the pending plan to execute, and refuse one that another process may be executing."""

from __future__ import annotations

from typing import Any

from hudi_ops.commit.decide.takeover import refuse_leased
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt_status import PLAN_AGAIN
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, Cancelled, Corrupt, InvalidRequest, Unsupported
from hudi_ops.services.base.service import REGISTRY, AnyService, PlannedService
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Complete, cancel_of
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState


def next_pending(
    session: Session, service: AnyService, state: TableState, *, abandoned: bool = False
) -> Instant | None:
    """Return the service's oldest pending plan without a live executor, or None without a plan.

    `abandoned` states that foreign executors, which leave no heartbeat, have ended.

    Raises:
        Busy: every plan has a live executor.
        InvalidRequest: Apache Hudi began the only plans and left no heartbeat.
    """
    refused: Busy | InvalidRequest | None = None
    for instant in state.timeline.pending:
        if instant.action != service.action or session.was_cancelled(state, instant.time):
            continue
        if kind_of(session, service, state, instant) != service.name:
            continue
        try:
            refuse_leased(session, state, read_lease(session.ctx.storage, instant.time), instant.time)
            if not abandoned:
                refuse_foreign_executor(session, service, state, instant.time)
        except (Busy, InvalidRequest) as error:
            refused = refused or error
            continue
        return instant
    if refused is not None:
        raise refused
    return None


def named_pending(session: Session, service: AnyService, state: TableState, instant: str) -> Instant:
    """Return the service's instant of that time, pending or completed.

    Raises:
        InvalidRequest: there is none.
        Unsupported: it is another service's.
        Cancelled: it was cancelled.
    """
    found = state.timeline.find(instant)
    if found is not None:
        kind = kind_of(session, service, state, found)
        if found.action == service.action and kind == service.name:
            return found
        if found.action != service.action and found.is_completed and service.is_own(session, state, found):
            return found
        other = REGISTRY.get(kind)
        raise Unsupported(
            f"{instant} is a {kind}, not a {service.name}",
            table=state.config.name,
            instant=instant,
            expected=f"a pending {service.name}",
            found=str(found),
            next_step=f"run `{other.command} TABLE execute --instant {instant}`"
            if other is not None and found.action == service.action
            else f"copy the instant of a {service.name} from `hudi-ops timeline`",
        )
    fate = fate_of(session.ctx.storage, state, instant)
    if (cancel := cancel_of(fate)) is not None:
        raise Cancelled(
            f"the {service.name} was cancelled: {cancel.reason}",
            table=state.config.name,
            instant=instant,
            next_step=PLAN_AGAIN,
            cause=cancel.cause,
        )
    undone = undone_by(session.ctx.storage, state.config, state.timeline, instant)
    if undone:
        raise Cancelled(
            f"the {service.name} was undone by {undone}",
            table=state.config.name,
            instant=instant,
            expected=f"the instant of a pending {service.name}",
            found=f"{undone}, of a foreign writer: Apache Hudi rolls expired plans back"
            if fate is None and undone.action == "rollback"
            else str(undone),
            next_step="plan again; `hudi-ops timeline TABLE` shows it",
            other=undone.time,
        )
    archived = any(archived.time == instant for archived in load_history(session.ctx.storage, state.config).instants)
    if archived or (fate is not None and isinstance(fate[1], Complete)):
        return Instant(instant, service.action, State.COMPLETED)
    raise InvalidRequest(
        f"no such {service.name}",
        table=state.config.name,
        instant=instant,
        expected=f"the instant of a pending {service.name}",
        found="no instant of that time on the timeline",
        next_step="copy an instant from `hudi-ops timeline`",
    )


def kind_of(session: Session, service: AnyService, state: TableState, instant: Instant) -> str:
    """Return the name of the kind of an instant, by its plan where kinds share the action.

    An instant whose plan cannot be read counts as of the kind that is named like the action.
    """
    if instant.action != service.action or type(service).is_kind is PlannedService.is_kind:
        return instant.action
    try:
        plan = read_plan(session.ctx.storage, state.timeline, instant)
    except Corrupt:
        return instant.action
    kinds = (kind for kind in (service, *REGISTRY.values()) if kind.action == instant.action)
    return next((kind.name for kind in kinds if kind.is_kind(plan)), f"{instant.action} of another kind")


def read_pending(session: Session, service: AnyService, state: TableState, instant: Instant) -> Any:
    """Return the decoded plan of a pending instant, of the service's `plan_type`.

    Raises:
        Cancelled: it was cancelled and removed after `state` was read.
        Corrupt: the requested file is empty, or holds another kind of plan.
    """
    plan = read_plan(session.ctx.storage, state.timeline, instant)
    if plan is None:
        now = session.loader.load()
        if now.timeline.find(instant.time, instant.action) is None:
            named_pending(session, service, now, instant.time)
    if not isinstance(plan, service.plan_type):
        raise Corrupt(
            f"a pending {service.name} without a plan",
            table=state.config.name,
            instant=instant.time,
            expected=f"a requested file that holds a plan of a {service.name}",
            found="no plan in it",
            next_step=cancel_advice(instant.time, service.action),
        )
    return plan


def cancel_advice(instant: str, action: str = "") -> str:
    """Return the advice for a plan that can never be executed.

    A clean, which is never cancelled, is rolled back.
    """
    command = f"rollback TABLE {instant}" if action == "clean" else f"cancel TABLE {instant} --force"
    return f"cancel the plan, which can never be executed: `hudi-ops {command}`; then plan again"


def refuse_foreign_executor(session: Session, service: AnyService, state: TableState, instant: str) -> None:
    """Refuse a plan that Apache Hudi has begun to execute.

    Its executors leave no heartbeat, so a live one cannot be told from a dead one. Our executors hold a lease while their inflight
    file exists.

    Raises:
        InvalidRequest: there is an inflight file and no lease.
    """
    found = state.timeline.find(instant, service.action)
    if found is None or State.INFLIGHT not in found.states or read_lease(session.ctx.storage, instant) is not None:
        return
    raise InvalidRequest(
        "Apache Hudi has begun to execute this plan and leaves no heartbeat, so it may still be running",
        table=state.config.name,
        instant=instant,
        expected="a plan without an inflight file, or the statement that its executor has ended",
        found="an inflight file without a heartbeat",
        next_step=f"once that program has ended: `{service.command} TABLE --instant {instant} --abandoned` (abandoned=True)",
    )

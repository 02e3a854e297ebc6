"""Plan a service of any kind: choose, publish under the lock, and retry after a conflict.

Source: docs/protocol §14.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hudi_ops.commit.recover.recover import finish_unfinished, recover
from hudi_ops.commit.session import Session
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.services.base.choice import Choice
from hudi_ops.services.base.pending import next_pending
from hudi_ops.services.base.publish import publish_plan
from hudi_ops.services.base.result import PlanResult
from hudi_ops.services.base.service import AnyService
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.kept import clear_view_source, view_source

TRIES_MAX = 3
"""Most tries to make a plan while other processes take everything that it chose."""


def preview(session: Session, service: AnyService, request: Any, state: TableState | None = None) -> PlanResult:
    """Return the plan that `plan` would publish, now or in a given state; change nothing.

    Raises:
        InvalidRequest: a wrong request, or a table that the service has no work on.
        Unsupported: the table cannot be written.
    """
    state = state or session.loader.load()
    service.refuse_table(state)
    ended = service.end_plans(session, (), state)
    if ended.removed:
        left = tuple(one for one in state.timeline if one.is_completed or one.time not in ended.removed)
        state = replace(state, timeline=replace(state.timeline, instants=left))
    clear_view_source(session.ctx.storage)
    result = _result(session, service, state, service.choose(session, state, request), dry_run=True)
    # The measures are of the whole table, whose view a plan for some partitions does not need.
    measures = {} if getattr(request, "partitions", ()) else dict(service.measures(session, state))
    return replace(result, ended_first=ended, measures=measures)


def plan(session: Session, service: AnyService, request: Any, *, waits: bool = True) -> PlanResult:
    """Publish a plan, if there is anything to plan.

    Args:
        session: of this process.
        service: which plans.
        request: what is planned.
        waits: the plan may wait for its execution; else the caller executes it at once.

    Raises:
        InvalidRequest: a wrong request, or a table that the service has no work on; nothing was changed.
        Unsupported: the table cannot be written, or the service cannot work on the only candidates; no plan exists.
        Conflict: others took everything that was chosen, `TRIES_MAX` times.
        Busy: the lock was not free in time, or a foreign write is pending without a heartbeat.
    """
    started_s = session.ctx.clock.monotonic_s()
    service.refuse_table(session.loader.load())
    ended = service.end_plans(session, [undone.instant for undone in recover(session)], None)
    session.memory.is_clean = False  # until a write has ended well
    clear_view_source(session.ctx.storage)
    for tried in range(TRIES_MAX):
        state = session.loader.load()
        session.silent.refuse(state)  # the plan could not be executed
        choice = service.choose(session, state, request)
        if waits:
            choice.leave_unfit_to_wait()
        if not choice.is_due:
            choice.refuse_nothing(state.config.name)
            break
        try:
            planned = publish_plan(session, service.action, service.draft(session, state, choice))
        except Conflict:
            if tried + 1 == TRIES_MAX:
                raise
            continue
        draft = planned.draft
        result = _result(session, service, state, draft.choice or choice)
        return replace(
            result,
            instant=planned.instant,
            log_files_added=draft.log_files_added,
            groups_dropped=draft.groups_dropped,
            ended_plans=session.memory.ended_plans,
            ended_first=ended,
            seconds=round(session.ctx.clock.monotonic_s() - started_s, 3),
        )
    result = _result(session, service, state, choice)
    return replace(result, ended_first=ended, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def left_plan(session: Session, service: AnyService, *, abandoned: bool = False) -> str | None:
    """Return the instant of the oldest pending plan without a live executor, or None."""
    try:
        # A plan that a dead process had decided is on the timeline only after `finish_unfinished`.
        found = next_pending(session, service, finish_unfinished(session), abandoned=abandoned)
    except (Busy, InvalidRequest):
        return None
    return found.time if found is not None else None


def left_plan_result(session: Session, service: AnyService, request: Any, instant: str) -> PlanResult:
    """Return the result of planning nothing, because a pending plan has no live executor."""
    note = f"{service.name} {instant} was planned before and has no live executor: it is executed first"
    choice = service.empty_choice(request)
    clear_view_source(session.ctx.storage)
    return replace(_result(session, service, session.loader.load(), choice), instant=instant, note=note)


def _result(
    session: Session, service: AnyService, state: TableState, choice: Choice, *, dry_run: bool = False
) -> PlanResult:
    return PlanResult(
        table=state.config.name,
        instant=None,
        strategy=choice.strategy.name,
        threshold=choice.threshold,
        note=choice.sentence(),
        verdicts=choice.verdicts(),
        counts=choice.counts(),
        estimate=service.estimate(choice, session.ctx.engine),
        dry_run=dry_run,
        view=view_source(session.ctx.storage),
    )

"""Execute a plan of any kind: take it over, run its tasks, complete it or release it.

At most one executor works on a plan: a TAKEOVER slot names it and gives it the epoch that its files carry. After a failure before
the decision the executor removes what it wrote and leaves the plan to the next one.

Source: docs/protocol §8, §14; docs/format §3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hudi_ops.commit.checks import refuse_unfit
from hudi_ops.commit.decide.cancel import CancelReason, cancel_write
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.decide.completion import Body, complete_action, landed
from hudi_ops.commit.decide.takeover import (
    clear_foreign_attempts,
    clear_foreign_delta,
    clear_older_epochs,
    clear_own_epoch,
    take_over,
)
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback import roll_back, rollback_attempt
from hudi_ops.commit.recover.sweep import release_completed
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.lease.monitor import LeaseMonitor, refuse_superseded
from hudi_ops.errors import (
    NOTHING_LANDED,
    Cancelled,
    Conflict,
    HudiOpsError,
    OutcomeUnknown,
    Overtaken,
    Unsupported,
)
from hudi_ops.services.base.engine import choose_by_bytes
from hudi_ops.services.base.pending import (
    Service,
    named_pending,
    next_pending,
    read_pending,
    refuse_foreign_executor,
)
from hudi_ops.services.base.plan import left_plan, plan
from hudi_ops.services.base.planned.leave_out import Waits, leave_out_touched
from hudi_ops.services.base.service import Execution, Run
from hudi_ops.services.base.waves import run_tasks
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import State, inflight_name, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

AnyRun = Run[Any, Any, Any, Any]


def execute(session: Session, service: Service, instant: str | None, how: Execution) -> Any:
    """Execute a plan, ours or a foreign one, and return the service's result.

    After a failure the same call continues; after success it changes nothing. Without an instant it executes the oldest plan
    without a live executor.

    Raises:
        InvalidRequest: there is no such plan, or Apache Hudi began it and `how.abandoned` is not set.
        Unsupported: the table cannot be written, or the plan is another service's.
        Busy: the plan has a live executor, or a foreign write is pending without a heartbeat.
        Cancelled: the plan was cancelled or taken over.
        Conflict: the plan cannot complete as it is; it stays.
        Corrupt: a file of the plan is damaged or gone; the plan stays.
        OutcomeUnknown: storage did not say whether it completed; the next write decides that.
    """
    started_s = session.ctx.clock.monotonic_s()
    refuse_unwritable(session.loader.load().config)
    recover(session)
    session.memory.is_clean = False  # until this call has ended well
    state = session.loader.load()
    found = (
        next_pending(session, service, state, abandoned=how.abandoned)
        if instant is None
        else named_pending(session, service, state, instant)
    )
    if found is None:
        return _nothing(service, state, None, f"no {service.name} is planned")
    if found.is_completed:
        return _nothing(service, state, found, "it was completed before")
    session.silent.refuse(state, found.time)

    service.refuse_plan(session, state, read_pending(session, service, state, found), found.time)

    def check(now: TableState) -> None:
        if not how.abandoned:
            refuse_foreign_executor(session, service, now, found.time)

    attempt = take_over(session, found.time, service.action, check)
    if attempt is None:
        state = session.loader.load()
        completed = state.timeline.find(found.time, service.action)
        return _nothing(service, state, completed, "it was completed before")
    try:
        run = _execute_taken(session, service, attempt, how)
    except Overtaken as overtaken:
        note = f"nothing completed: {overtaken.what}. The plan was cancelled; {overtaken.next_step}"
        return service.result_type(attempt.begun.config.name, attempt.instant, note=note)
    if run is None:
        state = session.loader.load()
        completed = state.timeline.find(found.time, service.action)
        return _nothing(service, state, completed, "another program completed it first")
    return replace(service.result(run), seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def plan_and_execute(
    session: Session, service: Service, request: Any, how: Execution, instant: str | None = None
) -> Any:
    """Execute the named plan, or one without a live executor; else make a plan and execute it.

    Raises:
        Unsupported: as `plan` and `execute`; the plan that this call made is cancelled.
    """
    instant = instant or left_plan(session, service, abandoned=how.abandoned)
    if instant is not None:
        return execute(session, service, instant, how)
    planned = plan(session, service, request, waits=False)
    if planned.instant is None:
        nothing = service.result_type(planned.table, None, note=planned.note)
        return service.with_cleared_plans(nothing, planned.ended_first)
    try:
        return service.with_cleared_plans(execute(session, service, planned.instant, how), planned.ended_first)
    except Unsupported:
        # A file completed while the plan was made and cannot be worked on here: the plan would fail each time.
        _cancel_unsupported(session, planned.instant)
        raise


def _cancel_unsupported(session: Session, instant: str) -> None:
    """Cancel and remove a plan that this call made, unless another process executes it."""
    try:
        # Without a lease the plan has no executor; the condition is evaluated again under the lock.
        if cancel_write(session, instant, "not supported", lambda: read_lease(session.ctx.storage, instant) is None):
            found = session.loader.load().timeline.find(instant)
            if found is not None:
                roll_back(session, found)
    except HudiOpsError as failure:
        # The caller must get the error of the execution.
        logger.warning("plan %s stays pending: %s", instant, failure)


def _nothing(service: Service, state: TableState, found: Instant | None, note: str) -> Any:
    time, completion_time = (found.time, found.completion_time or None) if found is not None else (None, None)
    return service.result_type(state.config.name, time, completion_time, note)


def _execute_taken(session: Session, service: Service, attempt: Attempt, how: Execution) -> AnyRun | None:
    """Execute a plan; return None if a foreign writer completed its action first.

    Raises:
        Overtaken: other writes touched all of it; the plan was cancelled.
        Conflict: it cannot complete as it is; it stays.
    """
    is_deciding = False
    name = attempt.begun.config.name
    started_s = session.ctx.clock.monotonic_s()
    try:
        with session.keep(attempt.instant, "execute", epoch=attempt.epoch) as monitor, _cleared(service) as runs:
            run = _work(session, service, attempt, how, monitor)
            runs.append(run)
            waits = Waits(session.ctx, session.conflicts.wait_s)
            while True:
                is_deciding = False
                leave_out_touched(service, run)
                outcome = service.outcome(run)
                monitor.check()
                is_deciding = True
                try:
                    entry = _complete(service, run, outcome)
                    break
                except Conflict as conflict:
                    # Nothing was decided. If a write completed since and touched some groups, the other groups complete.
                    is_deciding = False
                    if service.goes_on(run, conflict):
                        continue
                    if not leave_out_touched(service, run) and not waits.for_running(conflict):
                        raise
    except Overtaken as overtaken:
        reason = CancelReason(overtaken.what, cause="ingestion", requester=str(session.ctx.owner))
        rollback_attempt(session, attempt.instant, overtaken, reason=reason)
        raise
    except NOTHING_LANDED as error:
        release_plan(session, attempt, error)
        raise error.at(table=name, instant=attempt.instant) from error
    except HudiOpsError as error:
        # Before the decision nothing can have landed. After any other error in the decision the outcome is open.
        if not is_deciding:
            release_plan(session, attempt, error)
        raise error.at(table=name, instant=attempt.instant) from error
    # The plan is complete: an error from here on does not release it.
    completed = Instant(attempt.instant, attempt.action, State.COMPLETED)
    release_completed(session, attempt.begun, completed, list(service.files_written(run)))
    try:
        service.settled(session)
    except HudiOpsError as error:
        raise error.at(table=name, instant=attempt.instant) from error
    if entry is None:
        return None
    run.entry = entry
    run.seconds = session.ctx.clock.monotonic_s() - started_s
    return run


@contextmanager
def _cleared(service: Service) -> Iterator[list[AnyRun]]:
    """Let the service clear up after a refused run, while its lease is kept.

    The caller adds the run to the list.

    Raises:
        NOTHING_LANDED: the run was refused.
    """
    runs: list[AnyRun] = []
    try:
        yield runs
    except NOTHING_LANDED:
        for run in runs:
            with best_effort(run.attempt.instant):
                service.clear_refused(run)
        raise


def _work(session: Session, service: Service, attempt: Attempt, how: Execution, monitor: LeaseMonitor) -> AnyRun:
    """Begin the plan and run its tasks."""
    plan = _begin(session, service, attempt)
    service.check(session, attempt.begun, attempt, plan)
    inputs = service.inputs(session, attempt, plan)
    engine, reason = choose_by_bytes(how.engine, inputs.bytes_in, session.ctx.engine, "to read")
    arrow_bytes = pa.default_memory_pool().max_memory()
    run: AnyRun = Run(session, attempt, plan, inputs, engine, reason, how.task_bytes(engine), arrow_bytes, monitor, how)
    run.tasks = service.tasks(run)
    leave_out_touched(service, run)
    service.check_groups(run, attempt.begun)
    run.done = run_tasks(engine, service.run, run.tasks, monitor, how.progress, "file slices")
    return run


def _begin(session: Session, service: Service, attempt: Attempt) -> Any:
    """Return the plan, after removing files of earlier executors and putting the inflight file.

    Raises:
        Cancelled: the plan was cancelled or taken over.
        Conflict: the requested file is gone: a foreign writer removed the plan.
        Corrupt: the plan cannot be read.
    """
    storage, timeline = session.ctx.storage, attempt.begun.timeline
    found = timeline.find(attempt.instant, service.action)
    if found is None:
        raise Conflict("the plan is gone from the timeline", instant=attempt.instant)
    plan = read_pending(session, service, attempt.begun, found)
    clear_older_epochs(session, attempt)
    if attempt.epoch > 1 or State.INFLIGHT in found.states:
        # Apache Hudi may have begun it, and a later executor of ours may have died before it got this far. Files without a marker
        # count, too: of two base files of one group and instant readers take the one listed last (docs/format §9.1).
        clear_foreign_attempts(session, attempt, service.files_unannounced(session, attempt, plan))
        clear_foreign_delta(session, attempt)
    path = timeline.path(inflight_name(attempt.instant, service.action))
    if State.INFLIGHT not in found.states:
        requested = storage.get(timeline.path(requested_name(attempt.instant, service.action)))
        ensure(storage, path, service.inflight_body(requested))
    now = session.loader.reload(attempt.begun)
    after = now.timeline.find(attempt.instant, service.action)
    is_gone = after is None or State.REQUESTED not in after.states or attempt.instant <= now.log.boundary
    if is_gone:
        # An inflight without its requested file makes the whole table unreadable for Apache Hudi (docs/format §2.3).
        storage.delete(path)
    refuse_superseded(now.log, attempt.instant, attempt.epoch)
    if is_gone:
        raise Conflict(
            "a foreign writer took the plan off the timeline",
            instant=attempt.instant,
            next_step="plan again; check the settings of the foreign writer",
        )
    return plan


def _complete(service: Service, run: AnyRun, outcome: Any) -> Complete | None:
    """Decide the completion; return None if a foreign writer completed the action."""
    session, attempt = run.session, run.attempt

    def check(state: TableState) -> None:
        service.check(session, state, attempt, run.plan)
        service.check_groups(run, state)

    def check_action(state: TableState) -> bool:
        found = state.timeline.find(attempt.instant, attempt.action)
        if found is not None and found.is_completed and state.log.fate(attempt.instant) is None:
            return False
        refuse_unfit(session, attempt, state)
        check(state)
        return True

    if isinstance(outcome, Body):
        decided = complete_action(session, attempt, outcome, check_action)
        return landed(decided, attempt) if decided is not None else None
    return complete_write(session, attempt, outcome, role=service.role, check=check)


def release_plan(session: Session, attempt: Attempt, error: HudiOpsError) -> None:
    """Remove the files, the inflight file and the lease of a failed execution; keep the plan.

    Call it only if nothing of the attempt was decided. A cancelled plan is rolled back. When another process has taken the plan
    over, only files of this epoch are removed. The markers stay: tasks of this executor may still write files that they announced,
    and the next executor deletes the files that markers name.
    """
    storage = session.ctx.storage
    try:
        clear_own_epoch(session, attempt)
        try:
            refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch)
        except Cancelled as ended:
            if not ended.details.get("taken_over"):
                rollback_attempt(session, attempt.instant, ended)
            return
        storage.delete(attempt.begun.timeline.path(inflight_name(attempt.instant, attempt.action)))
        # The lease is removed last: while it exists, no process takes the inflight file for a foreign one. After an unknown outcome
        # that file may still be created.
        if not isinstance(error, OutcomeUnknown):
            session.drop_name(attempt.instant)
        logger.warning(
            "%s %s did not complete and waits for the next execution: %s", attempt.action, attempt.instant, error.what
        )
    except HudiOpsError as failure:
        # The caller must get the first error; the next executor of the plan removes the rest.
        logger.warning("leftovers of the execution of %s stay until the next one: %s", attempt.instant, failure)

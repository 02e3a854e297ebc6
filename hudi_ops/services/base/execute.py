"""Execute a plan of any kind: take it over, run its tasks, complete it or release it.

At most one executor works on a plan: a TAKEOVER slot names it and gives it the epoch that its files carry. After a failure before
the decision the executor removes what it wrote and leaves the plan to the next one.

Source: docs/protocol §8, §14; docs/format §3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
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
from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback import roll_back, rollback_attempt
from hudi_ops.commit.recover.sweep import release_completed
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.write import Write
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
from hudi_ops.services.base.leave_out import Waits, leave_out_touched
from hudi_ops.services.base.pending import named_pending, next_pending, read_pending, refuse_foreign_executor
from hudi_ops.services.base.plan import left_plan, plan
from hudi_ops.services.base.result import EndedPlans
from hudi_ops.services.base.service import AnyRun, AnyService, Execution, Run, TaskService
from hudi_ops.services.base.waves import run_tasks
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import State, inflight_name, requested_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


def execute(session: Session, service: TaskService, instant: str | None, how: Execution) -> Any:
    """Execute a plan by its tasks, and return the result; raise as `execute_plan` does."""
    return execute_plan(session, service, instant, how, partial(_execute_tasks, session, service, how))


def execute_plan(
    session: Session, service: AnyService, instant: str | None, how: Execution, work: Callable[[Attempt], Any]
) -> Any:
    """Execute a plan, ours or a foreign one, and return the service's result.

    After a failure the same call continues; after success it changes nothing. Without an instant it executes the oldest plan
    without a live executor. `work` executes a plan that was taken over, within `taken_plan`, and returns its result; None: a
    foreign writer completed it first.

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
        return service.result_type(state.config.name, None, note=f"no {service.name} is planned")
    if found.is_completed:
        return _completed(service, state, found, "it was completed before")
    session.silent.refuse(state, found.time)

    service.refuse_plan(session, state, read_pending(session, service, state, found), found.time)

    def check(now: TableState) -> None:
        if not how.abandoned:
            refuse_foreign_executor(session, service, now, found.time)

    attempt = take_over(session, found.time, service.action, check)
    if attempt is None:
        return _completed(service, session.loader.load(), found, "it was completed before")
    try:
        result = work(attempt)
    except Overtaken as overtaken:
        note = f"nothing completed: {overtaken.what}. The plan was cancelled; {overtaken.next_step}"
        return service.result_type(attempt.begun.config.name, attempt.instant, note=note)
    if result is None:
        return _completed(service, session.loader.load(), found, "another program completed it first")
    return replace(result, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def plan_and_execute(
    session: Session, service: TaskService, request: Any, how: Execution, instant: str | None = None
) -> Any:
    """Execute the named plan, or one without a live executor; else make a plan and execute it.

    Raises:
        Unsupported: raised by `plan` or `execute`; a plan that this call published is cancelled first.
    """
    instant = instant or left_plan(session, service, abandoned=how.abandoned)
    if instant is not None:
        return execute(session, service, instant, how)
    planned = plan(session, service, request, waits=False)
    if planned.instant is None:
        return _with_ended(service.result_type(planned.table, None, note=planned.note), planned.ended_first)
    try:
        return _with_ended(execute(session, service, planned.instant, how), planned.ended_first)
    except Unsupported:
        # A file completed while the plan was made and cannot be worked on here: the plan would fail each time.
        _cancel_unsupported(session, planned.instant)
        raise


def _with_ended(result: Any, ended: EndedPlans) -> Any:
    """Return a result with the plans that ended first, which only a clean has."""
    return replace(result, ended_first=ended) if ended != EndedPlans() else result


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


def _completed(service: AnyService, state: TableState, instant: Instant, note: str) -> Any:
    """Return the result of an execution that found its plan completed by others."""
    now = state.timeline.find(instant.time, service.action) or instant
    return service.result_type(state.config.name, now.time, now.completion_time or None, note)


@dataclass
class Taken:
    """A plan that this process took over, while it keeps the lease.

    Attributes:
        attempt: the executor's instant, epoch and first state.
        monitor: of the lease.
        is_deciding: the decision has begun, so that its outcome may be open after an error.
    """

    attempt: Attempt
    monitor: LeaseMonitor
    is_deciding: bool = False

    def decide(self, complete: Callable[[], Complete | None]) -> Complete | None:
        """Decide the completion, unless the plan was cancelled or taken over.

        Raises:
            Cancelled: it was cancelled or taken over.
            Conflict: the completion was refused, and nothing is decided; it may be tried again.
        """
        self.monitor.check()
        self.is_deciding = True
        try:
            return complete()
        except Conflict:
            self.is_deciding = False
            raise


@contextmanager
def taken_plan(session: Session, attempt: Attempt) -> Iterator[Taken]:
    """Keep the lease of a plan that this process took over; release the plan after an error.

    Raises:
        Overtaken: other writes touched all of it; the plan was cancelled.
    """
    taken: Taken | None = None
    name = attempt.begun.config.name
    try:
        with session.keep(attempt.instant, "execute", epoch=attempt.epoch) as monitor:
            taken = Taken(attempt, monitor)
            yield taken
    except Overtaken as overtaken:
        reason = CancelReason(overtaken.what, cause="ingestion", requester=str(session.ctx.owner))
        rollback_attempt(session, attempt.instant, overtaken, reason=reason)
        raise
    except NOTHING_LANDED as error:
        release_plan(session, attempt, error)
        raise error.at(table=name, instant=attempt.instant) from error
    except HudiOpsError as error:
        # Before the decision nothing can have landed. After any other error in the decision the outcome is open.
        if taken is None or not taken.is_deciding:
            release_plan(session, attempt, error)
        raise error.at(table=name, instant=attempt.instant) from error


def release_executed(
    session: Session, attempt: Attempt, written: Collection[str], follow_up: Callable[[Session], object]
) -> None:
    """Release a completed plan and follow it up; an error from here on leaves it complete.

    `written` are the data files in its commit.
    """
    release_completed(session, attempt.begun, Instant(attempt.instant, attempt.action, State.COMPLETED), written)
    try:
        follow_up(session)
    except HudiOpsError as error:
        raise error.at(table=attempt.begun.config.name, instant=attempt.instant) from error


def _execute_tasks(session: Session, service: TaskService, how: Execution, attempt: Attempt) -> Any:
    """Execute a plan by its tasks; return None if a foreign writer completed its action first.

    Raises:
        Overtaken: other writes touched all of it; the plan was cancelled.
        Conflict: it cannot complete as it is; it stays.
    """
    started_s = session.ctx.clock.monotonic_s()
    with taken_plan(session, attempt) as taken:
        run = _work(session, service, attempt, how, taken.monitor)
        waits = Waits(session.ctx, session.conflicts.wait_s)
        while True:
            leave_out_touched(service, run)
            outcome = service.outcome(run)
            try:
                entry = taken.decide(partial(_complete, service, run, outcome))
                break
            except Conflict as conflict:
                # Nothing was decided. If a write completed since and touched some groups, the other groups complete.
                if not leave_out_touched(service, run) and not waits.for_running(conflict):
                    raise
    written = [stat.path for stat in outcome.stats] if isinstance(outcome, Write) else []
    release_executed(session, attempt, written, service.settled)
    if entry is None:
        return None
    run.entry = entry
    run.seconds = session.ctx.clock.monotonic_s() - started_s
    return service.result(run)


def _work(session: Session, service: TaskService, attempt: Attempt, how: Execution, monitor: LeaseMonitor) -> AnyRun:
    """Begin the plan and run its tasks."""
    plan = begin_plan(session, service, attempt)
    inputs = service.inputs(session, attempt, plan)
    engine, reason = choose_by_bytes(how.engine, inputs.bytes_in, session.ctx.engine, "to read")
    arrow_bytes = pa.default_memory_pool().max_memory()
    run: AnyRun = Run(session, attempt, plan, inputs, engine, reason, how.task_bytes(engine), arrow_bytes)
    run.tasks = service.tasks(run)
    leave_out_touched(service, run)
    service.check(run, attempt.begun)
    run.done = run_tasks(engine, service.run, run.tasks, monitor, how.progress, "file slices")
    return run


def begin_plan(session: Session, service: AnyService, attempt: Attempt) -> Any:
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
    if State.INFLIGHT not in found.states:
        requested = storage.get(timeline.path(requested_name(attempt.instant, service.action)))
        inflight = timeline.path(inflight_name(attempt.instant, service.action))
        ensure(storage, inflight, requested if service.inflight_has_plan else b"")
    now = session.loader.reload(attempt.begun)
    after = now.timeline.find(attempt.instant, service.action)
    is_gone = after is None or State.REQUESTED not in after.states or attempt.instant <= now.log.boundary
    if is_gone:
        # An inflight without its requested file makes the whole table unreadable for Apache Hudi (docs/format §2.3).
        _delete_inflight(session, attempt)
    refuse_superseded(now.log, attempt.instant, attempt.epoch)
    if is_gone:
        raise Conflict(
            "a foreign writer took the plan off the timeline",
            instant=attempt.instant,
            next_step="plan again; check the settings of the foreign writer",
        )
    return plan


def _complete(service: TaskService, run: AnyRun, outcome: Write | Body) -> Complete | None:
    """Decide the completion; return None if a foreign writer completed the action."""
    check = partial(service.check, run)
    if isinstance(outcome, Body):
        return complete_body(run.session, run.attempt, outcome, check)
    return complete_write(run.session, run.attempt, outcome, role=service.role, check=check)


def complete_body(
    session: Session, attempt: Attempt, body: Body, check: Callable[[TableState], None]
) -> Complete | None:
    """Decide the completion of an action that is no write; `check` is called under the lock.

    Returns None if a foreign writer completed the action.

    Raises:
        Conflict: it was voided, or `check` refused it.
    """

    def check_action(state: TableState) -> bool:
        found = state.timeline.find(attempt.instant, attempt.action)
        if found is not None and found.is_completed and state.log.fate(attempt.instant) is None:
            return False
        refuse_unfit(session, attempt, state)
        check(state)
        return True

    decided = complete_action(session, attempt, body, check_action)
    return landed(decided, attempt) if decided is not None else None


def release_plan(session: Session, attempt: Attempt, error: HudiOpsError) -> None:
    """Remove the files, the inflight file and the lease of a failed execution; keep the plan.

    Call it only if nothing of the attempt was decided. A cancelled plan is rolled back. When another process has taken the plan
    over, only files of this epoch are removed. The markers stay: tasks of this executor may still write files that they announced,
    and the next executor deletes the files that markers name.
    """
    try:
        clear_own_epoch(session, attempt)
        try:
            refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch)
        except Cancelled as ended:
            if not ended.details.get("taken_over"):
                rollback_attempt(session, attempt.instant, ended)
            return
        _delete_inflight(session, attempt)
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


def _delete_inflight(session: Session, attempt: Attempt) -> None:
    target = Instant(attempt.instant, attempt.action, State.INFLIGHT)
    remove(Removal(session, attempt.begun, target, Reason.TAKEN_OVER, ()), {Part.TIMELINE})

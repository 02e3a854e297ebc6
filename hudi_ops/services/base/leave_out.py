"""Leave out the tasks of a plan whose file groups other writes touched since it was planned.

The tasks of such a plan are independent. A task is left out whole: its files are deleted before the decision, and neither the
commit nor the metadata delta names them. When none remains, the plan is cancelled: it could never complete.

Source: docs/protocol §28; RFC-22 (ingestion comes first).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from hudi_ops.commit.decide.plan_cancels import without_waiting
from hudi_ops.commit.decide.takeover import remove_data_files
from hudi_ops.concurrency.conflicts import Contender, refuse_completed
from hudi_ops.concurrency.vain_waits import note_vain_wait, waited_in_vain
from hudi_ops.context import TableContext
from hudi_ops.errors import Conflict, Overtaken
from hudi_ops.services.base.service import (
    AnyRun,
    Chosen,
    Inputs,
    Outcome,
    Plan,
    Request,
    Result,
    Run,
    TableService,
    Task,
    TaskService,
)
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 0.1
"""First wait for a running write; each further one is twice as long."""


class PartialService(TableService[Request, Chosen, Plan, Inputs, Task, Outcome, Result]):
    """Table service whose plans complete without the tasks that other writes touched."""

    @abstractmethod
    def replaced_by(self, task: Task) -> Footprint:
        """Return the file groups that a task replaces as they were when the plan was made."""

    def overtaking(self, run: Run[Plan, Inputs, Task, Outcome], other: Contender) -> Contender | None:
        """Return a write with only the groups whose tasks the plan must leave out; None: no group.

        A resize also completes groups whose writes put their rows into the new buckets, too.
        """
        return other

    def clear_left_out(self, run: Run[Plan, Inputs, Task, Outcome]) -> FilesByPartition:
        """Delete what writers put for left-out tasks; return the files that their commits name.

        Writers put such files for the new buckets of a resize alone.
        """
        return {}


AnyPartial = PartialService[Any, Any, Any, Any, Any, Any, Any]


class Waits:
    """Wait for running writes that a service gives way to, to keep its finished work.

    Most such writes complete, or announce what they touch, within a moment. All waits together take at most `limit_s`, and a write
    that the process has waited for in vain gets none.
    """

    def __init__(self, ctx: TableContext, limit_s: float) -> None:
        self._ctx, self._left_s, self._next_s = ctx, limit_s, FIRST_WAIT_S

    def for_running(self, conflict: Conflict) -> bool:
        """Wait after a conflict with a running write; return False for others, or when time is up."""
        other = conflict.details.get("other", "")
        if conflict.details.get("other_stage") != "running" or waited_in_vain(self._ctx, other):
            return False
        if self._left_s <= 0:
            note_vain_wait(self._ctx, other)
            return False
        wait_s = min(self._next_s, self._left_s)
        self._ctx.clock.sleep_s(wait_s)
        self._left_s -= wait_s
        self._next_s *= 2
        return True


def leave_out_touched(service: TaskService, run: AnyRun) -> int:
    """Leave out tasks that other writes touched since the plan, and delete their files.

    Returns:
        The number of tasks that this call left out, plus the number of newly found files that other writes made for left-out tasks;
        0 for kinds whose plans complete whole.

    Raises:
        Overtaken: no task remains.
    """
    if not isinstance(service, PartialService) or not run.tasks:
        return 0
    footprints = [service.replaced_by(task) for task in run.tasks]
    completed, running = _touching(service, run, _union(footprints))
    is_left = _touched(footprints, completed)
    if running and not all(with_running := _touched(footprints, [*completed, *running])):
        is_left = with_running
    # A running write may still fail: the plan waits for one that touches all that remains (`refuse_running`).
    if not any(is_left):
        return _clear_left_out(service, run)
    is_kept = [not one for one in is_left]
    dropped = [*compress(run.tasks, is_left)]
    written = [stat.path for outcome in compress(run.done, is_left) for stat in outcome.stats]
    remove_data_files(run.session, run.attempt, written)
    run.tasks = [*compress(run.tasks, is_kept)]
    run.done = [*compress(run.done, is_kept)]
    run.left_out = (*run.left_out, *dropped)
    names = ", ".join(sorted(f"{other.action} {other.instant}" for other in [*completed, *running]))
    who = f"{run.attempt.action} {run.attempt.instant}"
    logger.info("%s leaves out %d of %d groups, which %s touched", who, len(dropped), len(is_left), names)
    if not run.tasks:
        raise Overtaken(
            f"{names} touched every file group of the plan since it was made",
            table=run.attempt.begun.config.name,
            instant=run.attempt.instant,
            expected="at least one plan group that no write touched",
            found=f"{len(run.left_out)} groups, all of them touched",
            next_step="plan again; smaller plans, or plans of partitions with few writes, lose fewer groups",
        )
    return len(dropped) + _clear_left_out(service, run)


def refuse_touched(service: AnyPartial, run: AnyRun, state: TableState) -> None:
    """Refuse to complete tasks that a completed write touched.

    Called under the lock: it reads commit metadata.

    Raises:
        Conflict: names the write.
    """
    mine = _contender(service, run, _union(map(service.replaced_by, run.tasks)))
    refuse_completed(mine, _completed(service, run, mine, state))


def _clear_left_out(service: AnyPartial, run: AnyRun) -> int:
    if not run.left_out:
        return 0
    before = sum(map(len, run.removed.values()))
    run.removed = service.clear_left_out(run)
    return sum(map(len, run.removed.values())) - before


def _contender(service: AnyPartial, run: AnyRun, planned: Footprint | None) -> Contender:
    attempt = run.attempt
    return Contender(attempt.instant, attempt.action, planned, service.role, owner=str(run.session.ctx.owner))


def _completed(service: AnyPartial, run: AnyRun, mine: Contender, state: TableState) -> list[Contender]:
    """Return the writes that completed since the attempt began and touch groups of the plan."""
    since = run.session.contenders.completed_since(run.attempt.begun, mine, state)
    seen = (service.overtaking(run, one) for one in since)
    return [one for one in seen if one is not None and mine.shared(one)]


def _touching(service: AnyPartial, run: AnyRun, planned: Footprint | None) -> tuple[list[Contender], list[Contender]]:
    """Return the completed, and the running, writes that touch groups of the plan.

    Running writes are returned only if the plan gives way to them and they announced what they touch.
    """
    session, attempt = run.session, run.attempt
    state = session.loader.load()
    mine = _contender(service, run, planned)
    completed = _completed(service, run, mine, state)
    if not session.strategy.looks_at_running(mine.role):
        return completed, []
    others = without_waiting(session, state, mine, session.contenders.running(session.ctx, state, attempt.instant))
    running = [one for one in others if one.footprint is not None and session.strategy.yields(mine, one)]
    return completed, [one for one in running if mine.shared(one)]


def _touched(footprints: Sequence[Footprint], others: Sequence[Contender]) -> list[bool]:
    """Return whether the others touch each of the footprints."""
    if not others:
        return [False] * len(footprints)
    touched = _union(other.footprint for other in others)
    return [touched is None or bool(one.overlap(touched)) for one in footprints]


def _union(footprints: Iterable[Footprint | None]) -> Footprint | None:
    """Return what any of them touches; None: one is unknown."""
    found: Sequence[Footprint | None] = list(footprints)
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return Footprint(
        groups=frozenset().union(*(one.groups for one in known)),
        partitions=frozenset().union(*(one.partitions for one in known)),
        is_whole=any(one.is_whole for one in known),
    )

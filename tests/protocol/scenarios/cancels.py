"""Cancels as actors: a request, a whole cancel, a cleaner's, and an executor of Apache Hudi that knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.commit.session import Session
from hudi_ops.context import TableContext
from hudi_ops.services.cancel.abort import cancel
from hudi_ops.services.cancel.overdue import cancel_overdue
from hudi_ops.services.cancel.request import request_cancel
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.steps import Trouble
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.names import State
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.scenarios.actors import Landed, Recovers, Writes
from tests.protocol.scenarios.between import context, die_at
from tests.protocol.scenarios.cases import BESIDE_HUDI, EVERYTHING, Case, mixed_table
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.hudi import Writer
from tests.protocol.scenarios.services import Executes, Plans
from tests.protocol.scenarios.worlds import REWRITE_A, Job, at, small_table
from tests.tables import NOW_MS

LATER_B = Job("upsert", (("b2", 2),))
"""The same row once more, in another group than the plan's."""
PLANS = Plans(REWRITE_A, "cancel", "cancellable")


def _oldest_plan(ctx: TableContext) -> str | None:
    timeline = load_timeline(ctx.storage, load_config(ctx.storage))
    return next((one.time for one in timeline.pending if one.action == "clustering"), None)


@dataclass(frozen=True)
class Requests:
    """Requests the cancel of the pending plan; returns its instant, None without one."""

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        instant = _oldest_plan(ctx)
        if instant is not None:
            request_cancel(Session(ctx), instant, CancelReason("asked for", "request"))
        return instant


@dataclass(frozen=True)
class Aborts:
    """Requests the cancel of the pending plan, and removes it as soon as its executor has stopped."""

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once; returns the state of the plan."""
        instant = _oldest_plan(ctx)
        if instant is None:
            return None
        return cancel(Session(ctx), instant, CancelReason("asked for", "request")).state


@dataclass(frozen=True)
class CancelsOverdue:
    """Does what a clean does first: removes cancelled plans, ends half-done withdrawals, tidies the queue."""

    def __call__(self, ctx: TableContext) -> None:
        """Do it, once."""
        cancel_overdue(Session(ctx))


@dataclass(frozen=True)
class HudiExecutes:
    """Apache Hudi executes our pending plan, as one of its clustering jobs does that was told to."""

    name: str

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once; None without a plan."""
        timeline = load_timeline(ctx.storage, load_config(ctx.storage))
        plans = [one for one in timeline.pending if one.action == "clustering" and one.states == {State.REQUESTED}]
        if not plans:
            return None
        Writer(ctx, self.name).cluster(plans[0].time, REWRITE_A.paths[0])
        return Landed(plans[0].time, REWRITE_A)


@cache
def _planned() -> MemoryStorage:
    storage = small_table()
    PLANS(context(storage, "planner"))
    return storage


def planned_table() -> MemoryStorage:
    """The table with a cancellable plan to rewrite partition a, which no process works on yet."""
    return _planned().copy()


@cache
def _shared() -> MemoryStorage:
    storage = at(mixed_table(), NOW_MS - 20_000)
    PLANS(context(storage, "planner"))
    # The plan is not the newest entry of the log: no decision puts it on the timeline again.
    later = at(storage, NOW_MS - 10_000)
    Writes(LATER_B)(context(later, "creator"))
    return at(later, NOW_MS)


def shared_table() -> MemoryStorage:
    """The same in a table that Apache Hudi writes to as well."""
    return _shared().copy()


def with_dead_executor(pattern: str) -> Callable[[], MemoryStorage]:
    """The table with an executor that died right before its first operation of a pattern."""

    @cache
    def made() -> MemoryStorage:
        storage = planned_table()
        die_at(storage, "dead", Executes(REWRITE_A), pattern)
        return storage

    return lambda: made().copy()


def of_cancels(
    name: str,
    runs: Mapping[str, Callable[[TableContext], object]],
    jobs: Mapping[str, Job],
    base: Callable[[], MemoryStorage] = planned_table,
    troubles: frozenset[Trouble] = EVERYTHING,
    **terms: int,
) -> Case:
    """Actors around a cancellable plan; a cleaner and an executor end what is left before all is judged."""
    rewriters = {who: REWRITE_A for who in (*runs, "finisher", "dead") if who not in jobs}
    oracle = Oracle({**jobs, **rewriters}, finish=(Recovers(), CancelsOverdue(), Executes(REWRITE_A)))
    return Case(name, runs, oracle, base=base, troubles=troubles, **terms)


def beside_hudi(
    name: str, runs: Mapping[str, Callable[[TableContext], object]], jobs: Mapping[str, Job], theirs: Job
) -> Case:
    """The same on a shared table, where `theirs` is Apache Hudi's."""
    rewriters = {who: REWRITE_A for who in (*runs, "finisher") if who not in {*jobs, "theirs"}}
    oracle = Oracle(
        {**jobs, **rewriters}, {"theirs": theirs}, finish=(Recovers(), CancelsOverdue(), Executes(REWRITE_A))
    )
    return Case(name, runs, oracle, base=shared_table, troubles=BESIDE_HUDI)

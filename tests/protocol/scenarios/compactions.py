"""The product's compaction as actors: a planner and an executor, upon a merge-on-read table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.context import TableContext
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.compaction.service import COMPACTION
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.steps import Trouble
from tests.protocol.scenarios.actors import Landed, Writes
from tests.protocol.scenarios.between import context, die_at
from tests.protocol.scenarios.cases import EVERYTHING, Case
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.worlds import COMPACT, Job, at, logged_table
from tests.tables import NOW_MS


@dataclass(frozen=True)
class PlansCompaction:
    """Plans to compact all that has log files; returns the plan's instant, None when there was nothing to plan."""

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        return plan(Session(ctx), COMPACTION, CompactionRequest()).instant


@dataclass(frozen=True)
class Compacts:
    """Executes the oldest plan on which nobody works; None when there is none, or it was completed before."""

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once."""
        result = execute(Session(ctx), COMPACTION, None, Execution("local"))
        return Landed(result.instant, COMPACT) if result.instant is not None and not result.note else None


@cache
def _planned() -> MemoryStorage:
    storage = at(logged_table(), NOW_MS - 30_000)
    PlansCompaction()(context(storage, "planner"))
    return at(storage, NOW_MS)


def planned_table() -> MemoryStorage:
    """The merge-on-read table with a plan to compact both groups, which nobody works on yet."""
    return _planned().copy()


def with_dead_executor(pattern: str) -> Callable[[], MemoryStorage]:
    """The same with an executor that died right before its first operation of a pattern."""

    @cache
    def made() -> MemoryStorage:
        storage = planned_table()
        die_at(storage, "dead", Compacts(), pattern)
        return storage

    return lambda: made().copy()


def of_compactions(
    name: str,
    runs: Mapping[str, Callable[[TableContext], object]],
    jobs: Mapping[str, Job],
    base: Callable[[], MemoryStorage] = planned_table,
    troubles: frozenset[Trouble] = EVERYTHING,
    start_ms: int = NOW_MS,
) -> Case:
    """Actors of which some compact; what is still planned in the end is compacted before all is judged."""
    compactors = {who: COMPACT for who in (*runs, "finisher", "dead") if who not in jobs}
    oracle = Oracle({**jobs, **compactors}, finish=(Compacts(),))
    return Case(name, runs, oracle, base=base, troubles=troubles, start_ms=start_ms)


def after_death(name: str, pattern: str, job: Job) -> Case:
    """An executor that died, one who resumes, and an ingest."""
    return of_compactions(
        name,
        {"one": Writes(job), "two": Compacts()},
        {"one": job},
        with_dead_executor(pattern),
        start_ms=NOW_MS + EXPIRY_MS + 10_000,
    )

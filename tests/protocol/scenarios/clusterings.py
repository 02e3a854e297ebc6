"""Tables with a clustering plan of one group in each of two partitions, and cases around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.context import TableContext
from hudi_ops.services.base.plan import plan
from hudi_ops.services.compaction.service import COMPACTION
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.steps import Trouble
from tests.protocol.scenarios.actors import Recovers, Writes
from tests.protocol.scenarios.between import context, die_at
from tests.protocol.scenarios.cancels import CancelsOverdue
from tests.protocol.scenarios.cases import EVERYTHING, Case
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.services import Executes, Plans
from tests.protocol.scenarios.worlds import Job, at, logged_table, small_table
from tests.tables import NOW_MS

REWRITE = Job("rewrite", (("a1", 0), ("b1", 0)))
PLANS = Plans(REWRITE, cancel="cancellable")


@dataclass(frozen=True)
class PlansCompactionFirst:
    """Plans a compaction, which has a higher priority than the pending clustering; returns the plan's instant."""

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        session = Session(ctx, conflicts=ConflictSettings(priority={"compaction": 1}))
        return plan(session, COMPACTION, CompactionRequest()).instant


@cache
def _planned(*, is_logged: bool) -> MemoryStorage:
    storage = at(logged_table() if is_logged else small_table(), NOW_MS - 30_000)
    PLANS(context(storage, "planner"))
    return at(storage, NOW_MS)


def planned_table() -> MemoryStorage:
    """A copy-on-write table with a plan of two groups, which no process works on yet."""
    return _planned(is_logged=False).copy()


def planned_logs() -> MemoryStorage:
    """The same of a merge-on-read table with log files."""
    return _planned(is_logged=True).copy()


def with_dead_executor(pattern: str) -> Callable[[], MemoryStorage]:
    """The copy-on-write table with an executor that died right before its first operation of a pattern."""

    @cache
    def made() -> MemoryStorage:
        storage = planned_table()
        die_at(storage, "dead", Executes(REWRITE), pattern)
        return storage

    return lambda: made().copy()


def of_clusterings(
    name: str,
    runs: Mapping[str, Callable[[TableContext], object]],
    jobs: Mapping[str, Job],
    base: Callable[[], MemoryStorage] = planned_table,
    troubles: frozenset[Trouble] = EVERYTHING,
    start_ms: int = NOW_MS,
    also: tuple[Callable[[TableContext], object], ...] = (),
) -> Case:
    """Actors around a plan. Before the judgement others execute or remove the plan, and then do what `also` says."""
    rewriters = {who: REWRITE for who in (*runs, "finisher", "dead") if who not in jobs}
    oracle = Oracle({**jobs, **rewriters}, finish=(Recovers(), CancelsOverdue(), Executes(REWRITE), *also))
    return Case(name, runs, oracle, base=base, troubles=troubles, start_ms=start_ms)


def after_death(name: str, pattern: str, job: Job) -> Case:
    """An executor that died, one who resumes, and an ingest."""
    return of_clusterings(
        name,
        {"one": Writes(job), "two": Executes(REWRITE)},
        {"one": job},
        with_dead_executor(pattern),
        start_ms=NOW_MS + EXPIRY_MS + 10_000,
    )

"""Tables whose bucket in each of two partitions is split, or whose two buckets are merged, and cases around that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.context import TableContext
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.resize.service import RESIZE
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.steps import Trouble
from tests.protocol.scenarios.actors import Landed, Recovers, Writes
from tests.protocol.scenarios.between import context, die_at
from tests.protocol.scenarios.cancels import CancelsOverdue
from tests.protocol.scenarios.cases import EVERYTHING, Case
from tests.protocol.scenarios.ring_rules import RingOracle
from tests.protocol.scenarios.worlds import HELD, MERGED, Job, at, rows_of
from tests.tables import NOW_MS, START_MS, made, table_of

RESIZE_BOTH = Job("rewrite", (("a1", 0), ("b1", 0)))
SPLIT_ALL = ResizeRequest(split_bytes=1, merge_bytes=0, max_partitions=2)
MERGE_ALL = ResizeRequest(split_bytes=4_000_000, merge_bytes=1_000_000, max_partitions=2)
RINGED = replace(MERGED, bucket_engine="consistent", buckets=1, buckets_min=1, buckets_max=2)
"""The later of two commits counts, so the order of log files shows in the rows."""


@dataclass(frozen=True)
class PlansResize:
    """Plans to split every bucket, or what a request says; returns the plan's instant, None without anything to plan."""

    request: ResizeRequest = SPLIT_ALL

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        return plan(Session(ctx), RESIZE, self.request).instant


@dataclass(frozen=True)
class Resizes:
    """Executes the oldest resize without a live executor; None when nothing of it completed."""

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once."""
        result = execute(Session(ctx), RESIZE, None, Execution("local"))
        return Landed(result.instant, RESIZE_BOTH) if result.completion_time and not result.note else None


@cache
def _ringed(buckets: int) -> MemoryStorage:
    clock = ManualClock(START_MS)
    storage = made(replace(RINGED, buckets=buckets), rows_of({**HELD, "a1": 0}), clock=clock)
    clock.advance_ms(1_000)
    table_of(storage, clock, "creator").ingest(rows_of({"a1": 1}))
    return storage


def ringed_table() -> MemoryStorage:
    """A table with one bucket in each partition, of which one has a log file."""
    return at(_ringed(1), NOW_MS)


@cache
def _planned(request: ResizeRequest, buckets: int) -> MemoryStorage:
    storage = at(_ringed(buckets), NOW_MS - 30_000)
    PlansResize(request)(context(storage, "planner"))
    return at(storage, NOW_MS)


def planned_splits() -> MemoryStorage:
    """The same with a plan to split both buckets, which no process works on yet."""
    return _planned(SPLIT_ALL, 1).copy()


def planned_merges() -> MemoryStorage:
    """A table with two buckets in each partition, and a plan to merge them."""
    return _planned(MERGE_ALL, 2).copy()


@cache
def _dual_written() -> MemoryStorage:
    storage = at(_planned(SPLIT_ALL, 1), NOW_MS - 20_000)
    Writes(Job("upsert", tuple(HELD.items())))(context(storage, "creator"))
    return at(storage, NOW_MS)


def dual_written() -> MemoryStorage:
    """The planned splits after a write that put its rows into parents and children."""
    return _dual_written().copy()


def with_dead_executor(pattern: str, base: Callable[[], MemoryStorage] = dual_written) -> Callable[[], MemoryStorage]:
    """The dual-written table with an executor that died right before its first operation of a pattern."""

    @cache
    def made_once() -> MemoryStorage:
        storage = base()
        die_at(storage, "dead", Resizes(), pattern)
        return storage

    return lambda: made_once().copy()


def of_resizes(
    name: str,
    runs: Mapping[str, Callable[[TableContext], object]],
    jobs: Mapping[str, Job],
    base: Callable[[], MemoryStorage] = planned_splits,
    troubles: frozenset[Trouble] = EVERYTHING,
    start_ms: int = NOW_MS,
) -> Case:
    """Actors around a resize. Before the judgement others execute or remove the plan."""
    resizers = {who: RESIZE_BOTH for who in (*runs, "finisher", "dead") if who not in jobs}
    oracle = RingOracle({**jobs, **resizers}, finish=(Recovers(), CancelsOverdue(), Resizes()))
    return Case(name, runs, oracle, base=base, troubles=troubles, start_ms=start_ms)


def after_death(name: str, pattern: str, job: Job) -> Case:
    """An executor that died, one who resumes, and an ingest."""
    return of_resizes(
        name,
        {"one": Writes(job), "two": Resizes()},
        {"one": job},
        with_dead_executor(pattern),
        start_ms=NOW_MS + EXPIRY_MS + 10_000,
    )

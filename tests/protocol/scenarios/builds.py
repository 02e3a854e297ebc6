"""Index builds as actors: one call, plan and execution apart, and a cancel; and the oracle of their ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest
from hudi_ops.context import TableContext
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.cancel.abort import cancel
from hudi_ops.services.indexing.run import build_indexes, execute_build
from hudi_ops.services.indexing.service import INDEXING
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.steps import Trouble
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.builds import checkpoint as build_checkpoint
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.scenarios.actors import Recovers
from tests.protocol.scenarios.between import context
from tests.protocol.scenarios.cancels import CancelsOverdue
from tests.protocol.scenarios.cases import EVERYTHING, Case
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.indexed_hudi import listed_table, with_foreign_clean, with_foreign_write
from tests.protocol.scenarios.worlds import Job, at, indexed_table, small_table
from tests.tables import NOW_MS

KEYS = ("bloom_filters", "record_index")
EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")


@dataclass(frozen=True)
class Builds:
    """Builds partitions in one call; returns their names."""

    partitions: Sequence[str] = KEYS

    def __call__(self, ctx: TableContext) -> tuple[str, ...]:
        """Do it, once."""
        return build_indexes(Session(ctx), IndexRequest(partitions=self.partitions)).partitions


@dataclass(frozen=True)
class PlansBuild:
    """Publishes the plan of a build; returns its instant."""

    partitions: Sequence[str] = KEYS

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        return plan(Session(ctx), INDEXING, IndexRequest(partitions=tuple(self.partitions))).instant


@dataclass(frozen=True)
class ExecutesBuild:
    """Executes the oldest plan of a build without a live executor; returns its partitions."""

    def __call__(self, ctx: TableContext) -> tuple[str, ...]:
        """Do it, once."""
        return execute_build(Session(ctx), None, Execution("local")).partitions


@dataclass(frozen=True)
class AbortsBuild:
    """Requests the cancel of the pending build, and removes it as soon as its executor has stopped."""

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once; returns the state of the plan."""
        timeline = load_timeline(ctx.storage, load_config(ctx.storage))
        found = next((one.time for one in timeline.pending if one.kind == "indexing"), None)
        return cancel(Session(ctx), found, CancelReason("asked for", "request")).state if found is not None else None


@dataclass
class BuildOracle(Oracle):
    """Judges rows and index, and that no part of a build is left once others have gone on."""

    def _check_parts(self, settled: MemoryStorage) -> None:
        """Check that no part of a build is left."""
        config = load_config(settled)
        left = [one for one in load_timeline(settled, config).pending if one.kind == "indexing"]
        assert left == [], f"plans are left: {left}"
        assert settled.list(build_checkpoint.FOLDER) == []
        assert config.metadata_partitions_inflight == ()
        folders = {name for name in settled.list_folder(FOLDER).folders if not name.startswith(".")}
        assert folders == {*config.metadata_partitions}


@dataclass(frozen=True)
class _Planned:
    base: Callable[[], MemoryStorage]
    partitions: Sequence[str]

    def __call__(self) -> MemoryStorage:
        storage = at(self.base(), NOW_MS - 30_000)
        PlansBuild(self.partitions)(context(storage, "planner"))
        return at(storage, NOW_MS)


def planned_build(base: Callable[[], MemoryStorage] = indexed_table, partitions: Sequence[str] = KEYS) -> MemoryStorage:
    """The table with the plan of a build, which no process works on yet."""
    return _Planned(base, partitions)()


def planned_table() -> MemoryStorage:
    """A table with a metadata table and the plan of two more partitions."""
    return planned_build()


def planned_first() -> MemoryStorage:
    """A table without a metadata table, and the plan of all of it."""
    return planned_build(small_table, EVERY)


def planned_listed() -> MemoryStorage:
    """A table with `files`, which Apache Hudi writes to, and the plan of two more partitions."""
    return planned_build(listed_table)


def planned_beside_write() -> MemoryStorage:
    """A table with `files`, a write of Apache Hudi that has begun, and the plan of two more partitions."""
    return planned_build(with_foreign_write)


def planned_beside_clean() -> MemoryStorage:
    """A table with `files`, a clean that Apache Hudi has planned, and the plan of two more partitions."""
    return planned_build(with_foreign_clean)


def of_builds(
    name: str,
    runs: Mapping[str, Callable[[TableContext], object]],
    jobs: Mapping[str, Job],
    base: Callable[[], MemoryStorage] = planned_table,
    troubles: frozenset[Trouble] = EVERYTHING,
    start_ms: int = NOW_MS,
    strangers: Mapping[str, Job] = MappingProxyType({}),
) -> Case:
    """Actors around an index build. Before the judgement others execute or remove the plan."""
    oracle = BuildOracle(jobs, strangers, finish=(Recovers(), CancelsOverdue(), ExecutesBuild()))
    return Case(name, runs, oracle, base=base, troubles=troubles, start_ms=start_ms)

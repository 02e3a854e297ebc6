"""Actors of the commit log alone: a table without rows, and the decisions that can be made on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from hudi_ops.commit.decide.archive_boundary import HistoryFile
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.lock.locks import LockHolder
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import REQUESTED_REPLACE_METADATA
from hudi_ops.services.base.publish import Draft, Planned, publish_plan
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import SIMULATED_LOCK, simulated_context
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.log.commit_log import Log, load_log
from hudi_ops.timeline.log.entries import Complete, Entry, Properties
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from tests.definitions import create_table
from tests.tables import DEFINITION, START_MS

GROUP = "00000000-0000-0000-0000-000000000000-0"
OTHER_GROUP = "00000001-0000-0000-0000-000000000000-0"


class NoLock:
    """A lock that always grants, to everybody at once: what a lost lock is to those who still believe in it."""

    token = 0
    address = SIMULATED_LOCK

    def still_mine(self) -> bool:
        return True

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[NoLock]:
        yield self

    def holder(self) -> LockHolder | None:
        return None


def session_of(storage: Storage, clock: ManualClock, actor: str, *, locked: bool = True) -> Session:
    """A process's session."""
    context = simulated_context(storage, clock, actor)
    return Session(context if locked else replace(context, locks=NoLock()))


def bare_table(commits: int = 2) -> MemoryStorage:
    """A table with some commits that wrote nothing."""
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("log", clock)
    session = session_of(storage, clock, "creator")
    create_table(session, DEFINITION)
    for _ in range(commits):
        commit(session)
    return storage


def stat(file_id: str = GROUP, partition: str = "part=p0") -> WriteStat:
    """One data file of a group, which is not there: nothing in the log looks at it."""
    return WriteStat(file_id=file_id, path=f"{partition}/{file_id}_0-0-0_0.parquet", partition_path=partition)


def commit(session: Session, *stats: WriteStat) -> Complete:
    """Begin an attempt and complete it."""
    return finish(session, begin(session.ctx, session.loader, "commit"), *stats)


def finish(session: Session, attempt: Attempt, *stats: WriteStat) -> Complete:
    """Complete an attempt that was begun."""
    done = complete_write(session, attempt, Write("UPSERT", stats))
    session.release(attempt.instant)
    return done


def clustering_of(*groups: tuple[str, str]) -> bytes:
    """A clustering's requested file, with (partition, file id) as inputs."""
    slices = [
        {"dataFilePath": "", "deltaFilePaths": [], "fileId": file_id, "partitionPath": partition, "version": 1}
        for partition, file_id in groups
    ]
    plan = {"inputGroups": [{"slices": slices, "metrics": {}, "numOutputFileGroups": 1, "version": 1}], "version": 1}
    return avro.write_one(
        REQUESTED_REPLACE_METADATA, {"operationType": "CLUSTER", "clusteringPlan": plan, "version": 1}
    )


def draft(session: Session, *, partition: str = "part=p0", begun: TableState | None = None) -> Draft:
    """A clustering of one group."""
    inputs = Footprint(frozenset({(partition, GROUP[:8])}))
    return Draft(clustering_of((partition, GROUP)), inputs, begun or session.loader.load())


def plan(session: Session, partition: str = "part=p0") -> Planned:
    """Publish a clustering of one group."""
    return publish_plan(session, "clustering", draft(session, partition=partition))


def set_property(session: Session, key: str, value: str, *, remove: tuple[str, ...] = ()) -> None:
    """Decide a PROPERTIES delta."""

    def prepare(state: TableState, slot: int) -> Entry:
        common = session.entry(state, f"set {session.ctx.ids.new_id()}")
        return Properties(
            **common,
            set={key: value},
            remove=remove,
            facts=state.log.properties.facts,
            settings=state.log.properties.settings,
        )

    session.decide(prepare, "set a property")


def whole_log(storage: Storage) -> Log:
    """Every slot."""
    log = load_log(storage, None)
    assert log is not None
    return log


def timeline_of(storage: Storage) -> Timeline:
    """The active timeline."""
    return load_timeline(storage, load_config(storage))


def properties_of(storage: Storage) -> dict[str, str]:
    """`hoodie.properties`."""
    return load_config(storage).raw


def decided_only(storage: MemoryStorage, clock: ManualClock, *stats: WriteStat) -> Complete:
    """A writer dies between its slot and its completed file."""

    class Dies:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.CRASH_BEFORE if point.endswith(".commit") and "put_if_absent" in point else None

    dead = session_of(FaultyStorage(storage, Dies()), clock, "dead")
    with suppress(Crash):
        commit(dead, *stats)
    entry = whole_log(storage).entries[-1]
    assert isinstance(entry, Complete)
    assert timeline_of(storage).find(entry.instant).is_completed is False  # type: ignore[union-attr]
    return entry


def oldest(storage: MemoryStorage, count: int = 2) -> tuple[str, HistoryFile]:
    times = [one.time for one in timeline_of(storage).completed_writes][:count]
    kept = HistoryFile(".hoodie/timeline/history/some_file.parquet", frozenset(times))
    storage.put(kept.path, b"history")
    return max(times), kept

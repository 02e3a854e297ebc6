"""Actors that behave as Apache Hudi beside an index build: a writer and a cleaner that keep the partition `files` alone.

Each read `hoodie.properties` before the build was planned. Its delta commits lack what was announced later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.writer.commit import apply_delta
from hudi_ops.metadata.writer.delta import make_delta
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.paths import join
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.clean_bytes import CleanDone, encode_clean_plan, encode_clean_result
from hudi_ops.timeline.content.plans import CleanPlan, read_plan
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.names import completed_name, inflight_name, instant_of_ms, requested_name
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.scenarios.actors import Landed
from tests.protocol.scenarios.between import context
from tests.protocol.scenarios.hudi import HEARTBEATS, WriteConflict, Writer
from tests.protocol.scenarios.worlds import Job, at, small_table
from tests.tables import NOW_MS

LOOKS = 300
"""How often a writer looks, once a second, whether the write that it waits for has completed."""


class FilesWriter(Writer):
    """One process of Apache Hudi on a table whose metadata table has `files`; it keeps that partition."""

    def begin(self, *, unless_built: bool = False) -> str:
        """Take the instant of a write and start it; return it, or an empty one once a build has completed."""
        with self._locked("new instant"):
            if unless_built and self._is_built():
                return ""
            time = self._begin()
            self._put(inflight_name(time, "commit"))  # writers of ours wait for one that is starting
        return time

    def _is_built(self) -> bool:
        log = load_log(self._storage, None)
        assert log is not None
        return all(one.time in log.completed for one in self._timeline().pending if one.kind == "indexing")

    def go_on(self, time: str) -> None:
        """Beat for an instant that an earlier run took, unless it has missed a heartbeat.

        Raises:
            WriteConflict: another program took it for dead.
        """
        heartbeat = f"{HEARTBEATS}/{time}"
        beaten = self._storage.head(heartbeat)
        if beaten is None:
            raise WriteConflict(f"{time} has no heartbeat any more")
        self._beaten_ms = beaten.modified_ms
        self._beat(heartbeat)

    def _index(self, time: str, changes: Mapping[str, FileChanges]) -> None:
        version = self._config.version
        records = files_records(changes, version=version)
        groups = {MetadataPartition.FILES: 1}
        delta = make_delta([records], groups, instant=time, version=version, token="7-1-0")
        apply_delta(self._storage, delta, self._next_time())

    def plan_clean(self, partition: str) -> None:
        """Plan to delete the base files of a partition that newer ones have replaced."""
        with self._locked("plan clean"):
            timeline = self._timeline()
            newest = self._base(timeline, partition)[0].rpartition("/")[2]
            names = [info.name for info in self._storage.list_folder(partition).files]
            older = tuple(sorted(name for name in names if _replaced(name, newest)))
            assert older
            last = timeline.completed_writes[-1].time
            plan = CleanPlan("KEEP_LATEST_FILE_VERSIONS", last, {partition: older}, last_completed=last)
            self._put(requested_name(self._next_time(), "clean"), encode_clean_plan(self._storage, plan))

    def clean_planned(self) -> str:
        """Execute the pending clean; return its instant."""
        timeline = self._timeline()
        (pending,) = (one for one in timeline.pending if one.kind == "clean")
        plan = read_plan(self._storage, timeline, pending)
        assert isinstance(plan, CleanPlan)
        time = pending.time
        self._put(inflight_name(time, "clean"))
        for partition, names in plan.files.items():
            for name in names:
                self._storage.delete(join(partition, name))
        with self._locked("complete clean"):
            self._index(time, {partition: FileChanges(removed=names) for partition, names in plan.files.items()})
            done = CleanDone(time, 1, plan.files, {})
            self._put(completed_name(time, "clean", self._next_time()), encode_clean_result(plan, done, {}))
        return time


def _replaced(name: str, newest: str) -> bool:
    one, kept = parse_data_file(name), parse_data_file(newest)
    return one is not None and kept is not None and one.file_id == kept.file_id and one.instant < kept.instant


@dataclass(frozen=True)
class HudiWrites:
    """Writes a job into one partition, at an instant that it took before the build was planned."""

    name: str
    job: Job

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once; returns None if others took it for dead and rolled it back.

        Raises:
            WriteConflict: it has missed its own heartbeat.
        """
        timeline = load_timeline(ctx.storage, load_config(ctx.storage))
        pending = next((one for one in timeline.pending if one.kind == "commit"), None)  # the oldest
        if pending is None:
            return None
        writer = FilesWriter(ctx, self.name)
        writer.go_on(pending.time)
        return writer.finish(self.job, pending.time)


@dataclass(frozen=True)
class HudiWritesLate:
    """Writes a job after another write has completed, and while the build is not listed; else returns None.

    The other write may fail; then it gives up after `LOOKS` seconds.

    It read the properties before the announcement, and takes its instant after it.
    """

    name: str
    job: Job

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once."""
        writer = FilesWriter(ctx, self.name)
        began = instant_of_ms(NOW_MS)
        for _ in range(LOOKS):
            if load_timeline(ctx.storage, load_config(ctx.storage)).completed_writes[-1].completion_time >= began:
                break
            ctx.clock.sleep_s(1.0)
        else:
            return None
        time = writer.begin(unless_built=True)
        return writer.finish(self.job, time) if time else None


@dataclass(frozen=True)
class HudiCleans:
    """Executes a clean that was planned before the build; returns its instant."""

    name: str

    def __call__(self, ctx: TableContext) -> str:
        """Do it, once; waits for the lock for as long as others hold it."""
        while True:
            try:
                return FilesWriter(ctx, self.name).clean_planned()
            except Busy:
                ctx.clock.sleep_s(1.0)


@cache
def _listed() -> MemoryStorage:
    storage = at(small_table(), NOW_MS - 40_000)
    build_indexes(Session(context(storage, "creator")), IndexRequest(partitions=("files",)))
    storage = at(storage, NOW_MS - 35_000)
    writer = FilesWriter(context(storage, "creator"), "creator")
    writer.finish(Job("upsert", (("a2", 2),)), writer.begin())
    return storage


def listed_table() -> MemoryStorage:
    """The same rows in a table with `files`, which Apache Hudi writes to; partition a has a replaced base file."""
    return at(_listed(), NOW_MS)


def with_foreign_write() -> MemoryStorage:
    """The same table with a write of Apache Hudi that has taken its instant."""
    storage = at(_listed(), NOW_MS - 32_000)
    FilesWriter(context(storage, "theirs"), "theirs").begin()
    return at(storage, NOW_MS)


def with_foreign_clean() -> MemoryStorage:
    """The same table with a clean of partition a that Apache Hudi has planned."""
    storage = at(_listed(), NOW_MS - 32_000)
    FilesWriter(context(storage, "theirs"), "theirs").plan_clean("part=a")
    return at(storage, NOW_MS)

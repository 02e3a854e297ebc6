"""A writer of Apache Hudi as an actor: it takes the table's lock, knows no slots, and rolls back what it takes for dead.

Optimistic concurrency with the LAZY policy, as docs/protocol §10 asks of writers beside ours: instant and completion time are
taken under the lock, file groups are compared with what completed since the start and with planned clusterings, heartbeats are
empty files, and failed writes are judged *before* the lock is taken (docs/format §8.3, §9.4, §9.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from hudi_ops.concurrency.lock.locks import LockProvider
from hudi_ops.concurrency.markers import delete_markers, list_markers, put_marker
from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.files.names import DataFileName, base_file_name, data_path, parse_data_file
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from hudi_ops.formats.timeline.timeline_schemas import REQUESTED_REPLACE_METADATA
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, completed_name, inflight_name, instant_of_ms, ms_of_instant, requested_name
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.scenarios.actors import Landed
from tests.protocol.scenarios.base_files import base_file
from tests.protocol.scenarios.listing_reader import replaced_groups, rows_in
from tests.protocol.scenarios.worlds import Job, Rows

WRITER_KEY = "hoodie.scenarios.writer"  # a key that our commits do not repeat
"""Extra metadata of its commits: which actor wrote them."""
HEARTBEATS = ".hoodie/.heartbeat"
EXPIRY_MS = 120_000


class WriteConflict(HudiOpsError):
    """`HoodieWriteConflictException`: an overlapping write completed since it began; nothing of this one is visible."""


@dataclass(frozen=True)
class Hudi:
    """Writes a job into one partition, then cleans up after the dead.

    Args:
        name: of the actor, which its commits carry.
        job: an upsert or a delete of keys of one partition; None: it only cleans up.
        cleans: whether it rolls back failed writes, after its own commit.
    """

    name: str
    job: Job | None = None
    cleans: bool = True

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it.

        Raises:
            WriteConflict: as Apache Hudi does, after its heartbeat is gone.
        """
        writer = Writer(ctx, self.name)
        landed = writer.write(self.job) if self.job is not None else None
        if self.cleans:
            writer.clean()
        return landed


@dataclass(frozen=True)
class HudiClusters:
    """Plans a clustering of one partition, as a planner run by hand does, and executes it."""

    name: str
    partition: str

    def __call__(self, ctx: TableContext) -> None:
        """Do it."""
        writer = Writer(ctx, self.name)
        writer.cluster(writer.plan_clustering(self.partition), self.partition)


class Writer:
    """One process of Apache Hudi on one table."""

    def __init__(self, ctx: TableContext, name: str) -> None:
        self._ctx = ctx
        self._storage = ctx.storage
        self._name = name
        self._config: TableConfig = load_config(ctx.storage)
        self._beaten_ms = 0

    def write(self, job: Job) -> Landed:
        """Write a job.

        Raises:
            WriteConflict: an overlapping write completed since it began.
        """
        with self._locked("new instant"):
            time = self._begin()
        return self.finish(job, time)

    def _begin(self) -> str:
        time = self._next_time()
        self._storage.put(f"{HEARTBEATS}/{time}", b"")
        self._beaten_ms = self._ctx.clock.now_ms()
        self._put(requested_name(time, "commit"))
        return time

    def finish(self, job: Job, time: str) -> Landed:
        """Write a job at an instant that was taken.

        Raises:
            WriteConflict: an overlapping write completed since it began.
        """
        heartbeat = f"{HEARTBEATS}/{time}"
        assert self._ctx.beats is not None
        with self._ctx.beats.every(EXPIRY_MS / 2_000, lambda: self._beat(heartbeat)):
            try:
                self._work(job, time)
            except WriteConflict:
                self._storage.delete(heartbeat)
                raise
        delete_markers(self._storage, time)
        self._storage.delete(heartbeat)
        return Landed(time, job)

    def _work(self, job: Job, time: str) -> None:
        # What completes from here on it checks; what completed since it took its instant it does not.
        seen = self._timeline()
        self._put(inflight_name(time, "commit"))
        (partition,) = job.paths
        base, held = self._base(seen, partition)
        previous = base.rpartition("/")[2]
        stat = self._put_base_file(time, partition, _named(previous).file_id, job.applied(held), previous)
        with self._locked("commit"):
            self._refuse_conflicts(seen, time, stat)
            if self._storage.head(self._path(inflight_name(time, "commit"))) is None:
                raise WriteConflict(f"{time} has no inflight any more")
            if self._ctx.clock.now_ms() - self._beaten_ms > EXPIRY_MS:
                raise WriteConflict(f"{time} missed its own heartbeat")
            metadata = CommitMetadata(
                operation=job.operation.upper(), stats=(stat,), extra={**self._carried(), WRITER_KEY: self._name}
            )
            self._index(time, {partition: FileChanges({stat.path.rpartition("/")[2]: stat.file_size_in_bytes})})
            self._put(completed_name(time, "commit", self._next_time()), metadata.to_bytes())

    def _index(self, time: str, changes: Mapping[str, FileChanges]) -> None:
        """Add files to the metadata table; this writer keeps none."""

    def _beat(self, heartbeat: str) -> None:
        """It stops for good once it has missed one: it may count as dead already."""
        now_ms = self._ctx.clock.now_ms()
        if now_ms - self._beaten_ms <= EXPIRY_MS:
            self._storage.put(heartbeat, b"")
            self._beaten_ms = now_ms

    def plan_clustering(self, partition: str) -> str:
        """Plan to rewrite a partition's file group under another id, as it is now; returns the plan's instant."""
        with self._locked("plan clustering"):
            path, _ = self._base(self._timeline(), partition)
            time = self._next_time()
            self._put(requested_name(time, "clustering"), _clustering_plan(partition, path))
        return time

    def cluster(self, time: str, partition: str) -> None:
        """Execute a plan: the rows of its input as they were planned; the input is replaced. Nothing is looked at again."""
        timeline = self._timeline()
        planned_at = timeline.find(time)
        plan = read_plan(self._storage, timeline, planned_at) if planned_at is not None else None
        if plan is None:
            raise WriteConflict(f"{time} has no requested file any more")
        assert isinstance(plan, ReplacePlan)
        (planned,) = plan.slices
        if self._storage.head(self._path(requested_name(time, "clustering"))) is None:
            raise WriteConflict(f"{time} has no requested file any more")
        self._put(inflight_name(time, "clustering"))
        rows = dict(rows_in(self._storage.get(data_path(partition, planned.base_file))))
        fresh_id = f"{planned.file_id[:8]}-0000-4000-8000-{time[-12:]}-0"
        stat = self._put_base_file(time, partition, fresh_id, rows, previous="")
        with self._locked("complete clustering"):
            replaced = {partition: (planned.file_id,)}
            extra = {**self._carried(), WRITER_KEY: self._name}
            metadata = CommitMetadata(operation="CLUSTER", stats=(stat,), extra=extra, replaced=replaced)
            self._put(completed_name(time, "clustering", self._next_time()), metadata.to_bytes())
        delete_markers(self._storage, time)

    def clean(self) -> None:
        """Roll back failed writes: whom it took for dead before the lock is rolled back under it, without another look."""
        dead = [
            one for one in self._timeline().pending if one.kind in {"commit", "replacecommit"} and self._is_dead(one)
        ]
        # What completed has no heartbeat any more: of those that seem dead it keeps what a second look finds pending.
        pending = {one.time for one in self._timeline().pending} if dead else set()
        for target in (one for one in dead if one.time in pending):
            with self._locked("schedule rollback"):
                timeline = self._timeline()
                if timeline.find(target.time) is None:
                    continue
                begun = rollback_of(self._storage, timeline, target.time)
                if begun is not None and begun.is_completed:
                    continue
                time = begun.time if begun is not None else self._next_time()
                if begun is None:
                    self._put(requested_name(time, "rollback"), _rollback_plan(target))
            self._put(inflight_name(time, "rollback"))
            if State.INFLIGHT in target.states:
                for marker in list_markers(self._storage, target.time):
                    self._storage.delete(marker.data_path)
            with self._locked("finish rollback"):
                self._storage.delete(self._path(inflight_name(target.time, target.action)))
                self._storage.delete(self._path(requested_name(target.time, target.action)))
                if self._timeline().find(time, "rollback") is not None:
                    completion = self._next_time()
                    self._put(completed_name(time, "rollback", completion), _rollback_result(time, target, completion))
            delete_markers(self._storage, target.time)
            self._storage.delete(f"{HEARTBEATS}/{target.time}")

    def _is_dead(self, instant: Instant) -> bool:
        info = self._storage.head(f"{HEARTBEATS}/{instant.time}")
        return info is None or self._ctx.clock.now_ms() - info.modified_ms > EXPIRY_MS

    def _refuse_conflicts(self, seen: Timeline, time: str, mine: WriteStat) -> None:
        known = {(one.time, one.completion_time) for one in seen.completed_writes}
        timeline = self._timeline()
        for one in timeline.completed_writes:
            if (one.time, one.completion_time) in known:
                continue
            metadata = CommitMetadata.from_bytes(self._storage.get(timeline.path(one.file_name)))
            touched = {(stat.partition_path, stat.file_id) for stat in metadata.stats}
            touched |= {(path, file_id) for path, ids in (metadata.replaced or {}).items() for file_id in ids}
            if (mine.partition_path, mine.file_id) in touched:
                raise WriteConflict(f"{time} and {one.time} wrote {mine.file_id}")
        for one in timeline.pending:
            plan = read_plan(self._storage, timeline, one) if one.action == "clustering" else None
            slices = plan.slices if isinstance(plan, ReplacePlan) else ()
            if any(planned.file_id == mine.file_id for planned in slices):
                raise WriteConflict(f"{one.time} will replace {mine.file_id}")

    def _base(self, seen: Timeline, partition: str) -> tuple[str, Rows]:
        """Path and rows of the one visible base file of a partition, as of the timeline that it began with."""
        completed = {one.time for one in seen.completed_writes}
        files = [info.path for info in self._storage.list_folder(partition).files if info.name.endswith(".parquet")]
        parsed = {path: parse_data_file(path.rpartition("/")[2]) for path in files}
        hidden = replaced_groups(self._storage, seen)
        visible = sorted(
            (name.instant, path)
            for path, name in parsed.items()
            if name and name.instant in completed and (partition, name.file_id) not in hidden
        )
        path = visible[-1][1]
        return path, dict(rows_in(self._storage.get(path)))

    def _put_base_file(self, time: str, partition: str, file_id: str, rows: Rows, previous: str) -> WriteStat:
        name = base_file_name(file_id, 7, 1, time)
        path = data_path(partition, name)
        body = base_file(rows, partition, time, name)
        put_marker(self._storage, time, path, replaces=bool(previous))
        self._storage.put(path, body)
        return WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            prev_commit=_named(previous).instant if previous else "null",
            prev_base_file=previous or None,
            num_writes=len(rows),
            total_write_bytes=len(body),
            file_size_in_bytes=len(body),
        )

    def _carried(self) -> dict[str, str]:
        timeline = self._timeline()
        newest = max(timeline.completed_writes, key=lambda one: one.completion_time)
        extra = CommitMetadata.from_bytes(self._storage.get(timeline.path(newest.file_name))).extra
        return {"schema": extra["schema"]} if "schema" in extra else {}

    @contextmanager
    def _locked(self, purpose: str) -> Iterator[None]:
        with cast(LockProvider, self._ctx.locks).acquire(self._ctx.lock_timeout_s, f"hudi: {purpose}"):
            yield

    def _next_time(self) -> str:
        """Now, above all that the timeline shows: under an honest lock that is what its clock skew adjusting times amount to."""
        newest = max(self._timeline().known_times)
        now = instant_of_ms(self._ctx.clock.now_ms())
        return now if now > newest else instant_of_ms(ms_of_instant(newest) + 1)

    def _timeline(self) -> Timeline:
        return load_timeline(self._storage, self._config)

    def _path(self, name: str) -> str:
        return f"{self._config.timeline_folder}/{name}"

    def _put(self, name: str, body: bytes = b"") -> None:
        self._storage.put(self._path(name), body)


def _named(name: str) -> DataFileName:
    parsed = parse_data_file(name)
    assert parsed is not None, name
    return parsed


def _clustering_plan(partition: str, path: str) -> bytes:
    file_id = _named(path.rpartition("/")[2]).file_id
    one = {"dataFilePath": path, "deltaFilePaths": [], "fileId": file_id, "partitionPath": partition, "version": 1}
    plan = {"inputGroups": [{"slices": [one], "metrics": {}, "numOutputFileGroups": 1, "version": 1}], "version": 1}
    return avro.write_one(
        REQUESTED_REPLACE_METADATA, {"operationType": "CLUSTER", "clusteringPlan": plan, "version": 1}
    )


def _rollback_plan(target: Instant) -> bytes:
    plan = {
        "instantToRollback": {"commitTime": target.time, "action": target.kind},
        "RollbackRequests": [],
        "version": 1,
    }
    return avro.write_one(ROLLBACK_PLAN, plan)


def _rollback_result(time: str, target: Instant, completion: str) -> bytes:
    return avro.write_one(
        ROLLBACK_METADATA,
        {
            "startRollbackTime": time,
            "timeTakenInMillis": ms_of_instant(completion) - ms_of_instant(time),
            "totalFilesDeleted": 0,
            "commitsRollback": [target.time],
            "partitionMetadata": {},
            "version": 1,
            "instantsRollback": [{"commitTime": target.time, "action": target.kind}],
        },
    )

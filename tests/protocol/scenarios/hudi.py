"""A writer of Apache Hudi as an actor: it takes the table's lock, knows no slots, and rolls back what it takes for dead.

Optimistic concurrency with the LAZY policy, as docs/protocol.md §10 asks of writers beside ours: the instant and its completion time
are taken under the lock, file groups are compared with what completed since the start, heartbeats are empty files, and failed writes
are judged *before* the lock is taken (docs/format.md §8.3, §9.4, §9.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast


from hudi_ops.concurrency.locks import LockProvider
from hudi_ops.concurrency.markers import delete_markers, list_markers, put_marker
from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.files.base_file import WriterSettings, encode_base_file
from hudi_ops.files.names import base_file_name, data_path, parse_data_file
from hudi_ops.formats import avro
from hudi_ops.formats.service_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from hudi_ops.kernels.meta_columns import add_meta_columns, with_file_name
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, completed_name, inflight_name, instant_of_ms, ms_of_instant, requested_name
from hudi_ops.timeline.properties_file import load_config
from hudi_ops.timeline.rollbacks import rollback_of
from tests.protocol.scenarios.actors import Landed
from tests.protocol.scenarios.listing_reader import rows_in
from tests.protocol.scenarios.worlds import SCHEMA, Job, Rows, rows_of

WRITER_KEY = "scenarios.writer"
"""Extra metadata of its commits: which actor wrote them."""
HEARTBEATS = ".hoodie/.heartbeat"
EXPIRY_MS = 120_000


class WriteConflict(Exception):
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
        writer = _Writer(ctx, self.name)
        landed = writer.write(self.job) if self.job is not None else None
        if self.cleans:
            writer.clean()
        return landed


class _Writer:
    def __init__(self, ctx: TableContext, name: str) -> None:
        self._ctx = ctx
        self._storage = ctx.storage
        self._name = name
        self._config: TableConfig = load_config(ctx.storage)

    def write(self, job: Job) -> Landed:
        seen = self._timeline()
        with self._locked("new instant"):
            time = self._next_time()
            self._put(requested_name(time, "commit"))
        heartbeat = f"{HEARTBEATS}/{time}"
        self._storage.put(heartbeat, b"")
        self._put(inflight_name(time, "commit"))
        (partition,) = job.paths
        base, held = self._base(seen, partition)
        stat = self._write_base_file(time, partition, base, job.applied(held))
        try:
            with self._locked("commit"):
                self._refuse_conflicts(seen, time, stat)
                if self._storage.head(self._path(inflight_name(time, "commit"))) is None:
                    raise WriteConflict(f"{time} has no inflight any more")
                metadata = CommitMetadata(
                    operation=job.operation.upper(), stats=(stat,), extra={**self._carried(), WRITER_KEY: self._name}
                )
                self._put(completed_name(time, "commit", self._next_time()), metadata.to_bytes())
        except WriteConflict:
            self._storage.delete(heartbeat)
            raise
        delete_markers(self._storage, time)
        self._storage.delete(heartbeat)
        return Landed(time, job)

    def clean(self) -> None:
        """Roll back failed writes: whom it took for dead before the lock is rolled back under it, without another look."""
        dead = [
            one for one in self._timeline().pending if one.kind in {"commit", "replacecommit"} and self._is_dead(one)
        ]
        for target in dead:
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

    def _base(self, seen: Timeline, partition: str) -> tuple[str, Rows]:
        """Path and rows of the one visible base file of a partition, as of the timeline that it began with."""
        completed = {one.time for one in seen.completed_writes}
        files = [info.path for info in self._storage.list_folder(partition).files if info.name.endswith(".parquet")]
        parsed = {path: parse_data_file(path.rpartition("/")[2]) for path in files}
        visible = sorted((name.instant, path) for path, name in parsed.items() if name and name.instant in completed)
        path = visible[-1][1]
        return path, dict(rows_in(self._storage.get(path)))

    def _write_base_file(self, time: str, partition: str, base: str, rows: Rows) -> WriteStat:
        old = base.rpartition("/")[2]
        parsed = parse_data_file(old)
        assert parsed is not None
        name = base_file_name(parsed.file_id, 7, 1, time)
        path = data_path(partition, name)
        body = _base_file(rows, partition, time, name, self._config.name)
        put_marker(self._storage, time, path, replaces=True)
        self._storage.put(path, body)
        return WriteStat(
            file_id=parsed.file_id,
            path=path,
            partition_path=partition,
            prev_commit=parsed.instant,
            prev_base_file=old,
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


def _base_file(rows: Rows, partition: str, time: str, name: str, table: str) -> bytes:
    plain = rows_of(dict(sorted(rows.items())))
    keys = plain["id"].combine_chunks()
    full = with_file_name(
        add_meta_columns(
            plain.cast(SCHEMA),
            keys=keys,
            partition_path=partition,
            instant=time,
            file_name=name,
            seqno_prefix=f"{time}_7_",
        ),
        name,
    )
    return bytes(memoryview(encode_base_file(full, table, WriterSettings())))


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

"""Decide which child logs a write needs beside a pending resize, and write them (RFC-42).

A write needs them for each resize that is pending in the state in which it completes. Its tasks put them for the resizes that are
pending as it begins, and `made` puts them for others, without the lock. Under the lock the write checks that they still fit; if
not, it releases the lock, corrects them and decides again. So neither the resize nor the write waits for the other.

Source: docs/protocol §29.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import pyarrow as pa

from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.markers import marker_path
from hudi_ops.files.base.base_file import WriterSettings, stored_schema
from hudi_ops.files.statistics.statistics import StatisticsRequest
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.pending_resizes import Group, PendingResize, ring_of_children
from hudi_ops.services.base.slices import merging_of
from hudi_ops.services.write.dual.child_logs import ChildLog, ChildrenTask, copy_into_children
from hudi_ops.services.write.tasks.merge import BucketResult, BucketTask
from hudi_ops.timeline.state import TableState

AHEAD_BITS = 16
"""Bound of the steps between versions, of which Apache Hudi reads 31 bits."""


@dataclass
class DualWriter:
    """Child logs of one write.

    Attributes:
        schema: the table's columns from this write on, without meta columns.
        wanted: statistics of the files.
        written: gets the path of each child log before it is written, for a rollback.
        write: the write without child logs; set before `made` is called.
    """

    session: Session
    attempt: Attempt
    schema: pa.Schema
    wanted: StatisticsRequest
    written: list[str]
    write: Write = field(init=False)
    _paths: list[str] = field(default_factory=list)
    _made: dict[str, list[ChildLog]] = field(default_factory=dict)
    _lost: dict[str, int] = field(default_factory=dict)
    """How often another write took the version of a child log first, by resize."""

    def with_children(self, tasks: Sequence[BucketTask]) -> list[BucketTask]:
        """Return tasks with the children of the resizes that are pending as the write begins.

        `take` has to get the results.
        """
        state = self.attempt.begun
        pending = self.session.resizes.pending(state, looks_back=True)
        return [replace(task, children=self._children_of(state, pending, task)) for task in tasks]

    def take(self, write: Write, results: Sequence[BucketResult]) -> None:
        """Take the write, and the child logs that its tasks put."""
        self.write = write
        for result in results:
            for log in result.children:
                self._made.setdefault(log.resize, []).append(log)

    @property
    def markers(self) -> list[str]:
        """Return the markers of all child logs, also of those that the write does not need any more."""
        return [marker_path(self.attempt.instant, path, replaces=False) for path in self._paths]

    @property
    def joined(self) -> frozenset[str]:
        """Return the instants of the resizes for which this write has child logs of all its parents."""
        return frozenset(self._made)

    def made(self, state: TableState) -> Write:
        """Return the write with the child logs that it needs in a state; called without the lock.

        Child logs of a resize that is not pending any more are deleted. Those whose version another write took are written again
        under a higher one.

        Raises:
            NotFound: a log file of this write is gone: another process rolled it back.
        """
        needed = self._needed(state, looks_back=True)
        for instant in self._made.keys() - {resize.instant for resize in needed}:
            self._drop(instant)
        for resize in needed:
            known = self._made.get(resize.instant)
            if known is not None and self._rises(state, resize, known):
                continue
            if known is not None:
                self._lost[resize.instant] = self._lost.get(resize.instant, 0) + 1
                self._drop(resize.instant)
            self._made[resize.instant] = self._written(state, resize)
        logs = [log for found in self._made.values() for log in found]
        return replace(
            self.write,
            stats=[*self.write.stats, *(log.stat for log in logs)],
            facts=[*self.write.facts, *(log.facts for log in logs if log.facts is not None)],
        )

    def fits(self, state: TableState) -> bool:
        """Return whether the child logs are those that the write needs; called under the lock."""
        needed = self._needed(state)
        return self._made.keys() == {resize.instant for resize in needed} and all(
            self._rises(state, resize, self._made[resize.instant]) for resize in needed
        )

    def _needed(self, state: TableState, *, looks_back: bool = False) -> list[PendingResize]:
        """Return the pending resizes in whose parents this write puts log files and nothing else.

        A file group that the write begins or replaces has no rows for the children.
        """
        if self.write.replaced is not None:
            return []
        groups = {(stat.partition_path, stat.file_id) for stat in self.write.stats if stat.log_files}
        others = {(stat.partition_path, stat.file_id) for stat in self.write.stats if not stat.log_files}
        return [
            resize
            for resize in self.session.resizes.pending(state, looks_back=looks_back)
            if not groups.isdisjoint(resize.by_parent) and others.isdisjoint(resize.by_parent)
        ]

    def _rises(self, state: TableState, resize: PendingResize, logs: Sequence[ChildLog]) -> bool:
        """Return whether each child log has a higher version than those of completed writes.

        Readers merge the log files of a group in the order of versions, which must be the order of completion.
        """
        newest = self.session.resizes.newest_versions(state, resize)
        return all(log.version > newest.get((log.stat.partition_path, log.stat.file_id), 0) for log in logs)

    def _written(self, state: TableState, resize: PendingResize) -> list[ChildLog]:
        """Put the rows of this write's log files in the parents into the children."""
        parents = [stat for stat in self.write.stats if (stat.partition_path, stat.file_id) in resize.by_parent]
        given = [
            (self._task(state, resize, (stat.partition_path, stat.file_id)), stat.path.lstrip("/")) for stat in parents
        ]
        return [log for logs in self.session.ctx.engine.map(copy_into_children, given) for log in logs]

    def _children_of(
        self, state: TableState, pending: Sequence[PendingResize], task: BucketTask
    ) -> tuple[ChildrenTask, ...]:
        parent = (task.partition_path, task.file_id)
        if not task.is_appended:
            return ()
        return tuple(self._task(state, resize, parent) for resize in pending if parent in resize.by_parent)

    def _task(self, state: TableState, resize: PendingResize, parent: Group) -> ChildrenTask:
        change = resize.by_parent[parent]
        ring = ring_of_children(change, resize.instant)
        newest = self.session.resizes.newest_versions(state, resize)
        ids = [ring.file_id(node) for node in range(len(ring.prefixes))]
        # Writes that begin later see a higher head, so most get different versions. A write that lost its version goes far ahead.
        ahead = 1 << min(self._lost.get(resize.instant, 0), AHEAD_BITS)
        versions = tuple(max(state.log.head, newest.get((change.partition_path, one), 0)) + ahead for one in ids)
        rules = merging_of(state, self.schema)[0]
        task = ChildrenTask(
            storage=self.session.ctx.storage,
            instant=self.attempt.instant,
            children=ring,
            versions=versions,
            number=crc32(parent[1].encode()) & 0x7FFFFFFF,
            engine=ring_engine_of(state.log.properties.facts),
            rules=rules,
            stored=stored_schema(self.schema, rules.keys is None),
            wanted=self.wanted,
            log_format=self.session.log_format,
            settings=WriterSettings(),
        )
        self._paths += task.paths
        self.written += task.paths
        return task

    def _drop(self, instant: str) -> None:
        logs = self._made.pop(instant, [])
        remove_paths(self.session.ctx.storage, Reason.LEFT_OUT, [log.stat.path for log in logs])

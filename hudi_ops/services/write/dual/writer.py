"""Decide which child logs a write needs beside a pending resize, and write them (RFC-42).

A write needs them for each resize that is pending in the state in which it completes. It makes them once its own files are
written, without the lock. Under the lock it checks that they still fit; if not, it gives the lock up, mends them and decides again.
So neither the resize nor the write waits for the other.

Source: docs/protocol.md §29.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.markers import marker_path
from hudi_ops.files.base.base_file import WriterSettings, stored_schema
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.pending_resizes import PendingResize, ring_of_children
from hudi_ops.index.resizes import RingChange
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.write.dual.child_logs import ChildLog, ChildTask, write_child_logs
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.state import TableState


@dataclass
class DualWriter:
    """Child logs of one write.

    Attributes:
        write: the write without child logs.
        schema: the table's columns from this write on, without meta columns.
        written: gets the path of each child log before it is written, for a rollback.
    """

    session: Session
    attempt: Attempt
    write: Write
    schema: pa.Schema
    written: list[str]
    _paths: list[str] = field(default_factory=list)
    _made: dict[str, list[ChildLog]] = field(default_factory=dict)

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
            if known is None or not self._rises(state, resize, known):
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
        """Return the pending resizes of which this write has only log files in the parents.

        A file group that it begins or replaces has no rows for the children.
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

        Readers merge the log files of one group in this order, which must be that of completion.
        """
        newest = self.session.resizes.newest_versions(state, resize)
        return all(log.version > newest.get((log.stat.partition_path, log.stat.file_id), 0) for log in logs)

    def _written(self, state: TableState, resize: PendingResize) -> list[ChildLog]:
        newest = self.session.resizes.newest_versions(state, resize)
        parents: dict[int, list[WriteStat]] = defaultdict(list)
        changes: dict[int, RingChange] = {}
        for stat in self.write.stats:
            change = resize.by_parent.get((stat.partition_path, stat.file_id))
            if change is not None:
                parents[id(change)].append(stat)
                changes[id(change)] = change
        tasks = [
            task for key, change in changes.items() for task in self._tasks(state, resize, change, parents[key], newest)
        ]
        paths = [path for task in tasks for path in task.paths]
        self._paths += paths
        self.written += paths
        return [log for logs in self.session.ctx.engine.map(write_child_logs, tasks) for log in logs]

    def _tasks(
        self,
        state: TableState,
        resize: PendingResize,
        change: RingChange,
        parents: Sequence[WriteStat],
        newest: Mapping[tuple[str, str], int],
    ) -> list[ChildTask]:
        """Return a task for each log file of this write in the parents of one plan group."""
        ring = ring_of_children(change, resize.instant)
        floor = state.log.head  # writers that start later get higher versions without asking each other
        ids = [ring.file_id(node) for node in range(len(ring.prefixes))]
        versions = tuple(max(floor, newest.get((change.partition_path, one), 0)) + 1 for one in ids)
        rules = merging_of(state, self.schema)[0]
        return [
            ChildTask(
                storage=self.session.ctx.storage,
                path=stat.path.lstrip("/"),
                instant=self.attempt.instant,
                children=ring,
                versions=versions,
                number=crc32(stat.file_id.encode()) & 0x7FFFFFFF,
                engine=ring_engine_of(state.log.properties.facts),
                rules=rules,
                stored=stored_schema(self.schema, rules.keys is None),
                wanted=self.write.wanted,
                log_format=self.session.log_format,
                settings=WriterSettings(),
            )
            for stat in parents
        ]

    def _drop(self, instant: str) -> None:
        logs = self._made.pop(instant, [])
        self.session.ctx.storage.delete_all([log.stat.path for log in logs])

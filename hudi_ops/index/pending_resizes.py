"""Read the pending resizes of a table, and the versions of log files in their children.

Source: docs/protocol §29.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hudi_ops.errors import Corrupt
from hudi_ops.files.names import parse_data_file
from hudi_ops.index.resizes import RingChange, changes_of, is_resize
from hudi_ops.index.ring import Ring
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import cancel_slot
from hudi_ops.timeline.log.entries import cancel_of
from hudi_ops.timeline.state import CommitReader, TableState

Group = tuple[str, str]
"""Partition path and file id of a file group."""


@dataclass(frozen=True)
class PendingResize:
    """A resize that is planned or executed, and not cancelled."""

    instant: str
    changes: tuple[RingChange, ...]

    @cached_property
    def by_parent(self) -> Mapping[Group, RingChange]:
        """Return the change of each parent group."""
        return {(change.partition_path, parent): change for change in self.changes for parent in change.parents}

    @cached_property
    def partitions(self) -> frozenset[str]:
        """Return the partitions of its groups."""
        return frozenset(change.partition_path for change in self.changes)


def ring_of_children(change: RingChange, instant: str) -> Ring:
    """Return a ring of the child nodes of one plan group alone.

    It leads each hash that the parents hold to its child: the children's values cut the parents' common range.
    """
    nodes = sorted((child.value, child.prefix) for child in change.children if child.prefix is not None)
    values = np.array([value for value, _ in nodes], np.int64)
    return Ring(change.partition_path, instant, len(nodes), 0, values, tuple(prefix for _, prefix in nodes))


@dataclass
class ResizeReader:
    """Reader of pending resizes; plans are read once, and commits counted once."""

    storage: Storage
    commits: CommitReader
    _plans: dict[str, PendingResize | None] = field(default_factory=dict)
    _cancelled: set[str] = field(default_factory=set)
    _counted: dict[str, set[str]] = field(default_factory=dict)
    _versions: dict[str, dict[Group, int]] = field(default_factory=dict)

    def pending(self, state: TableState, *, looks_back: bool = False) -> list[PendingResize]:
        """Return the resizes that writers have to write for, oldest first.

        Plans that cannot be read are left out: they conflict with every write. `looks_back`: also look for CANCELs in older parts
        of the log; false under the lock, where they are already known.
        """
        found = []
        for instant in state.timeline.pending:
            if instant.action != "clustering" or instant.time in self._cancelled:
                continue
            if instant.time not in self._plans:
                self._read(state, instant)
            resize = self._plans.get(instant.time)
            if resize is None:
                continue
            fate = state.log.fate(instant.time)
            if cancel_of(fate) is not None or (
                looks_back and cancel_slot(self.storage, state, instant.time) is not None
            ):
                self._cancelled.add(instant.time)
            elif fate is None:
                found.append(resize)
        return found

    def unread(self, state: TableState) -> list[str]:
        """Return the pending clusterings whose plan could not be read: each may be a resize."""
        planned = [one.time for one in state.timeline.pending if one.action == "clustering"]
        return [time for time in planned if time not in self._plans and time not in self._cancelled]

    def _read(self, state: TableState, instant: Instant) -> None:
        """Read a plan and keep it, unless its requested file is away (`commit.decide.withdraw`)."""
        with suppress(Corrupt):
            plan = read_plan(self.storage, state.timeline, instant)
            if plan is not None:
                self._plans[instant.time] = (
                    PendingResize(instant.time, changes_of(plan, state.config.name, instant.time))
                    if isinstance(plan, ReplacePlan) and is_resize(plan)
                    else None
                )

    def newest_versions(self, state: TableState, resize: PendingResize) -> Mapping[Group, int]:
        """Return the highest version of the completed log files of each child group.

        Each completed write is counted once, by its metadata: nothing is listed.
        """
        counted = self._counted.setdefault(resize.instant, set())
        versions = self._versions.setdefault(resize.instant, {})
        for write in state.timeline.completed_since(resize.instant):
            if write.time in counted:
                continue
            metadata = self.commits.metadata(state.timeline, write)
            if metadata is None:
                continue
            counted.add(write.time)
            for stat in metadata.stats:
                name = parse_data_file(stat.file_name) if is_child_log(stat, write.time) else None
                if name is not None and name.instant == resize.instant:
                    group = (stat.partition_path, stat.file_id)
                    versions[group] = max(name.version, versions.get(group, 0))
        return versions

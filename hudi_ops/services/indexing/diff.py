"""Take snapshots of a table's files and slices, and compare two of them.

Index builds use the difference to catch up with concurrent writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.content.plans import CleanResult, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.moment import Moment
from hudi_ops.view.slices import Slice, is_partitioned
from hudi_ops.view.snapshot import TableView

Group = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True)
class TableSnapshot:
    """Sizes of committed files, by partition path and name, and visible slices of one state."""

    state: TableState
    files: Mapping[str, Mapping[str, int]]
    slices: Mapping[Group, Slice]

    @property
    def completed(self) -> frozenset[Instant]:
        """Return the instants that had completed by then and may have changed files."""
        return changing(self.state.timeline)

    @property
    def visible(self) -> dict[str, DataFile]:
        """Return the files of the slices, by path."""
        return {file.path: file for slice_ in self.slices.values() for file in files_of_slice(slice_)}

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the files of the slices."""
        return sum(file.size_bytes for file in self.visible.values())


@dataclass(frozen=True)
class TableDiff:
    """Difference between two snapshots.

    Attributes:
        files: added and removed files, by partition path.
        new: files that readers see now and did not see before.
        slices: slices of the groups that changed, before and after; None where a group has none.
    """

    files: Mapping[str, FileChanges]
    new: tuple[DataFile, ...]
    slices: tuple[tuple[Slice | None, Slice | None], ...]


def files_of_slice(slice_: Slice) -> list[DataFile]:
    """Return the base file and the log files of a slice."""
    return [*([slice_.base] if slice_.base is not None else []), *slice_.logs]


def snapshot(session: Session, state: TableState, before: TableSnapshot | None = None) -> TableSnapshot:
    """Take a snapshot of a table, by a listing after `state` was read.

    After an earlier snapshot only the partitions that were touched since are listed.

    Raises:
        Corrupt: a file is lost that a completed write names.
        Conflict: a file was removed while the snapshot was taken.
    """
    engine = session.ctx.local_engine
    listing = StorageListing(session.ctx.storage, is_partitioned=is_partitioned(state.config), engine=engine)
    touched = _touched(session, before, state) if before is not None else None
    listed = listing.walk().files if touched is None else listing.files(sorted(touched))
    view = TableView(state.config, state.timeline, session.commits, listed)
    files: dict[str, dict[str, int]] = {path: {} for path in listed}
    for file in view.committed_files():
        files[file.partition_path][file.name] = file.size_bytes
    moment = Moment(
        session.ctx.storage, state.config, state.timeline, session.commits, is_whole=touched is None, is_writing=True
    )
    slices = {slice_.key: slice_ for slice_ in moment.slices(listed, listing.source)}
    if before is not None and touched is not None:
        kept = {group: slice_ for group, slice_ in before.slices.items() if group[0] not in touched}
        return TableSnapshot(state, {**before.files, **files}, {**kept, **slices})
    return TableSnapshot(state, files, slices)


def diff(before: TableSnapshot, after: TableSnapshot) -> TableDiff:
    """Compare two snapshots."""
    files = {}
    for path in before.files.keys() | after.files.keys():
        old, new = before.files.get(path, {}), after.files.get(path, {})
        if old != new:
            added = {name: size for name, size in new.items() if old.get(name) != size}
            files[path] = FileChanges(added, sorted(old.keys() - new.keys()))
    seen = before.visible.keys()
    groups = sorted(before.slices.keys() | after.slices.keys())
    slices = [(before.slices.get(group), after.slices.get(group)) for group in groups]
    return TableDiff(
        files,
        tuple(file for path, file in after.visible.items() if path not in seen),
        tuple((old, new) for old, new in slices if old != new),
    )


def _touched(session: Session, before: TableSnapshot, state: TableState) -> frozenset[str] | None:
    """Return the partitions whose files changed; None if the new instants do not name them."""
    now = changing(state.timeline)
    gone = before.completed - now
    if any(instant.time >= state.timeline.start for instant in gone):
        return None  # a completed write was undone; instants below the start were archived
    touched: set[str] = set()
    for instant in now - before.completed:
        if instant.kind == "restore":
            return None
        if instant.kind == "clean":
            result = read_result(session.ctx.storage, state.timeline, instant)
            if not isinstance(result, CleanResult):
                return None
            touched |= {*result.files, *result.failed}
            continue
        metadata = session.commits.metadata(state.timeline, instant)
        if metadata is None:
            return None
        touched |= {stat.partition_path for stat in metadata.stats} | (metadata.replaced or {}).keys()
    return frozenset(touched)

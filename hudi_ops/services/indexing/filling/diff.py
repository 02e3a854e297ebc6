"""Take snapshots of a table's files and slices, and compare two of them.

Index builds use the difference to catch up with concurrent writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from hudi_ops.commit.session import Session
from hudi_ops.errors import Conflict
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.content.plans import CleanResult, FilesByPartition, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.moment import Moment
from hudi_ops.view.slices import Slice, is_partitioned

Group = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True)
class TableSnapshot:
    """Committed files and visible slices of one state.

    Attributes:
        files: sizes, by partition path and name.
        slices: what readers see.
        ahead: log files, by path, that completed writes put into child groups of pending resizes. Readers see them once the resize
            completes, and its delta does not name them.
    """

    state: TableState
    files: Mapping[str, Mapping[str, int]]
    slices: Mapping[Group, Slice]
    ahead: Mapping[str, DataFile] = field(default_factory=dict)

    @property
    def completed(self) -> frozenset[Instant]:
        """Return the instants that had completed by then and may have changed files."""
        return changing(self.state.timeline)

    @property
    def described(self) -> dict[str, DataFile]:
        """Return the files with stored statistics by path: those of slices, and those of `ahead`."""
        seen = {file.path: file for slice_ in self.slices.values() for file in files_of_slice(slice_)}
        return {**seen, **self.ahead}

    @property
    def size_bytes(self) -> int:
        """Return the bytes of these files."""
        return sum(file.size_bytes for file in self.described.values())

    def undone_ahead(self, state: TableState) -> list[DataFile]:
        """Return the child logs of resizes that are not pending any more.

        An abort deleted them, or a resize that left their groups out.
        """
        pending = {one.time for one in state.timeline.pending}
        return [file for file in self.ahead.values() if file.instant not in pending]


@dataclass(frozen=True)
class TableDiff:
    """Difference between two snapshots.

    Attributes:
        files: added and removed files, by partition path.
        new: files whose statistics are stored now and were not before.
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
        Corrupt: a file that a completed write names is lost.
        Conflict: a file was removed while the snapshot was taken.
    """
    engine = session.ctx.local_engine
    listing = StorageListing(session.ctx.storage, is_partitioned=is_partitioned(state.config), engine=engine)
    touched = _touched(session, before, state) if before is not None else None
    listed = listing.walk().files if touched is None else listing.files(sorted(touched))
    moment = Moment(
        session.ctx.storage, state.config, state.timeline, session.commits, is_whole=touched is None, is_writing=True
    )
    view = moment.view(listed, listing.source).settled()
    files: dict[str, dict[str, int]] = {path: {} for path in listed}
    for file in view.files.data_files():
        files[file.partition_path][file.name] = file.size_bytes
    found = moment.slices_of(view, are_listed=True)
    moment.refuse_lost(listed, listing.source, lambda: found)
    slices = {slice_.key: slice_ for slice_ in found}
    ahead = {file.path: file for file in _written_ahead(session, state, listed)}
    for file in ahead.values():
        files[file.partition_path][file.name] = file.size_bytes
    if before is not None and touched is not None:
        kept = {group: slice_ for group, slice_ in before.slices.items() if group[0] not in touched}
        ahead |= {path: file for path, file in before.ahead.items() if file.partition_path not in touched}
        return TableSnapshot(state, {**before.files, **files}, {**kept, **slices}, ahead)
    return TableSnapshot(state, files, slices, ahead)


def without(state: TableState, later: Collection[Instant]) -> TableState:
    """Return a state as if some instants had not completed."""
    gone = {*later}
    instants = tuple(one for one in state.timeline if one not in gone)
    return replace(state, timeline=replace(state.timeline, instants=instants))


def cleaned(session: Session, state: TableState, instants: Iterable[Instant]) -> FilesByPartition:
    """Return the files that cleans among completed instants removed."""
    found: dict[str, tuple[str, ...]] = {}
    for instant in instants:
        result = read_result(session.ctx.storage, state.timeline, instant) if instant.kind == "clean" else None
        if isinstance(result, CleanResult):
            for path in result.files.keys() | result.failed.keys():
                found[path] = (*found.get(path, ()), *result.files.get(path, ()), *result.failed.get(path, ()))
    return found


def diff(before: TableSnapshot, after: TableSnapshot, cleaned: FilesByPartition = MappingProxyType({})) -> TableDiff:
    """Compare two snapshots.

    Files of `cleaned` count as removed, even if neither snapshot has them.
    """
    files = {}
    for path in before.files.keys() | after.files.keys() | cleaned.keys():
        old, new = before.files.get(path, {}), after.files.get(path, {})
        gone = (old.keys() | {*cleaned.get(path, ())}) - new.keys()
        if old != new or gone:
            added = {name: size for name, size in new.items() if old.get(name) != size}
            files[path] = FileChanges(added, sorted(gone))
    seen = before.described.keys()
    groups = sorted(before.slices.keys() | after.slices.keys())
    slices = [(before.slices.get(group), after.slices.get(group)) for group in groups]
    return TableDiff(
        files,
        tuple(file for path, file in after.described.items() if path not in seen),
        tuple((old, new) for old, new in slices if old != new),
    )


def _written_ahead(session: Session, state: TableState, listed: Mapping[str, Sequence[DataFile]]) -> Iterator[DataFile]:
    """Yield listed log files that completed writes put into child groups of pending resizes.

    Raises:
        Conflict: a plan that may be a resize cannot be read.
    """
    resizes = {resize.instant for resize in session.resizes.pending(state, looks_back=True)}
    unread = session.resizes.unread(state) if state.log.properties.facts.has_ring else []
    if unread:
        raise Conflict(
            f"the plan of clustering {unread[0]} cannot be read, and it may be a resize",
            table=state.config.name,
            instant=unread[0],
            expected="a requested file with the plan",
            next_step="run the same call again; if it stays so, `hudi-ops verify TABLE` says more",
        )
    if not resizes:
        return
    named: set[str] = set()
    for write in state.timeline.completed_since(min(resizes)):
        metadata = session.commits.metadata(state.timeline, write)
        stats = metadata.stats if metadata is not None else ()
        named |= {stat.path.lstrip("/") for stat in stats if is_child_log(stat, write.time)}
    for files in listed.values():
        yield from (file for file in files if file.instant in resizes and file.path in named)


def _touched(session: Session, before: TableSnapshot, state: TableState) -> frozenset[str] | None:
    """Return the partitions whose files changed; None if the new instants do not name them."""
    now = changing(state.timeline)
    gone = before.completed - now
    if any(instant.time >= state.timeline.start for instant in gone):
        return None  # a completed write was undone; instants below the start were archived
    touched = {file.partition_path for file in before.undone_ahead(state)}
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

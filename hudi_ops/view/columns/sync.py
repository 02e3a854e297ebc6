"""Continue a view to a later reading of the timeline (RFC-03).

Nothing is listed: the metadata of each new instant is read once. A view that cannot be continued is built anew by its caller.

| between two timelines | effect |
|---|---|
| a write completed | its files are added, and the groups that it replaced are hidden |
| a write put log files into child groups of a pending resize | they are kept aside until the resize completes |
| a clean completed | the files that it names are removed |
| an instant below the start is gone | nothing: it was archived |
| an instant at or above the start is gone, or a restore completed | the view is built anew |

Source: docs/protocol §30.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Corrupt, Unavailable, Unsupported
from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.completed import CHANGING, changing
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plans import CleanResult, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.table_view import View

_NO_FILE = frozenset({"", "null"})


class _Unexpected(Exception):
    """A change that a sync does not know how to apply."""


@dataclass(frozen=True)
class BuildAnew:
    """Answer of a sync that cannot continue a view; says why."""

    why: str


def synced(view: View, storage: Storage, config: TableConfig, timeline: Timeline) -> View | BuildAnew:
    """Return the view at a later reading of the timeline, or why it must be built anew.

    A view whose commits cannot be read stays as it is.

    Raises:
        Corrupt: metadata of a commit cannot be read.
    """
    before, now = changing(view.timeline), changing(timeline)
    if why := _why_not(view, config, timeline, before - now):
        return BuildAnew(why)
    changes = _Changes(storage, timeline, view.commits)
    try:
        for instant in sorted(now - before, key=lambda one: (one.completion_time, one.time)):
            changes.apply(instant)
        ahead = changes.promote(view.ahead)
    except _Unexpected as unexpected:
        return BuildAnew(str(unexpected))
    if not now - before and not view.ahead.count:
        return replace(view, config=config, timeline=timeline)
    files = _changed(view.files, changes)
    return replace(
        view,
        config=config,
        timeline=timeline,
        files=files,
        replaced=_replaced(view, timeline, files, changes.replaced),
        ahead=ahead,
        computed={},
    )


def _why_not(view: View, config: TableConfig, timeline: Timeline, gone: Iterable[Instant]) -> str:
    """Return why not everything that happened since is on the timeline; empty: it is.

    What readers saw of an instant above the start is undone.
    """
    if config.layout == 1 or not _is_same_table(view.config, config):
        return "the table's settings changed"
    if any(one.action == "restore" for one in timeline.pending):
        return "a restore is pending"
    if undone := min((one.time for one in gone if one.time >= timeline.start), default=""):
        return f"{undone} left the timeline"
    for one in view.timeline.pending:
        if one.time < timeline.start and timeline.find(one.time, one.kind) is None:
            return f"{one.time} was pending, and may have completed and been archived"
    return "" if timeline.start == view.timeline.start else _why_not_archived(view, timeline, gone)


def _why_not_archived(view: View, timeline: Timeline, gone: Iterable[Instant]) -> str:
    """Return why the history does not explain a later start; empty: it does.

    An instant at the old start may have been undone, and not archived. Of an archived one nothing tells any more which files it
    names. Other instants may have come and been archived unseen, also with a request time below those that the view knows: a
    writer may sleep before it shows its instant. These completed after the view's instants did.
    """
    words, places = view.files.instants
    left = np.array([view.timeline.find(word) is not None and timeline.find(word) is None for word in words], bool)
    if (left[places] & view.files.unread).any():
        return "a commit was archived before its names were compared with the files"
    try:
        archived = view.commits.archived.completed_since(view.config.history_folder, view.timeline.first_completion)
    except (Corrupt, Unavailable) as error:
        return f"the history cannot be read: {error}"
    seen = {(one.time, one.kind) for one in view.timeline if one.is_completed}
    if unseen := sorted(one for one in archived if one[1] in CHANGING and one not in seen):
        return f"{unseen[0][1]} {unseen[0][0]} was archived, and may have completed unseen"
    undone = sorted(one.time for one in gone if one.is_write and (one.time, one.kind) not in archived)
    return f"{undone[0]} left the timeline" if undone else ""


def _replaced(
    view: View, timeline: Timeline, files: FileColumns, new: Mapping[tuple[str, str], str]
) -> Mapping[tuple[str, str], str]:
    """Return the replaced groups, without those of archived instants that have no file."""
    found = {**new, **view.replaced} if new else view.replaced
    if timeline.start == view.timeline.start:
        return found
    old = {group for group, by in found.items() if by < timeline.start}
    held = files.of_partitions({path for path, _ in old} & {*files.partitions})
    paths = [held.partitions[at] for at in held.partition_of.tolist()]
    kept = old.intersection(zip(paths, held.rows["file_id"].to_pylist(), strict=True))
    return {group: by for group, by in found.items() if by >= timeline.start or group in kept}


def _is_same_table(one: TableConfig, other: TableConfig) -> bool:
    return (one.name, one.version, one.layout, one.timeline_folder, one.partition_fields) == (
        other.name,
        other.version,
        other.layout,
        other.timeline_folder,
        other.partition_fields,
    )


@dataclass
class _Changes:
    """Changes of the instants that completed between two timelines.

    Attributes:
        added: sizes by partition path and name.
        removed: names by partition path.
        replaced: see `View`.
        ahead: log files for child groups of pending resizes, like `added`.
    """

    storage: Storage
    timeline: Timeline
    commits: CommitReader
    added: dict[str, dict[str, int]] = field(default_factory=dict)
    removed: dict[str, set[str]] = field(default_factory=dict)
    replaced: dict[tuple[str, str], str] = field(default_factory=dict)
    ahead: dict[str, dict[str, int]] = field(default_factory=dict)

    def apply(self, instant: Instant) -> None:
        """Collect the changes of one instant.

        Raises:
            _Unexpected: it does what is not known how to apply, or its file is gone.
            Corrupt: its file cannot be read.
        """
        if instant.kind == "restore":
            raise _Unexpected(f"{instant.time} restored the table")
        if instant.kind == "clean":
            try:
                result = read_result(self.storage, self.timeline, instant)
            except (Corrupt, Unsupported) as error:  # no reader of the newest state needs it
                raise _Unexpected(f"the result of clean {instant.time} cannot be read") from error
            if not isinstance(result, CleanResult):
                raise _Unexpected(f"the result of clean {instant.time} is gone")
            for path, names in result.named.items():
                self.removed.setdefault(path, set()).update(names)
            return
        metadata = self.commits.metadata(self.timeline, instant)
        if metadata is None:
            raise _Unexpected(f"{instant.time} left the timeline")
        self._apply_write(instant, metadata)

    def _apply_write(self, instant: Instant, metadata: CommitMetadata) -> None:
        for group in metadata.replaced_groups:
            self.replaced.setdefault(group, instant.time)
        for stat in metadata.stats:
            if stat.path in _NO_FILE:
                continue
            parsed = parse_data_file(stat.file_name)
            folder = stat.path.lstrip("/").rpartition("/")[0]
            if parsed is None or folder != stat.partition_path:
                raise _Unexpected(f"{instant.time} names {stat.path}, which is no file of its partition")
            if parsed.instant == instant.time:
                _add(self.added, folder, stat.file_name, self._size(stat))
                continue
            if not parsed.is_log or parsed.instant < self.timeline.start:
                raise _Unexpected(f"{instant.time} names {stat.path}, a file of another instant")
            _add(self.ahead, folder, stat.file_name, self._size(stat))

    def promote(self, ahead: FileColumns) -> FileColumns:
        """Add the child logs of resizes that completed; return those of pending ones.

        A resize of ours may have left out groups of its plan. The child logs of a resize that was undone are dropped.

        Raises:
            _Unexpected: the file of a resize is gone.
            Corrupt: it cannot be read.
        """
        ahead = ahead.added(_files_of(self.ahead)) if self.ahead else ahead
        words, places = ahead.instants
        resizes = {word: self.timeline.find(word) for word in words}
        waits = np.array([one is not None and not one.is_completed for one in resizes.values()], bool)[places]
        for word, resize in resizes.items():
            if resize is None or not resize.is_completed:
                continue
            metadata = self.commits.metadata(self.timeline, resize)
            if metadata is None:
                raise _Unexpected(f"{word} left the timeline")
            made = metadata.made_groups
            for file in ahead.data_files(np.flatnonzero(places == words.index(word))):
                if made is None or (file.partition_path, file.file_id) in made:
                    self.added.setdefault(file.partition_path, {})[file.name] = file.size_bytes
        return ahead.only(waits)

    def _size(self, stat: WriteStat) -> int:
        """Return the bytes of a file; one whose commit lacks them is looked up.

        Raises:
            _Unexpected: the file is gone.
        """
        if size := stat.file_size_in_bytes or stat.total_write_bytes:
            return size
        info = self.storage.head(stat.path.lstrip("/"))
        if info is None:
            raise _Unexpected(f"{stat.path} is gone")
        return info.size_bytes


def _add(sizes: dict[str, dict[str, int]], path: str, name: str, size_bytes: int) -> None:
    """Add a file; Apache Hudi may name a log file several times, and the larger size counts."""
    held = sizes.setdefault(path, {})
    held[name] = max(held.get(name, 0), size_bytes)


def _files_of(sizes: Mapping[str, Mapping[str, int]]) -> FileColumns:
    paths = sorted(sizes)
    names = pa.array([name for path in paths for name in sizes[path]], pa.string())
    bytes_of = pa.array([size for path in paths for size in sizes[path].values()], pa.int64())
    return FileColumns.of(paths, np.array([len(sizes[path]) for path in paths], np.int64), names, bytes_of)


def _changed(files: FileColumns, changes: _Changes) -> FileColumns:
    """Return files after changes; only the partitions that change are made anew."""
    touched = changes.added.keys() | {path for path in changes.removed if files.find(path) >= 0}
    if not touched:
        return files
    held = files.of_partitions(touched).added(_files_of(changes.added))
    gone = [f"{path}/{name}" if path else name for path, names in changes.removed.items() for name in names]
    if gone and held.count:
        is_gone = pc.is_in(held.paths(), pa.array(gone, pa.string())).to_numpy(zero_copy_only=False)
        held = held.filter(~is_gone)
    return files.with_partitions(held)

"""Cache the slices of partitions from one write to the next.

A group that is not compacted has a log file for each commit. If each commit looked at all of them, its cost would grow with the
number of earlier commits. So the slices of a partition are kept together with their timeline and listing, and the next write only
adds the new log files.

The invariant: the slices after this addition equal those that `Moment.slices` would find. Log files are only added if delta commits
completed and nothing else happened, and if each new file is a log file, made and named by one of these commits, and the newest
of a known group. All slices are computed anew after anything else: another action that completed or left the timeline (also by an
archiver or a foreign writer), a file that is gone or may still change, a new file group, a base file, a named file that is not
listed, a log file that no commit names, or a commit read during the listing that may name a lost file (docs/protocol §19).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.kept import moved_between
from hudi_ops.timeline.state import CommitReader
from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.known_files import FOLDERS_KEPT_MAX, KnownFiles, Listed, list_again
from hudi_ops.view.moment import Moment
from hudi_ops.view.slices import Slice, merge_key


@dataclass(frozen=True)
class _Kept:
    """Slices of one partition by file id, with the timeline and listing that they come from."""

    config: TableConfig
    timeline: Timeline
    known: KnownFiles
    count: int
    reads: int
    slices: Mapping[str, Slice]


class KeptSlices:
    """Slices of partitions that were listed before, for the writes of one session."""

    def __init__(self, storage: Storage, commits: CommitReader) -> None:
        self._storage = storage
        self._commits = commits
        self._kept: dict[str, _Kept] = {}

    def of(
        self, config: TableConfig, timeline: Timeline, partitions: Sequence[str], engine: LocalEngine
    ) -> list[Slice]:
        """Return the slices that a write sees in partitions, by partition path and file id.

        Raises:
            Corrupt: a file is lost that a completed write names.
            Conflict: a file was removed while the table was listed.
        """
        folders = engine.map(lambda path: list_again(self._storage, path, timeline), list(partitions))
        listed = dict(zip(partitions, folders, strict=True))
        found = self._continued(config, timeline, listed) or self._anew(config, timeline, listed)
        return [one for path in sorted(found) for one in found[path].slices.values()]

    def _anew(self, config: TableConfig, timeline: Timeline, listed: Mapping[str, Listed]) -> dict[str, _Kept]:
        moment = Moment(self._storage, config, timeline, self._commits, is_writing=True)
        files = FileColumns.of_files({path: folder.files() for path, folder in listed.items()})
        slices: dict[str, dict[str, Slice]] = {path: {} for path in listed}
        for one in moment.slices(files, "storage"):
            slices[one.partition_path][one.file_id] = one
        reads = self._commits.reads
        found = {
            path: _Kept(config, timeline, folder.known, folder.count, reads, slices[path])
            for path, folder in listed.items()
        }
        self._keep({path: one for path, one in found.items() if config.layout == 2 and not listed[path].changing})
        return found

    def _keep(self, found: Mapping[str, _Kept]) -> None:
        for path, one in found.items():
            self._kept.pop(path, None)
            self._kept[path] = one
        for forgotten in list(self._kept)[:-FOLDERS_KEPT_MAX]:
            self._kept.pop(forgotten, None)

    def _continued(
        self, config: TableConfig, timeline: Timeline, listed: Mapping[str, Listed]
    ) -> dict[str, _Kept] | None:
        """Return the kept slices with the new log files; None: all slices must be computed anew.

        All partitions are computed anew if one must be: a commit that is read for one partition may name a file of another.
        """
        done: dict[str, dict[str, Instant]] = {}
        for path, folder in listed.items():
            completed = self._completed(config, timeline, path, folder)
            if completed is None:
                return None
            done[path] = completed
        found: dict[str, _Kept] = {}
        if not all(self._is_read(timeline, done[path], self._fresh(path, folder)) for path, folder in listed.items()):
            return None
        for path, folder in listed.items():
            kept, fresh = self._kept[path], self._fresh(path, folder)
            slices = None
            if self._are_named(timeline, path, done[path], fresh):
                slices = self._longer(config, timeline, kept.slices, fresh)
            if slices is None:
                return None
            reads = self._commits.reads
            found[path] = replace(kept, timeline=timeline, count=folder.count, reads=reads, slices=slices)
        self._keep(found)
        return found

    def _fresh(self, path: str, listed: Listed) -> list[DataFile]:
        return listed.known.files[self._kept[path].count : listed.count]

    def _completed(
        self, config: TableConfig, timeline: Timeline, path: str, listed: Listed
    ) -> dict[str, Instant] | None:
        """Return the delta commits that completed since a partition was kept, by request time.

        None: something else changed, too.
        """
        kept = self._kept.get(path)
        if kept is None or kept.known is not listed.known or listed.count < kept.count or listed.changing:
            return None
        if kept.config != config or kept.timeline.start != timeline.start:
            return None
        done = _completed_deltas(kept.timeline, timeline)
        if done is None or any(kept.known.first.get(time, kept.count) < kept.count for time in done):
            return None  # an instant was undone and made again
        return done

    def _is_read(self, timeline: Timeline, done: Mapping[str, Instant], fresh: Sequence[DataFile]) -> bool:
        """Read the commits that made new files; return whether each is in `done` and has metadata."""
        instants = {file.instant for file in fresh}
        return all(time in done and self._commits.metadata(timeline, done[time]) is not None for time in instants)

    def _are_named(self, timeline: Timeline, path: str, done: Mapping[str, Instant], fresh: Sequence[DataFile]) -> bool:
        """Return whether the new files are exactly the log files that the delta commits name."""
        read = self._commits.read_since(self._kept[path].reads)
        if not {timeline.path(one.file_name) for one in done.values()}.issuperset(read):
            return False  # another commit was read, too, and may name a lost file
        named = {
            file: time
            for time, one in done.items()
            for file in self._commits.files_named(timeline, one)
            if file.rpartition("/")[0] == path
        }
        are_logs = all(file.is_log and not file.is_cdc for file in fresh)
        return are_logs and named == {file.path: file.instant for file in fresh}

    def _longer(
        self, config: TableConfig, timeline: Timeline, slices: Mapping[str, Slice], fresh: Sequence[DataFile]
    ) -> Mapping[str, Slice] | None:
        """Return slices with new log files added.

        None: a new file belongs to no kept slice, or is not the newest file of its slice.
        """
        if not fresh:
            return slices
        longer = dict(slices)
        for file in sorted(fresh, key=lambda file: merge_key(file.path)):
            before = longer.get(file.file_id)
            if before is None or (before.logs and merge_key(before.logs[-1].path) >= merge_key(file.path)):
                return None
            longer[file.file_id] = replace(before, logs=(*before.logs, file))
        bases = {one.file_id: one.base.instant if one.base is not None else "" for one in longer.values()}
        times = WriterTimes(timeline, config.history_folder, self._commits.archived)
        return longer if all(times.lie_upon([(file.instant, bases[file.file_id]) for file in fresh])) else None


def _completed_deltas(before: Timeline, now: Timeline) -> dict[str, Instant] | None:
    """Return the delta commits that completed between two timelines, by request time.

    None if any other action completed, or if an instant is gone. Instants that only began are ignored.
    """
    moved = moved_between(before, now)
    if moved is None:
        return None
    done: dict[str, Instant] = {}
    for (time, kind), (old, new) in moved.items():
        if new is None or (old is not None and old.is_completed) or len(now.by_time[time]) > 1:
            return None
        if new.is_completed:
            if kind != "deltacommit":
                return None
            done[time] = new
    return done

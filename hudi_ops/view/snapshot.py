"""Decide which files a reader sees at an instant (docs/format.md §9.1, §9.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from hudi_ops.config.table import TableConfig
from hudi_ops.files.names import parse_data_file, writer_of_child_log
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.file_group import CDC_SUFFIX, DataFile

_instant_of = attrgetter("instant")
_path_of = attrgetter("path")


@dataclass(frozen=True)
class TableView:
    """A table at one reading of its timeline.

    A file of an instant on the active timeline is visible only if that instant completed *and names the file*: leftovers of failed
    tasks are never visible. Files of instants before the timeline's start count as committed, as in every Hudi reader.
    """

    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    files: Mapping[str, Sequence[DataFile]]

    def base_files(self, as_of: str | None = None) -> list[DataFile]:
        """Return the visible base file of each file group, as of a request time, by file id."""
        found: list[DataFile] = []
        for _, files in sorted(self.files.items()):
            groups: dict[str, list[DataFile]] = {}
            for file in files:
                if not file.is_log:
                    groups.setdefault(file.file_id, []).append(file)
            newest = (self._newest_visible(group, as_of) for _, group in sorted(groups.items()))
            found += [file for file in newest if file is not None and not self._is_replaced(file, as_of)]
        return found

    def _newest_visible(self, group: Sequence[DataFile], as_of: str | None) -> DataFile | None:
        """Return the newest visible base file of a group; None: it has none.

        Commit metadata is read from the newest file on, so mostly of one instant, however many older files the group has.
        """
        newest = max(group, key=_instant_of)
        if self._is_visible(newest, as_of):
            return newest
        older = sorted(group, key=_instant_of, reverse=True)
        return next((file for file in older if self._is_visible(file, as_of)), None)

    def log_files(self, as_of: str | None = None) -> list[DataFile]:
        """Return visible log files by partition and path; their blocks say which records count.

        In version 6 the name of a log file holds the instant of its base file, or of the pending compaction that will merge it; the
        instants of its writers are in its blocks.
        """
        listed = [file for _, files in sorted(self.files.items()) for file in _logs(files)]
        told = self._told_logs(listed) if self.config.layout == 2 and as_of is None else frozenset()
        replaced = self.replaced
        return [
            file
            for file in listed
            if (file.path in told or self._is_visible_log(file, as_of))
            if not file.path.endswith(CDC_SUFFIX) and not (replaced and self._is_replaced(file, as_of))
        ]

    def committed_files(self) -> list[DataFile]:
        """Return all files that count, those of older slices included, by partition and path."""
        return [
            file
            for _, files in sorted(self.files.items())
            for file in sorted(files, key=_path_of)
            if (self._is_visible_log(file, None) if file.is_log else self._is_visible(file, None))
        ]

    def _told_logs(self, files: Sequence[DataFile]) -> AbstractSet[str]:
        """Return log files that completed delta commits, already read, made and name.

        `_is_visible_log` is true for each of them. A group that is not compacted has a log file for each commit: this method saves
        a call for each.
        """
        made, by_time = self.commits.writers(), self.timeline.by_time
        return {
            file.path
            for file in files
            if (writer := made.get(file.path)) is not None and writer.time == file.instant
            if writer.kind == "deltacommit" and writer.time in by_time
            if by_time[writer.time][0].file_name == writer.file_name
        }

    def _is_visible_log(self, file: DataFile, as_of: str | None) -> bool:
        if self._is_told(file, "deltacommit", as_of):
            return True
        writer = self.timeline.find(file.instant)
        if self.config.layout == 1:
            is_planned = writer is not None and writer.kind == "commit" and not writer.is_completed
            return (is_planned and (as_of is None or file.instant <= as_of)) or self._instant_counts(
                file.instant, as_of
            )
        if writer is not None and writer.kind == "deltacommit":
            return self._is_visible(file, as_of)
        # Log files with a resize's instant were written by other instants; the names of our log files tell by which.
        made = self._made_by(writer) if writer is not None else None
        is_left_out = made is not None and (file.partition_path, file.file_id) not in made
        if is_left_out or not self._instant_counts(file.instant, as_of):
            return False
        name = parse_data_file(file.path.rpartition("/")[2])
        author = writer_of_child_log(name) if name is not None else None
        return author is None or self._instant_counts(author, as_of)

    def _made_by(self, writer: Instant) -> frozenset[tuple[str, str]] | None:
        """Return the groups that a resize of ours made; None for other instants.

        The resize may have left out groups of its plan, although other writes had already written log files into their children.
        """
        if writer.time not in self._made:
            is_read = writer.is_completed and writer.kind == "replacecommit"
            metadata = self.commits.metadata(self.timeline, writer) if is_read else None
            self._made[writer.time] = metadata.made_groups if metadata is not None else None
        return self._made[writer.time]

    def _is_told(self, file: DataFile, kind: str, as_of: str | None) -> bool:
        """Return whether an already read, completed write of a kind made and names a file."""
        if self.config.layout == 1 or (as_of is not None and file.instant > as_of):
            return False
        writer = self.commits.writer_of(file.path)
        is_its = writer is not None and writer.kind == kind and writer.time == file.instant
        return is_its and writer in self.timeline.by_time.get(file.instant, ())

    def _is_visible(self, file: DataFile, as_of: str | None) -> bool:
        if not self._instant_counts(file.instant, as_of):
            return False
        named = self._names_of(file.instant)
        return named is None or file.path in named

    def _instant_counts(self, instant: str, as_of: str | None) -> bool:
        if as_of is not None and instant > as_of:
            return False
        found = self.timeline.find(instant)
        if found is not None:
            return found.is_completed
        return bool(self.timeline.start) and instant < self.timeline.start

    def _names_of(self, instant: str) -> frozenset[str] | None:
        """Return the paths that a completed instant names; None if it left the active timeline."""
        if instant not in self._named:
            found = self.timeline.find(instant)
            metadata = self.commits.metadata(self.timeline, found) if found is not None and found.is_write else None
            is_read = found is not None and metadata is not None
            self._named[instant] = self.commits.files_named(self.timeline, found) if found and is_read else None
        return self._named[instant]

    @cached_property
    def _made(self) -> dict[str, frozenset[tuple[str, str]] | None]:
        return {}

    @cached_property
    def _named(self) -> dict[str, frozenset[str] | None]:
        # Cached, since it is asked for every file: the names of a commit are collected once.
        return {}

    def _is_replaced(self, file: DataFile, as_of: str | None) -> bool:
        by = self.replaced.get((file.partition_path, file.file_id))
        return by is not None and (as_of is None or by <= as_of)

    @cached_property
    def replaced(self) -> dict[tuple[str, str], str]:
        """Map (partition, file id) to the request time of the replace commit that hides the group."""
        hidden: dict[tuple[str, str], str] = {}
        for instant in self.timeline.by_kind.get("replacecommit", ()):
            if not instant.is_completed:
                continue
            metadata = self.commits.metadata(self.timeline, instant)
            for group in metadata.replaced_groups if metadata else ():
                hidden.setdefault(group, instant.time)
        return hidden


def _logs(files: Sequence[DataFile]) -> list[DataFile]:
    return sorted((one for one in files if one.is_log), key=_path_of)

"""Find the slices of a table at one moment, and refuse those with a cleaned or lost file.

Only the files that cleans removed tell whether an earlier moment is readable. A clean by file versions names no earliest readable
instant, and a savepoint keeps files of instants before the earliest one that a clean by commits names.

A listing of storage does not show that a file was lost: a read would silently return older or fewer rows. So the listing is
compared with the commits that name files. Only `_read_unlisted` reads further commits for this. Source: docs/protocol §19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Conflict, Corrupt, InvalidRequest, Unavailable
from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.state import CommitReader
from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.cleaned_files import files_of_cleans
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.slices import SliceColumns, newest_slices, visible_slices
from hudi_ops.view.columns.table_view import View, view_of
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import Keep, Source
from hudi_ops.view.slices import Slice

_NEXT_STEP = "restore the file from a copy of the table; `hudi-ops verify` lists all that are missing"


@dataclass(frozen=True)
class Moment:
    """A table at one moment, on a timeline that was read before its files were listed.

    Attributes:
        timeline: decides which instants count.
        as_of: request time of the newest instant that counts; None: the table as it is.
        wanted: returns for partition paths whether they may hold wanted rows; None: all may.
        is_whole: all wanted partitions are listed.
        with_logs: log files are read, too.
        is_writing: the slices are for a write, which starts again if a file was removed during the listing.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    as_of: str | None = None
    wanted: Keep | None = None
    is_whole: bool = False
    with_logs: bool = True
    is_writing: bool = False

    def slices(self, listed: FileColumns, source: Source) -> SliceColumns:
        """Return the slices that readers see of files listed by `source`: `storage` or `metadata`.

        Raises:
            InvalidRequest: a clean removed a file that an earlier moment needs.
            Corrupt: a file is lost that a completed write names, or a file of the timeline cannot be read.
            Unavailable: a file was removed while the table was listed.
            Conflict: the same, for a write.
        """
        found = self.slices_of(self.view(listed, source), are_listed=True)
        self.refuse_lost(listed, source, lambda: found)
        return found

    def slices_of(self, view: View, *, are_listed: bool) -> SliceColumns:
        """Return the slices that readers see of a view, which may be one of some partitions.

        `are_listed`: its files were listed, so those that a clean names are still there. A kept view may have files of a clean that
        was archived before the view was continued.

        Raises:
            InvalidRequest: a clean removed a file that an earlier moment needs.
            Corrupt: a file of the timeline cannot be read.
            Unavailable: the history is rewritten faster than it can be read.
        """
        if self.as_of is not None:
            self._refuse_cleaned(view.files, self.as_of, are_listed=are_listed)
        return newest_slices(view, self.as_of)

    def view(self, listed: FileColumns, source: Source) -> View:
        """Return the view of listed files, up to the moment; raise as `slices` does."""
        if self.as_of is not None:
            words, places = listed.instants
            listed = listed.filter(np.array([word <= self.as_of for word in words], bool)[places])
        # Apache Hudi begins a metadata table with what it lists, leftovers of tasks among it.
        are_named = source == "metadata" and self.commits.is_ours_alone(self.timeline)
        return view_of(self.config, self.timeline, self.commits, listed, are_named=are_named)

    def refuse_lost(self, listed: FileColumns, source: Source, found: Callable[[], Iterable[Slice]]) -> None:
        """Refuse a listing of storage that lacks a file which a completed write names.

        Raises:
            Corrupt: a file is lost.
            Unavailable: a file was removed while the table was listed.
            Conflict: the same, for a write.
        """
        if source == "storage" and self.config.layout == 2:
            self._refuse_lost(listed, found())

    def _refuse_cleaned(self, listed: FileColumns, as_of: str, *, are_listed: bool) -> None:
        """Refuse a moment at which a wanted slice needs a file that a clean removed since.

        The cleans are read after the listing, so they include every clean that removed a file before it.

        Raises:
            InvalidRequest: a slice needs such a file; the error names the moment, the clean and the file.
        """
        removed = self._cleaned(listed, as_of, are_listed=are_listed)
        if not removed:
            return
        groups = {_group(file) for file, _ in removed.values()}
        as_it_was: dict[str, list[DataFile]] = {path: listed.get(path, []) for path, _ in groups}
        for file, _ in removed.values():
            as_it_was[file.partition_path].append(file)
        as_it_was = {path: [one for one in files if _group(one) in groups] for path, files in as_it_was.items()}
        for one in visible_slices(self.config, self.timeline, self.commits, as_it_was, as_of):
            needed = (*((one.base,) if one.base is not None else ()), *(one.logs if self.with_logs else ()))
            for file in needed:
                if file.path in removed:
                    clean = removed[file.path][1]
                    raise InvalidRequest(
                        f"the table cannot be read as of {as_of}: clean {clean} removed {file.path}, which this instant needs",
                        table=self.config.name,
                        instant=as_of,
                        expected="an instant of which no clean removed a file",
                        found=f"clean {clean}",
                        next_step="choose a later one from `hudi-ops timeline`; the instant of a savepoint stays readable",
                        clean=clean,
                        path=file.path,
                    )

    def _cleaned(self, listed: FileColumns, as_of: str, *, are_listed: bool) -> dict[str, tuple[DataFile, str]]:
        """Return removed files of wanted partitions by path, each with the time of its clean."""
        cleaned = files_of_cleans(self.storage, self.config, as_of)
        present = listed.has(list(cleaned)) if are_listed else frozenset()
        removed = {path: one for path, one in cleaned.items() if path not in present}
        others = sorted({file.partition_path for file, _ in removed.values()} - listed.keys())
        kept = dict(zip(others, self.wanted(others), strict=True)) if self.wanted is not None and others else {}
        return {path: one for path, one in removed.items() if kept.get(one[0].partition_path, True)}

    def _refuse_lost(self, listed: FileColumns, found: Iterable[Slice]) -> None:
        if not any(
            POINTER_KEY in said.extra
            for one in self.timeline.newest_first
            if (self.as_of is None or one.time <= self.as_of) and (said := self.commits.known(self.timeline, one))
        ):
            return  # no commit that was read has a slot pointer, so the table may have no commit log
        if self.is_whole and self.wanted is None:
            self._read_unlisted(listed)
        missing = sorted(self._missing(listed, found), key=lambda one: one[1].time, reverse=True)
        if missing:
            self._refuse_missing(listed, missing)

    def _read_unlisted(self, listed: FileColumns) -> None:
        """Read the commits without a listed file, so that `_missing` finds their lost files.

        Two kinds of commits are skipped: those not newer than the newest clean, which may have removed their files, and the first
        write, which creates the table and writes nothing. The others are writes without rows, and writes whose files are lost.
        """
        instants = frozenset(listed.instants[0])
        newest_clean = max((one.time for one in self.timeline if one.kind == "clean"), default="")
        for one in self._writes:
            if one.time not in instants and one.time > self.timeline.start and one.completion_time > newest_clean:
                self.commits.metadata(self.timeline, one)

    @property
    def _writes(self) -> Iterator[Instant]:
        return (one for one in self.timeline.completed_writes if self.as_of is None or one.time <= self.as_of)

    def _missing(self, listed: FileColumns, found: Iterable[Slice]) -> Iterator[tuple[str, Instant]]:
        """Yield files of the slices that commits name but the listing lacks, each with its writer."""
        present = frozenset(listed.paths().to_pylist())
        hidden = self._hidden()
        named: list[tuple[str, Instant, tuple[str, str], bool]] = []
        partitions = None if self.is_whole and self.wanted is None else frozenset(listed.partitions)
        for path, one in self.commits.made_beside(self.timeline, present, partitions):
            partition, _, name = path.rpartition("/")
            file = parse_data_file(name)
            # A log file written ahead of a resize carries the instant of the resize: no reader sees it before the resize completes.
            if file is None or file.is_cdc or file.instant != one.time or (partition, file.file_id) in hidden:
                continue
            if self.as_of is not None and one.time > self.as_of:
                continue
            if self.with_logs or not file.is_log:
                named.append((path, one, (partition, file.file_id), file.is_log))
        if not named:
            return
        instants = {one.key: one.base.instant for one in found if one.base is not None}
        bases = [instants.get(group, "") for _, _, group, _ in named]
        times = WriterTimes(self.timeline, self.config.history_folder, self.commits.archived)
        upon = times.lie_upon([(one.time, base) for (_, one, _, _), base in zip(named, bases, strict=True)])
        needed = [
            lies if is_log else one.time > base
            for lies, base, (_, one, _, is_log) in zip(upon, bases, named, strict=True)
        ]
        yield from ((path, one) for path, one, _, _ in compress(named, needed))

    def _hidden(self) -> set[tuple[str, str]]:
        """Return (partition path, file id) of groups that completed replace commits replaced."""
        return {
            group
            for one in self.timeline.by_kind.get("replacecommit", ())
            if one.is_completed
            and (self.as_of is None or one.time <= self.as_of)
            and (said := self.commits.metadata(self.timeline, one)) is not None
            for group in said.replaced_groups
        }

    def _refuse_missing(self, listed: FileColumns, missing: Sequence[tuple[str, Instant]]) -> None:
        """Refuse missing files, unless a clean removed them before the timeline was read.

        Raises:
            Corrupt: one is lost.
            Unavailable: one was removed since the timeline was read.
            Conflict: the same, for a write.
        """
        again = load_timeline(self.storage, self.config)
        cleaned = files_of_cleans(self.storage, self.config)
        done = {one.time for one in self.timeline if one.kind == "clean" and one.is_completed}
        # A clean on neither timeline was archived before the first reading only if it is older than that timeline's start.
        done |= {
            clean for _, clean in cleaned.values() if clean < self.timeline.start and again.find(clean, "clean") is None
        }
        known = {path for path, (_, clean) in cleaned.items() if clean in done}
        for path, writer in missing:
            now = again.find(writer.time, writer.kind)
            partition = path.rpartition("/")[0]
            if path in known:
                continue
            if now is None or not now.is_completed or path in cleaned:
                raise self._meanwhile(path, f"clean {cleaned[path][1]}" if path in cleaned else f"{writer} is gone")
            is_there = self.storage.head(path) is not None
            if is_there and partition in listed:
                raise self._meanwhile(path, "a listing that lacked it")
            if is_there:
                raise Corrupt(
                    f"partition {partition} was not listed, and {writer} wrote {path} into it",
                    table=self.config.name,
                    instant=writer.time,
                    expected=f"a .hoodie_partition_metadata file in {partition}",
                    found="a folder without it",
                    next_step="run an upsert into the partition, or copy the file from a partition of the same depth",
                    path=path,
                )
            error = lost_file(self.config.name, path, writer.time)
            raise error

    def _meanwhile(self, path: str, found: str) -> Unavailable | Conflict:
        kind = Conflict if self.is_writing else Unavailable
        return kind(
            f"{path} was removed while the table was looked at",
            table=self.config.name,
            expected="the files that were there when the timeline was read",
            found=found,
            next_step="run the same call again: it starts from the table as it is now",
        )


def lost_file(table: str, path: str, instant: str) -> Corrupt:
    """Return the error for a file of a completed write that is lost."""
    return Corrupt(
        f"{path} is missing: {instant} wrote it, and no clean, replace or rollback removed it",
        table=table,
        instant=instant,
        expected="every file that a completed write names",
        found="no such file",
        next_step=_NEXT_STEP,
        path=path,
    )


def _group(file: DataFile) -> tuple[str, str]:
    return file.partition_path, file.file_id

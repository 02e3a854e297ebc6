"""Decide which files count at a reading of the timeline (docs/format §9.1, §9.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.table import TableConfig
from hudi_ops.files.names import data_path
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FEW, FileColumns, Flags, Longs, none_of
from hudi_ops.view.columns.names import BASE


@dataclass(frozen=True)
class View:
    """Files that count at one reading of a timeline. Never changed: a sync makes another one.

    Attributes:
        config: the table's settings.
        timeline: decides which instants count.
        commits: reads the commits of the timeline.
        files: committed files, those of older slices and replaced groups included.
        replaced: (partition path, file id) -> request time of the replace commit that hides the group.
        ahead: log files that completed writes put into child groups of pending resizes. They count once the resize completes.
        computed: what was computed of these files, by name.
    """

    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    files: FileColumns
    replaced: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ahead: FileColumns = field(default_factory=none_of)
    computed: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def of_partitions(self, paths: Iterable[str]) -> View:
        """Return the view of some partitions."""
        return self.with_files(self.files.of_partitions(paths))

    def with_files(self, files: FileColumns) -> View:
        """Return the view of some of its files."""
        return self if files is self.files else replace(self, files=files, computed={})

    def are_named(self, rows: Longs) -> Flags:
        """Return whether rows are named by their instants, whose metadata is read.

        Raises:
            Corrupt: commit metadata cannot be read.
        """
        found = np.ones(len(rows), bool)
        asked = self.files.unread[rows]
        if not asked.any():
            return found
        instants = [self.timeline.find(word) for word in self.files.instants[0]]
        found[asked] = _are_named(self.files, self.timeline, self.commits, instants, rows[asked])
        return found

    def settled(self) -> View:
        """Return the files without those that their instants do not name."""
        rows = np.flatnonzero(self.files.unread)
        if not len(rows):
            return self
        kept = np.ones(self.files.count, bool)
        kept[rows] = self.are_named(rows)
        files = self.files.filter(kept)
        return self.with_files(files.marked(np.zeros(files.count, bool)))


def view_of(
    config: TableConfig, timeline: Timeline, commits: CommitReader, listed: FileColumns, *, are_named: bool = False
) -> View:
    """Return the view of a table whose files were listed.

    A file of an instant on the active timeline counts only if that instant completed *and names the file*: leftovers of failed
    tasks never count. Files of instants before the timeline's start count, as in every Hudi reader. Whether base files are named
    is left open (the column `unread`): most readers need the newest of each group, so mostly those of one instant.

    Args:
        config: the table's settings.
        timeline: read before the files were listed.
        commits: reads its commits.
        listed: all listed files.
        are_named: the listing has only files that their instants name, as that of the metadata table. Commits are then read only
            for two base files of one group and instant.

    Raises:
        Corrupt: commit metadata cannot be read.
    """
    words, places = listed.instants
    found = [timeline.find(word) for word in words]
    is_old = np.array([one is None and word < timeline.start for word, one in zip(words, found, strict=True)], bool)
    is_done = np.array([one is not None and one.is_completed for one in found], bool)
    is_planned = np.array([one is not None and one.kind == "commit" and not one.is_completed for one in found], bool)
    is_delta = np.array([one is not None and one.kind == "deltacommit" for one in found], bool)
    is_log = listed.kinds != BASE
    counts = (is_old | is_done)[places]
    if config.layout == 1:
        # Names of log files hold the instant of their base file, or of the pending compaction that will merge them.
        counts = np.where(is_log, counts | is_planned[places], counts)
        told = ~is_log
    else:
        told = ~is_log | is_delta[places]
        counts &= _are_authors(listed, timeline, is_log & ~told)
        counts &= _are_made(listed, timeline, commits, found, is_log & ~told & counts)
    asked = counts & told & is_done[places]
    if are_named:
        asked &= _are_doubled(listed, places)
    counts[asked & is_log] = _are_named(listed, timeline, commits, found, np.flatnonzero(asked & is_log))
    unread = (asked & ~is_log)[counts]
    files = listed.filter(counts)
    if unread.any():
        files = files.marked(unread)
    is_resize = np.array(
        [one is not None and one.kind == "replacecommit" and not one.is_completed for one in found], bool
    )
    ahead = is_resize[places] & is_log & _are_authors(listed, timeline, is_log)
    return View(config, timeline, commits, files, replaced_by(timeline, commits), listed.only(ahead))


def replaced_by(timeline: Timeline, commits: CommitReader) -> dict[tuple[str, str], str]:
    """Map (partition path, file id) to the replace commit that hides the group.

    Raises:
        Corrupt: commit metadata cannot be read.
    """
    hidden: dict[tuple[str, str], str] = {}
    for instant in timeline.by_kind.get("replacecommit", ()):
        metadata = commits.metadata(timeline, instant) if instant.is_completed else None
        for group in metadata.replaced_groups if metadata is not None else ():
            hidden.setdefault(group, instant.time)
    return hidden


def _are_authors(listed: FileColumns, timeline: Timeline, asked: Flags) -> Flags:
    """Return False for log files in child groups of a resize whose own writer does not count."""
    found = np.ones(listed.count, bool)
    if listed.rows["author"].null_count == listed.count:
        return found
    rows = np.flatnonzero(asked & listed.rows["author"].is_valid().to_numpy(zero_copy_only=False))
    for row, author in zip(rows.tolist(), listed.rows["author"].take(pa.array(rows)).to_pylist(), strict=True):
        writer = timeline.find(author)
        found[row] = writer.is_completed if writer is not None else author < timeline.start
    return found


def _are_made(
    listed: FileColumns, timeline: Timeline, commits: CommitReader, instants: Sequence[Instant | None], asked: Flags
) -> Flags:
    """Return False for log files in groups that their resize, one of ours, did not make.

    It may have left out groups of its plan, although other writes had already written log files into its children.
    """
    found = np.ones(listed.count, bool)
    rows = np.flatnonzero(asked)
    if not len(rows):
        return found
    places = listed.instants[1][rows]
    for place in np.unique(places).tolist():
        resize = instants[place]
        if resize is None or resize.kind != "replacecommit":
            continue
        metadata = commits.metadata(timeline, resize)
        made = metadata.made_groups if metadata is not None else None
        if made is not None:
            own = rows[places == place]
            groups = zip(listed.partition_of[own], listed.rows["file_id"].take(pa.array(own)).to_pylist(), strict=True)
            found[own] = [(listed.partitions[at], file_id) in made for at, file_id in groups]
    return found


def _are_doubled(listed: FileColumns, places: Longs) -> Flags:
    """Return True for base files of which the same group has another one of the same instant."""
    found = np.zeros(listed.count, bool)
    bases = np.flatnonzero(listed.kinds == BASE)
    keys = listed.groups[bases] * (int(places.max(initial=0)) + 1) + places[bases]
    in_order = np.sort(keys)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(twice):
        found[bases] = np.isin(keys, twice)
    return found


def _are_named(
    listed: FileColumns,
    timeline: Timeline,
    commits: CommitReader,
    instants: Sequence[Instant | None],
    rows: Longs,
) -> Flags:
    """Return which rows are named by their completed instants.

    An archived instant names all. Each commit is read once, however many files it names.
    """
    found = np.ones(len(rows), bool)
    if not len(rows):
        return found
    places = listed.instants[1][rows]
    if len(rows) <= FEW:
        named_by = {place: _names_of(instants[place], timeline, commits) for place in np.unique(places).tolist()}
        names = listed.rows["name"].take(pa.array(rows)).to_pylist()
        paths = map(data_path, (listed.partitions[at] for at in listed.partition_of[rows].tolist()), names)
        found[:] = [
            (named := named_by[place]) is None or path in named
            for place, path in zip(places.tolist(), paths, strict=True)
        ]
        return found
    every = listed.paths().take(pa.array(rows))
    order = np.argsort(places, kind="stable")
    bounds = [*np.flatnonzero(np.diff(places[order], prepend=-1)).tolist(), len(rows)]
    for low, high in pairwise(bounds):
        own = order[low:high]
        named = _names_of(instants[int(places[own[0]])], timeline, commits)
        if named is not None:
            values = pa.array(list(named), pa.string())
            found[own] = pc.is_in(every.take(pa.array(own)), values).to_numpy(zero_copy_only=False)
    return found


def _names_of(writer: Instant | None, timeline: Timeline, commits: CommitReader) -> frozenset[str] | None:
    """Return the paths that a completed write names; None if its file is gone."""
    if writer is None or not writer.is_write or commits.metadata(timeline, writer) is None:
        return None
    return commits.files_named(timeline, writer)

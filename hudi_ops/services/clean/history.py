"""List the committed slices of file groups, old ones included, and what superseded each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np

from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.columns.files import Flags
from hudi_ops.view.columns.names import BASE
from hudi_ops.view.columns.slices import hidden
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.file_group import DataFile

GroupKey: TypeAlias = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True, slots=True)
class PastSlice:
    """A committed slice of a file group.

    Attributes:
        instant: of its base file; of its first log file where it has none.
        files: base file first, then log files.
        superseded: request time of the write that superseded the slice: it made the next base file of the group, or replaced the
            group. Empty: the slice is visible now.
        replaced: request time of the write that replaced the group, or empty.
        age: number of newer slices in the group.
    """

    partition_path: str
    file_id: str
    instant: str
    files: tuple[DataFile, ...]
    superseded: str
    replaced: str
    age: int


@dataclass(frozen=True)
class PastSlices:
    """Committed slices of a table.

    Attributes:
        view: what they are slices of, without files that their instants do not name.
        alone: rows of the groups that have one slice, which readers see.
        slices: of the other groups, by partition, file id and instant.
    """

    view: View
    alone: Flags
    slices: tuple[PastSlice, ...]

    def all(self) -> list[PastSlice]:
        """Return all slices, by partition, file id and instant."""
        return sorted((*self.slices, *self.newest()), key=lambda one: (one.partition_path, one.file_id, one.instant))

    def newest(self, most: int | None = None) -> list[PastSlice]:
        """Return the slices of the groups that have one, or about `most` of them."""
        rows = np.flatnonzero(self.alone)
        if most is not None:
            groups = self.view.files.groups[rows]
            rows = rows[groups <= groups[:most][-1]] if len(rows) else rows
        return list(_visible(self.view.files.data_files(rows)))


def past_slices(view: View) -> PastSlices:
    """Return the committed slices of a view.

    Files of instants that did not complete, and files that their instant does not name, are in no slice: a rollback deletes these.

    Raises:
        Corrupt: commit metadata, or the history where it tells to which slice a log file belongs, cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    view = view.settled()
    alone = _alone(view)
    bases: dict[GroupKey, list[DataFile]] = {}
    logs: dict[GroupKey, list[DataFile]] = {}
    for file in view.files.data_files(np.flatnonzero(~alone)):
        (logs if file.is_log else bases).setdefault((file.partition_path, file.file_id), []).append(file)
    times = WriterTimes(view.timeline, view.config.history_folder, view.commits.archived)
    found: list[PastSlice] = []
    for key, upon in sorted(_assigned(bases, logs, times).items()):
        found += _of_group(key, upon, view.replaced.get(key, ""))
    return PastSlices(view, alone, tuple(found))


def _alone(view: View) -> Flags:
    """Return the files of groups with one slice.

    Such a group has at most one base file and no log file from before it, and nothing replaced it.
    """
    files, ranks = view.files, view.files.instants[1]
    groups, is_base = files.groups, files.kinds == BASE
    count = int(groups[-1]) + 1 if files.count else 0
    instants = np.full(count, -1, np.int64)
    instants[groups[is_base]] = ranks[is_base]
    is_other = np.zeros(count, bool)
    is_other[groups[is_base & (ranks != instants[groups])]] = True
    is_other[groups[~is_base & (ranks < instants[groups])]] = True
    return ~is_other[groups] & ~hidden(files, view.replaced, None)


def _visible(files: Sequence[DataFile]) -> Iterator[PastSlice]:
    """Yield the slices of files of groups that have one, in order."""
    for key, held in groupby(files, key=lambda one: (one.partition_path, one.file_id)):
        own = sorted(held, key=lambda one: (one.is_log, one.path))
        instant = own[0].instant if not own[0].is_log else min(one.instant for one in own)
        yield PastSlice(*key, instant, tuple(own), "", "", 0)


def _assigned(
    bases: Mapping[GroupKey, list[DataFile]], logs: Mapping[GroupKey, list[DataFile]], times: WriterTimes
) -> dict[GroupKey, dict[str, list[DataFile]]]:
    """Return the files of each group by their base file's instant, `""` for logs below it."""
    upon: dict[GroupKey, dict[str, list[DataFile]]] = {}
    for key, files in bases.items():
        upon[key] = {}
        for file in sorted(files, key=lambda one: one.instant):
            upon[key].setdefault(file.instant, []).append(file)
    # A log file lies above every base file below its request time; for later base files its completion time decides.
    later = [
        (key, file, base)
        for key, files in logs.items()
        for file in files
        for base in upon.get(key, {})
        if base > file.instant
    ]
    lies = times.lie_upon([(file.instant, base) for _, file, base in later])
    raised: dict[str, str] = {}
    for (_, file, base), is_upon in zip(later, lies, strict=True):
        if is_upon:
            raised[file.path] = max(raised.get(file.path, ""), base)
    for key, files in logs.items():
        starts = sorted(base for base in upon.get(key, {}) if base)
        for file in files:
            at = bisect_right(starts, file.instant)
            below = starts[at - 1] if at else ""
            upon.setdefault(key, {}).setdefault(raised.get(file.path, below), []).append(file)
    return upon


def _of_group(key: GroupKey, upon: Mapping[str, list[DataFile]], replaced: str) -> Iterator[PastSlice]:
    starts = sorted(upon)
    for age, start in enumerate(reversed(starts)):
        following = starts[len(starts) - age] if age else ""
        superseded = min((time for time in (following, replaced) if time), default="")
        files = tuple(sorted(upon[start], key=lambda one: (one.is_log, one.path)))
        yield PastSlice(*key, start or min(file.instant for file in files), files, superseded, replaced, age)

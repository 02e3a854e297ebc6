"""List the committed slices of file groups, old ones included, and what superseded each.

The slices of a table are columns (`PastColumns`); objects are made of those that a caller takes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.columns.files import FileColumns, Flags, Longs, none_of, offsets_of
from hudi_ops.view.columns.names import BASE
from hudi_ops.view.columns.slices import hidden
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.file_group import DataFile

GroupKey: TypeAlias = tuple[str, str]
"""Partition path and file id."""

NONE = -1
"""Rank of no instant."""


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


@dataclass(frozen=True, eq=False)
class PastColumns:
    """Slices as columns, by partition path, file id and instant.

    Instants are ranks: positions in `words`.

    Attributes:
        files: what the rows are rows of.
        words: sorted request times of the files' writers, and of the writes that replaced groups.
        rows: rows of the slices' files, slice by slice, base files first.
        offsets: first place of each slice in `rows`, and their number.
        groups: number of each slice's file group.
        instants: rank of each slice's instant; see `PastSlice`.
        superseded: rank of the write that superseded each slice; `NONE`: it is visible.
        replaced: rank of the write that replaced its group, or `NONE`.
        ages: number of newer slices in its group.
    """

    files: FileColumns
    words: tuple[str, ...]
    rows: Longs
    offsets: Longs
    groups: Longs
    instants: Longs
    superseded: Longs
    replaced: Longs
    ages: Longs

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def slice_of(self) -> Longs:
        """The slice of each of `rows`."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def sizes(self) -> Longs:
        """Bytes of each of `rows`."""
        return self.files.sizes[self.rows]

    def below(self, instant: str) -> int:
        """Return the number of words below an instant."""
        return bisect_left(self.words, instant)

    def up_to(self, instant: str) -> int:
        """Return the number of words up to an instant."""
        return bisect_right(self.words, instant)

    def objects(self) -> Iterator[PastSlice]:
        """Yield the slices as objects."""
        held = self.files.data_files(self.rows)
        words = (*self.words, "")  # `NONE` is the last
        columns = (self.instants, self.superseded, self.replaced, self.ages)
        for (low, high), *ranks, age in zip(
            pairwise(self.offsets.tolist()), *(column.tolist() for column in columns), strict=True
        ):
            first = held[low]
            instant, superseded, replaced = (words[rank] for rank in ranks)
            yield PastSlice(
                first.partition_path, first.file_id, instant, tuple(held[low:high]), superseded, replaced, age
            )


def _no_columns() -> PastColumns:
    none = np.zeros(0, np.int64)
    return PastColumns(none_of(), (), none, np.zeros(1, np.int64), *([none] * 5))


@dataclass(frozen=True)
class PastSlices:
    """Committed slices of a table.

    Attributes:
        view: what they are slices of, without files that their instants do not name.
        alone: rows of the groups that have one slice, which readers see.
        columns: slices of the other groups.
    """

    view: View
    alone: Flags
    columns: PastColumns = field(default_factory=_no_columns)

    @cached_property
    def slices(self) -> tuple[PastSlice, ...]:
        """The slices of `columns`."""
        return tuple(self.columns.objects())

    def all(self) -> list[PastSlice]:
        """Return all slices, by partition, file id and instant."""
        return sorted((*self.slices, *self.newest()), key=order_of)

    def newest(self, most: int | None = None) -> list[PastSlice]:
        """Return the slices of the groups that have one, or about `most` of them."""
        rows = np.flatnonzero(self.alone)
        if most is not None:
            groups = self.view.files.groups[rows]
            rows = rows[groups <= groups[:most][-1]] if len(rows) else rows
        return list(_visible(self.view.files.data_files(rows)))


def order_of(one: PastSlice) -> tuple[str, str, str]:
    """Return the key by which slices are sorted: partition path, file id and instant."""
    return one.partition_path, one.file_id, one.instant


def past_slices(view: View) -> PastSlices:
    """Return the committed slices of a view.

    Files of instants that did not complete, and files that their instant does not name, are in no slice: a rollback deletes these.

    Raises:
        Corrupt: commit metadata, or the history where it tells to which slice a log file belongs, cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    view = view.settled()
    return slices_of(view, WriterTimes(view.timeline, view.config.history_folder, view.commits.archived))


def slices_of(view: View, times: WriterTimes) -> PastSlices:
    """Return the slices of a view all of whose files count; `times` assigns the log files.

    Raises:
        Corrupt: the history, where `times` reads it, cannot be read.
        Unavailable: it is rewritten faster than it can be read.
    """
    alone = _alone(view)
    return PastSlices(view, alone, _columns(view, np.flatnonzero(~alone), times))


def ranks_of_groups(files: FileColumns, ranks: Mapping[GroupKey, int]) -> Longs:
    """Return the number that belongs to the file group of each file; `NONE`: none does."""
    found = np.full(files.count, NONE, np.int64)
    by_partition: dict[str, dict[str, int]] = {}
    for (partition, file_id), rank in ranks.items():
        by_partition.setdefault(partition, {})[file_id] = rank
    for partition, held in by_partition.items():
        at = files.find(partition)
        if at < 0:
            continue
        low, high = int(files.offsets[at]), int(files.offsets[at + 1])
        places = pc.index_in(files.rows["file_id"].slice(low, high - low), pa.array(list(held), pa.string()))
        values = np.array([*held.values(), NONE], np.int64)
        found[low:high] = values[places.fill_null(len(held)).to_numpy(zero_copy_only=False)]
    return found


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


def _columns(view: View, rows: Longs, times: WriterTimes) -> PastColumns:
    """Return the slices of the groups of some rows, all rows of these groups."""
    files = view.files
    known, places = files.instants
    words = tuple(sorted({*known, *view.replaced.values()}))
    at = {word: rank for rank, word in enumerate(words)}
    ranks = np.array([at[word] for word in known], np.int64)[places[rows]] if len(rows) else rows
    groups, is_log = files.groups[rows], files.kinds[rows] != BASE
    # A slice is known by its group and the rank of its base file's instant; 0 stands for log files below every base file.
    width = len(words) + 1
    firsts = groups * width
    keys = firsts + ranks + 1
    bases = np.unique(keys[~is_log])
    limits = _limits(words, ranks, is_log & _has_later(bases, keys, groups, width), times)
    nearest = np.searchsorted(bases, firsts + limits + 1, side="right") - 1
    upon = bases[nearest] if len(bases) else firsts
    keys = np.where(is_log, np.where((nearest >= 0) & (upon >= firsts), upon, firsts), keys)
    order = np.lexsort((rows, is_log, keys))
    rows, ranks = rows[order], ranks[order]
    slices, counts = np.unique(keys[order], return_counts=True)
    offsets = offsets_of(counts)
    starts, of_group = slices % width - 1, slices // width
    is_last = np.append(of_group[1:] != of_group[:-1], True)[: len(slices)]
    following = np.where(is_last, NONE, np.append(starts[1:], NONE)[: len(slices)])
    replaced = ranks_of_groups(files, {group: at[by] for group, by in view.replaced.items()})
    hidden_by = replaced[rows[offsets[:-1]]]
    either = np.where(following == NONE, hidden_by, following)
    superseded = np.where(hidden_by == NONE, either, np.minimum(either, hidden_by))
    lasts = np.flatnonzero(is_last)
    ages = lasts[np.searchsorted(lasts, np.arange(len(slices)))] - np.arange(len(slices)) if len(slices) else slices
    oldest = np.minimum.reduceat(ranks, offsets[:-1]) if len(slices) else starts
    instants = np.where(starts == NONE, oldest, starts)
    return PastColumns(files, words, rows, offsets, of_group, instants, superseded, hidden_by, ages)


def _has_later(bases: Longs, keys: Longs, groups: Longs, width: int) -> Flags:
    """Return which files have a base file of a later instant in their group."""
    following = np.searchsorted(bases, keys, side="right")
    later = np.append(bases, NONE)[following]
    found: Flags = (later != NONE) & (later // width == groups)
    return found


def _limits(words: tuple[str, ...], ranks: Longs, asked: Flags, times: WriterTimes) -> Longs:
    """Return the rank of the newest instant upon whose base file each file may lie.

    A log file lies above every base file below its request time; for later base files (`asked`) its completion time decides.
    """
    known = np.unique(ranks[asked])
    if not len(known):
        return ranks
    completed = times.completed([words[rank] for rank in known.tolist()])
    newest = np.arange(len(words))
    newest[known] = [
        bisect_right(words, completed[words[rank]]) - 1 if completed[words[rank]] else len(words) - 1
        for rank in known.tolist()
    ]
    return np.where(asked, np.maximum(ranks, newest[ranks]), ranks)

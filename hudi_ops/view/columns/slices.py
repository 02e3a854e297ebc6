"""Find the newest visible slice of each file group on columns (docs/format §9.1, §9.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Unsupported
from hudi_ops.files.names import METADATA_BOOTSTRAP
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.columns.files import FileColumns, Flags, Longs, offsets_of
from hudi_ops.view.columns.names import BASE, LOG
from hudi_ops.view.columns.table_view import View, view_of
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order

NO_BASE = -1
"""Base file of a slice that has log files alone."""

PART = 1024
"""Slices that an iteration makes at a time."""


@dataclass(frozen=True, eq=False)
class SliceColumns(Sequence[Slice]):
    """Newest visible slices, by partition path and file id.

    As a sequence it has the slices as objects; they are made anew for each caller.

    Attributes:
        files: what the rows below are rows of.
        firsts: for each slice a row of its group.
        bases: row of its base file, or `NO_BASE`.
        offsets: first place of each slice in `logs`, and their number.
        logs: rows of log files, slice by slice.
    """

    files: FileColumns
    firsts: Longs
    bases: Longs
    offsets: Longs
    logs: Longs

    @classmethod
    def of_slices(cls, slices: Sequence[Slice]) -> SliceColumns:
        """Return slices as columns; each has a file."""
        held = [(*((one.base,) if one.base is not None else ()), *one.logs) for one in slices]
        listed: dict[str, list[DataFile]] = {}
        for of_slice in held:
            listed.setdefault(of_slice[0].path.rpartition("/")[0], []).extend(of_slice)
        files = FileColumns.of_files(listed)
        rows = {path: row for row, path in enumerate(files.paths().to_pylist())}
        return cls(
            files,
            np.array([rows[of_slice[0].path] for of_slice in held], np.int64),
            np.array([rows[one.base.path] if one.base is not None else NO_BASE for one in slices], np.int64),
            offsets_of([len(one.logs) for one in slices]),
            np.array([rows[log.path] for one in slices for log in one.logs], np.int64),
        )

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def base_bytes(self) -> Longs:
        """Bytes of each slice's base file."""
        sizes = self.files.sizes
        return np.where(self.bases == NO_BASE, 0, sizes[self.bases]) if len(sizes) else np.zeros(len(self), np.int64)

    @property
    def log_bytes(self) -> Longs:
        """Bytes of each slice's log files."""
        sums = offsets_of(self.files.sizes[self.logs])
        return sums[self.offsets[1:]] - sums[self.offsets[:-1]]

    @property
    def log_counts(self) -> Longs:
        """Number of each slice's log files."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Longs:
        """Rows of all files of the slices, base files first."""
        return np.concatenate([self.bases[self.bases != NO_BASE], self.logs])

    def paths(self) -> frozenset[str]:
        """Return the paths of all files of the slices."""
        return frozenset(self.files.paths().take(pa.array(self.rows)).to_pylist())

    @property
    def base_count(self) -> int:
        """Number of base files."""
        return int(np.count_nonzero(self.bases != NO_BASE))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files of the slices."""
        return int(self.files.sizes[self.rows].sum())

    @property
    def partitions(self) -> list[str]:
        """Paths of the slices' partitions, sorted."""
        return [self.files.partitions[at] for at in np.unique(self.files.partition_of[self.firsts]).tolist()]

    def are_of(self, groups: Iterable[tuple[str, str]]) -> tuple[Flags, list[tuple[str, str]]]:
        """Return which slices are those of some groups, and the groups without one.

        A group is (partition path, file id).
        """
        found = np.zeros(len(self), bool)
        missing: list[tuple[str, str]] = []
        for path, ids in _by_partition(groups).items():
            at = self.files.find(path)
            low, high = np.searchsorted(self.firsts, self.files.offsets[at : at + 2]).tolist() if at >= 0 else (0, 0)
            own = self.files.rows["file_id"].take(pa.array(self.firsts[low:high]))
            places = pc.index_in(pa.array(ids, pa.string()), own)
            found[low + places.drop_null().to_numpy()] = True
            missing += [
                (path, file_id) for file_id, place in zip(ids, places.to_pylist(), strict=True) if place is None
            ]
        return found, missing

    def filter(self, kept: Flags) -> SliceColumns:
        """Return the slices that are `kept`."""
        return self if kept.all() else self._take(np.flatnonzero(kept))

    def bases_alone(self) -> SliceColumns:
        """Return the slices that have a base file, without their log files."""
        kept = self.bases != NO_BASE
        offsets = np.zeros(int(kept.sum()) + 1, np.int64)
        return SliceColumns(self.files, self.firsts[kept], self.bases[kept], offsets, self.logs[:0])

    def _take(self, places: Longs) -> SliceColumns:
        counts = self.log_counts[places]
        offsets = offsets_of(counts)
        of_logs = np.repeat(self.offsets[places] - offsets[:-1], counts) + np.arange(offsets[-1])
        return SliceColumns(self.files, self.firsts[places], self.bases[places], offsets, self.logs[of_logs])

    @overload
    def __getitem__(self, at: int) -> Slice: ...

    @overload
    def __getitem__(self, at: slice) -> SliceColumns: ...

    def __getitem__(self, at: int | slice) -> Slice | SliceColumns:
        if isinstance(at, slice):
            return self._take(np.arange(len(self))[at])
        return self._take(np.array([range(len(self))[at]])).objects()[0]

    def __iter__(self) -> Iterator[Slice]:
        for low in range(0, len(self), PART):
            yield from self[low : low + PART].objects()

    def objects(self) -> list[Slice]:
        """Return the slices as objects, with log files in merge order."""
        firsts = self.files.rows["file_id"].take(pa.array(self.firsts)).to_pylist()
        partitions = [self.files.partitions[at] for at in self.files.partition_of[self.firsts].tolist()]
        has_base = self.bases != NO_BASE
        bases = iter(self.files.data_files(self.bases[has_base]))
        if not len(self.logs):
            return [Slice(*one) for one in zip(partitions, firsts, bases, strict=True)]
        logs = self.files.data_files(self.logs)
        return [
            Slice(partition, file_id, next(bases) if has else None, merge_order(logs[low:high]) if high > low else ())
            for partition, file_id, has, (low, high) in zip(
                partitions, firsts, has_base.tolist(), pairwise(self.offsets.tolist()), strict=True
            )
        ]


def visible_slices(
    config: TableConfig,
    timeline: Timeline,
    commits: CommitReader,
    listed: Mapping[str, Sequence[DataFile]],
    as_of: str | None = None,
    *,
    are_named: bool = False,
) -> list[Slice]:
    """Return the newest slice that readers see of each group of listed files.

    With `as_of` the slices as of this request time. `are_named`: see `view_of`.

    Raises:
        Corrupt: commit metadata cannot be read, or the history cannot, and the slice of a log file depends on it.
        Unavailable: the history is rewritten faster than it can be read.
    """
    files = FileColumns.of_files(listed)
    if as_of is not None:
        words, places = files.instants
        files = files.filter(np.array([word <= as_of for word in words], bool)[places])
    return newest_slices(view_of(config, timeline, commits, files, are_named=are_named), as_of).objects()


def newest_slices(of: View, as_of: str | None = None) -> SliceColumns:
    """Return the newest slice of each group that readers see, as of a request time if given.

    A log file belongs to the newest slice if its writer completed at or after that slice's base instant. In version 6 it does if
    its name holds that base instant, or a later one while a compaction is pending.

    Raises:
        Corrupt: the history cannot be read, and the slice of a log file depends on it.
        Unavailable: the history is rewritten faster than it can be read.
    """
    if as_of is not None:
        return _newest(of, as_of)
    found: SliceColumns = of.computed.get("newest slices") or _newest(of, None)
    of.computed["newest slices"] = found
    return found


def _newest(of: View, as_of: str | None) -> SliceColumns:
    files = of.files
    words, ranks = files.instants
    seen = ~hidden(files, of.replaced, as_of)
    if as_of is not None:
        seen &= np.array([word <= as_of for word in words], bool)[ranks] & _authors_by(files, as_of)
    kinds = files.kinds
    count = int(files.groups[-1]) + 1 if files.count else 0
    newest = _newest_bases(of, np.flatnonzero(seen & (kinds == BASE)), count)
    logs = np.flatnonzero(seen & (kinds == LOG))
    bases = newest[files.groups[logs]]
    on = np.where(bases == NO_BASE, -1, ranks[bases]) if len(ranks) else bases
    logs = logs[_lie_upon(of.config, of.timeline, of.commits, words, ranks[logs], on)]
    counts = np.bincount(files.groups[logs], minlength=count).astype(np.int64)
    is_slice = (newest != NO_BASE) | (counts > 0)
    starts = np.searchsorted(files.groups, np.flatnonzero(is_slice))
    return SliceColumns(files, starts, newest[is_slice], offsets_of(counts[is_slice]), logs)


def _newest_bases(of: View, rows: Longs, count: int) -> Longs:
    """Return the newest base file of each of `count` groups among rows, or `NO_BASE`.

    Commits are read from the newest file of a group on, until one names its file.
    """
    files, ranks = of.files, of.files.instants[1]
    if (np.diff(files.groups[rows]) == 0).any():
        # Of several base files of a group the one that is assigned last stays: the newest, and of these the first by name.
        rows = rows[np.lexsort((-rows, ranks[rows], files.groups[rows]))]
    while True:
        newest = np.full(count, NO_BASE, np.int64)
        newest[files.groups[rows]] = rows
        chosen = newest[newest != NO_BASE]
        unnamed = chosen[~of.are_named(chosen)]
        if not len(unnamed):
            return newest
        rows = rows[~np.isin(rows, unnamed)]


def with_all_columns(config: TableConfig, slices: SliceColumns) -> SliceColumns:
    """Return slices whose files hold all columns of their rows.

    Raises:
        Unsupported: a base file is the skeleton of a bootstrap, which has the meta columns alone.

    Source: docs/format §6.1.
    """
    words, places = slices.files.instants
    bases = slices.bases[slices.bases != NO_BASE]
    is_bare = places[bases] == (words.index(METADATA_BOOTSTRAP) if METADATA_BOOTSTRAP in words else -1)
    if is_bare.any():
        (bare,) = slices.files.data_files(bases[is_bare][:1])
        raise Unsupported(
            f"{bare.path} has the meta columns alone: a bootstrap of Apache Hudi left the other columns in the source's files",
            table=config.name,
            instant=bare.instant,
            expected="base files with all columns",
            found=f"a metadata-only bootstrap of {config.raw.get('hoodie.bootstrap.base.path') or 'an unknown folder'}",
            next_step="read the table with Apache Hudi; or have it rewrite these files (clustering, or an upsert of their rows) or "
            "bootstrap the table anew with full records (hoodie.bootstrap.mode.selector)",
            file=bare.path,
        )
    return slices


def hidden(files: FileColumns, replaced: Mapping[tuple[str, str], str], as_of: str | None) -> Flags:
    """Return the rows of groups that a replace commit hides."""
    found = np.zeros(files.count, bool)
    groups = (group for group, by in replaced.items() if as_of is None or by <= as_of)
    for partition, ids in _by_partition(groups).items():
        at = files.find(partition)
        if at >= 0:
            low, high = int(files.offsets[at]), int(files.offsets[at + 1])
            own = files.rows["file_id"].slice(low, high - low)
            found[low:high] = pc.is_in(own, pa.array(ids, pa.string())).to_numpy(zero_copy_only=False)
    return found


def _by_partition(groups: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return file ids by partition path."""
    found: dict[str, list[str]] = {}
    for partition, file_id in groups:
        found.setdefault(partition, []).append(file_id)
    return found


def _authors_by(files: FileColumns, as_of: str) -> Flags:
    """Return the rows of child logs whose writers were requested by `as_of`, and all other rows."""
    found: Flags = pc.less_equal(files.rows["author"], as_of).fill_null(True).to_numpy(zero_copy_only=False)
    return found


def _lie_upon(
    config: TableConfig, timeline: Timeline, commits: CommitReader, words: tuple[str, ...], logs: Longs, bases: Longs
) -> Flags:
    """Return whether log files lie upon the base files of their groups.

    `logs` and `bases` are positions of instants among `words`; -1 without a base file.
    """
    upon: Flags = logs >= bases
    late = np.flatnonzero(~upon)
    if config.layout == 1 or not len(late):
        return upon
    pairs, places = np.unique(logs[late] * len(words) + bases[late], return_inverse=True)
    named = [(words[pair // len(words)], words[pair % len(words)]) for pair in pairs.tolist()]
    times = WriterTimes(timeline, config.history_folder, commits.archived)
    upon[late] = np.array(times.lie_upon(named), bool)[places]
    return upon

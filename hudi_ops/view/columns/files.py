"""Hold the files of a table as Arrow columns, sorted by partition, file group and name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.view.columns.names import BASE, Codes, author_of, kind_of, parse_names
from hudi_ops.view.file_group import DataFile

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ROWS = pa.schema([
    ("file_id", pa.string()),
    ("name", pa.string()),
    ("instant", pa.string()),
    ("kind", pa.int8()),
    ("size", pa.int64()),
    ("author", pa.string()),
    ("unread", pa.bool_()),
])
"""Columns of a file; see `NameColumns`.

Sizes are in bytes. `unread`: the metadata of the file's instant was not read; it may not name the file.
"""

FEW = 256
"""Up to this number of names a loop is faster than Arrow."""

CHUNKS_MAX = 256
"""Files of more pieces are copied into one."""

_OF_ROWS = ("partition_of", "groups", "instants")
"""Cached values that do not depend on `unread`."""

_SORTED_BY = [(key, "ascending") for key in ("partition", "file_id", "name")]


@dataclass(frozen=True, eq=False)
class FileColumns(Mapping[str, list[DataFile]]):
    """Files by partition path, file id and name. Never changed.

    As a mapping it has the files of each partition as objects, by path; they are made anew for each caller.

    Attributes:
        partitions: sorted paths; a partition may have no files.
        offsets: first row of each partition, and the number of rows.
        chunks: rows with the columns of `ROWS`, one for each file; parts of other values, which are not copied.
        is_mapped: most chunks lie in a file. Later values take them from there, and not from a copy on the heap.
    """

    partitions: tuple[str, ...]
    offsets: Longs
    chunks: tuple[pa.RecordBatch, ...]
    is_mapped: bool = False

    @classmethod
    def of(cls, partitions: Sequence[str], counts: Longs, names: pa.StringArray, sizes: pa.Int64Array) -> FileColumns:
        """Return the data files among listed files.

        Args:
            partitions: sorted paths.
            counts: number of listed files of each partition.
            names: listed file names, partition by partition.
            sizes: in bytes.
        """
        if len(names) <= FEW:
            return cls._of_few(tuple(partitions), counts.tolist(), names.to_pylist(), sizes.to_pylist())
        found, parsed = parse_names(names)
        is_all = len(found) == len(names)
        taken = pa.array(found)
        columns: dict[str, pa.Array] = {
            "partition": pa.array(np.repeat(np.arange(len(partitions)), counts)[found]),
            "file_id": parsed.file_id,
            "name": names if is_all else names.take(taken),
            "instant": parsed.instant,
            "kind": pa.array(parsed.kind),
            "size": sizes if is_all else sizes.take(taken),
            "author": parsed.author,
            "unread": pa.array(np.zeros(len(parsed), bool)),
        }
        del parsed
        return cls._sorted(tuple(partitions), columns)

    @classmethod
    def _of_few(
        cls, partitions: tuple[str, ...], counts: Sequence[int], names: Sequence[str], sizes: Sequence[int]
    ) -> FileColumns:
        """Return the data files among a few: the calls of Arrow would take longer than a loop."""
        listed = zip((at for at, count in enumerate(counts) for _ in range(count)), names, sizes, strict=True)
        found = sorted(
            (at, parsed.file_id, name, parsed.instant, kind_of(parsed), size, author_of(parsed), False)
            for at, name, size in listed
            if (parsed := parse_data_file(name)) is not None
        )
        columns = list(zip(*found, strict=True)) or [()] * (1 + len(ROWS))
        kept = np.bincount(np.array(columns[0], np.int64), minlength=len(partitions))
        arrays = [pa.array(values, field.type) for values, field in zip(columns[1:], ROWS, strict=True)]
        return cls(partitions, offsets_of(kept), (pa.RecordBatch.from_arrays(arrays, schema=ROWS),))

    @classmethod
    def of_files(cls, listed: Mapping[str, Iterable[DataFile]]) -> FileColumns:
        """Return listed files by partition path as columns."""
        if isinstance(listed, FileColumns):
            return listed
        paths = sorted(listed)
        files = [list(listed[path]) for path in paths]
        names = pa.array([one.name for held in files for one in held], pa.string())
        sizes = pa.array([one.size_bytes for held in files for one in held], pa.int64())
        return cls.of(paths, np.array(list(map(len, files)), np.int64), names, sizes)

    @classmethod
    def _sorted(cls, partitions: tuple[str, ...], columns: dict[str, pa.Array]) -> FileColumns:
        """Sort columns, and empty their mapping; `partition` has the position of each row's."""
        counts = np.bincount(columns["partition"].to_numpy(), minlength=len(partitions))
        order = pc.sort_indices(pa.RecordBatch.from_pydict(columns), sort_keys=_SORTED_BY)
        del columns["partition"]
        if not (np.diff(order.to_numpy().astype(np.int64)) == 1).all():  # a listing is sorted already
            for name in ROWS.names:  # one after another: both copies of a large column are held for a moment only
                columns[name] = columns.pop(name).take(order)
        rows = pa.RecordBatch.from_arrays([columns.pop(one.name).cast(one.type) for one in ROWS], schema=ROWS)
        return cls(partitions, offsets_of(counts), (rows,))

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """All rows in one piece."""
        if len(self.chunks) == 1:
            return self.chunks[0]  # a mapped one is not copied
        return pa.concat_batches(self.chunks) if self.chunks else pa.RecordBatch.from_pylist([], ROWS)

    @property
    def bytes(self) -> int:
        """Bytes of the columns."""
        return sum(chunk.nbytes for chunk in self.chunks)

    @property
    def count(self) -> int:
        """Number of files."""
        return int(self.offsets[-1])

    @property
    def kinds(self) -> Codes:
        """Kind of each file: `BASE`, `LOG` or `CDC`."""
        found: Codes = self.rows["kind"].to_numpy()
        return found

    @property
    def sizes(self) -> Longs:
        """Bytes of each file."""
        found: Longs = self.rows["size"].to_numpy()
        return found

    @property
    def unread(self) -> Flags:
        """Whether the metadata of a file's instant was not read."""
        found: Flags = self.rows["unread"].to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def partition_of(self) -> Longs:
        """Position of the partition of each row."""
        return np.repeat(np.arange(len(self.partitions)), np.diff(self.offsets))

    @cached_property
    def groups(self) -> Longs:
        """Number of the file group of each row, from 0 on, in the order of the rows."""
        starts = np.zeros(self.count, bool)
        if self.count:
            ids = self.rows["file_id"]
            starts[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
            starts[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return np.cumsum(starts) - 1

    @cached_property
    def instants(self) -> tuple[tuple[str, ...], Longs]:
        """Sorted request times of the files' writers, and the position of each row's among them."""
        encoded = pc.dictionary_encode(self.rows["instant"])
        words = encoded.dictionary.to_pylist()
        order = sorted(range(len(words)), key=words.__getitem__)
        ranks = np.empty(len(words), np.int64)
        ranks[order] = np.arange(len(words))
        return tuple(words[at] for at in order), ranks[encoded.indices.to_numpy()]

    def find(self, path: str) -> int:
        """Return the position of a partition; -1: there is none."""
        at = bisect_left(self.partitions, path)
        return at if at < len(self.partitions) and self.partitions[at] == path else -1

    def of_partitions(self, paths: Iterable[str]) -> FileColumns:
        """Return the files of some partitions; one that does not exist has none."""
        wanted = tuple(sorted({*paths}))
        if wanted == self.partitions:
            return self
        places = [self.find(path) for path in wanted]
        bounds = [(int(self.offsets[at]), int(self.offsets[at + 1])) if at >= 0 else (0, 0) for at in places]
        chunks = [chunk for low, high in bounds for chunk in self._pieces(low, high)]
        return FileColumns(wanted, offsets_of([high - low for low, high in bounds]), tuple(chunks))

    def with_partitions(self, changed: FileColumns) -> FileColumns:
        """Return these files, with those of `changed` in place of its partitions.

        The rows of `changed` are copied, partition by partition: a later change of one frees its memory. Others are shared.
        """
        if not changed.partitions:
            return self
        partitions = tuple(sorted({*self.partitions, *changed.partitions}))
        counts = dict(zip(self.partitions, np.diff(self.offsets).tolist(), strict=True))
        counts |= dict(zip(changed.partitions, np.diff(changed.offsets).tolist(), strict=True))
        chunks: list[pa.RecordBatch] = []
        low = 0
        bounds = changed.offsets.tolist()
        for path, (first, last) in zip(changed.partitions, pairwise(bounds), strict=True):
            at = bisect_left(self.partitions, path)
            chunks += self._pieces(low, int(self.offsets[at]))
            chunks += map(_copied, changed._pieces(first, last))
            has_old = at < len(self.partitions) and self.partitions[at] == path
            low = int(self.offsets[at + 1 if has_old else at])
        chunks += self._pieces(low, self.count)
        if len(chunks) > CHUNKS_MAX and not self.is_mapped:
            chunks = [pa.concat_batches(chunks)]
        offsets = offsets_of([counts[path] for path in partitions])
        return FileColumns(partitions, offsets, tuple(chunks), self.is_mapped)

    def _pieces(self, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """Yield the chunks of rows from `low` below `high`."""
        starts = self._chunk_starts
        at = int(np.searchsorted(starts, low, side="right")) - 1
        while low < high:
            end = min(high, int(starts[at + 1]))
            if end > low:
                yield self._parts[at].slice(low - int(starts[at]), end - low)
            low, at = end, at + 1

    @cached_property
    def _chunk_starts(self) -> Longs:
        return offsets_of([chunk.num_rows for chunk in self._parts])

    @cached_property
    def _parts(self) -> tuple[pa.RecordBatch, ...]:
        """Rows in one piece if they are, so that nothing holds the pieces; else the chunks."""
        return (self.rows,) if "rows" in vars(self) and not self.is_mapped else self.chunks

    def batches(self, rows_max: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in parts of up to `rows_max`; only one of them is copied at a time."""
        for low in range(0, self.count, rows_max):
            yield pa.concat_batches(list(self._pieces(low, min(low + rows_max, self.count))))

    def filter(self, kept: Flags) -> FileColumns:
        """Return the rows that are `kept`, of all partitions."""
        if kept.all():
            return self
        counts = np.bincount(self.partition_of[kept], minlength=len(self.partitions))
        return FileColumns(self.partitions, offsets_of(counts), (self.rows.filter(pa.array(kept)),))

    def only(self, kept: Flags) -> FileColumns:
        """Return the rows that are `kept`, and their partitions alone."""
        if not kept.any():
            return none_of()
        found = self.filter(kept)
        return found.of_partitions(self.partitions[at] for at in np.flatnonzero(np.diff(found.offsets)).tolist())

    def marked(self, unread: Flags) -> FileColumns:
        """Return the same files with another column `unread`."""
        at = ROWS.get_field_index("unread")
        rows = self.rows.set_column(at, ROWS.field(at), pa.array(unread))
        found = FileColumns(self.partitions, self.offsets, (rows,))
        vars(found).update({name: value for name, value in vars(self).items() if name in _OF_ROWS})
        return found

    def added(self, others: FileColumns) -> FileColumns:
        """Return these files and others, which replace those of the same path."""
        partitions = tuple(sorted({*self.partitions, *others.partitions}))
        own = self.filter(~self.are_in(others))
        places = {path: at for at, path in enumerate(partitions)}
        of_partition = [
            np.array([places[path] for path in each.partitions], np.int64)[each.partition_of] for each in (own, others)
        ]
        rows = pa.concat_batches([own.rows, others.rows])
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        return FileColumns._sorted(partitions, {**columns, "partition": pa.array(np.concatenate(of_partition))})

    def paths(self) -> pa.StringArray:
        """Return the path of each file below the table's root."""
        prefixes = pa.array([data_path(path, "") for path in self.partitions], pa.string())
        return pc.binary_join_element_wise(prefixes.take(pa.array(self.partition_of)), self.rows["name"], "")

    def are_in(self, others: FileColumns) -> Flags:
        """Return which files others have, too, by path."""
        found: Flags = pc.is_in(self.paths(), others.paths()).to_numpy(zero_copy_only=False)
        return found

    def has(self, paths: Sequence[str]) -> frozenset[str]:
        """Return which of some paths are here."""
        own = self.paths() if paths else pa.array([], pa.string())
        wanted = pa.array(paths, pa.string())
        return frozenset(wanted.filter(pc.is_in(wanted, own)).to_pylist())

    def named(self, rows: Longs) -> list[tuple[str, str]]:
        """Return partition path and name of rows."""
        places = self.partition_of[rows].tolist()
        names = self.rows["name"].take(pa.array(rows)).to_pylist()
        return [(self.partitions[at], name) for at, name in zip(places, names, strict=True)]

    def data_files(self, rows: Longs | None = None) -> list[DataFile]:
        """Return rows as objects; None: all."""
        taken = self.rows if rows is None else self.rows.take(pa.array(rows))
        places = self.partition_of if rows is None else self.partition_of[rows]
        prefixes = {at: data_path(self.partitions[at], "") for at in np.unique(places).tolist()}
        return [
            DataFile(self.partitions[at], prefixes[at] + name, file_id, instant, size, kind != BASE)
            for at, file_id, name, instant, kind, size in zip(
                places.tolist(), *(taken[name].to_pylist() for name in ROWS.names[:5]), strict=True
            )
        ]

    def __getitem__(self, path: str) -> list[DataFile]:
        if self.find(path) < 0:
            raise KeyError(path)
        return sorted(self.of_partitions([path]).data_files(), key=attrgetter("path"))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.find(path) >= 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.partitions)

    def __len__(self) -> int:
        """Return the number of partitions; `count` is that of files."""
        return len(self.partitions)


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a slice in memory of their own."""
    return batch.take(pa.array(np.arange(batch.num_rows)))


def none_of(partitions: Sequence[str] = ()) -> FileColumns:
    """Return partitions without files."""
    return FileColumns(tuple(partitions), np.zeros(len(partitions) + 1, np.int64), ())


def offsets_of(counts: npt.ArrayLike) -> Longs:
    """Return the first row of each part, and the number of rows."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(counts, np.int64))])

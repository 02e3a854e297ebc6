"""Join of log entries with base keys, in memory or part by part on disk.

Entries beyond the limit are split by a hash of their key into parts on disk, with the base keys that may match one of them. Then
the parts are joined one after the other. All records of a key are in one part, so the outcome does not depend on the parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import COMMIT_TIME
from hudi_ops.engine.memory import release_memory
from hudi_ops.engine.protocol import Chunk
from hudi_ops.engine.spill import ChunkStore
from hudi_ops.engine.stopping import check_stop
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.merged_log import MergedLogRecords
from hudi_ops.files.slice.file_scan import FileScan
from hudi_ops.kernels.keys.hashing import java_string_hash
from hudi_ops.kernels.merging.log_merge import LogBaseJoin, LogEntries, Mask
from hudi_ops.kernels.merging.merge import Numbers

JOIN_BYTES = 256 << 20
"""Memory of a join whose caller has no limit of its own."""
ENTRY_BYTES = 300
"""Memory of an entry while it is joined, at its peak: key, ordering value, hash tables, numbers."""
PARTS = 256
"""Parts on disk; small ones are joined together."""

_KEY_ROWS = 1 << 20
"""Base rows whose keys are looked up at a time: the table of the log's keys is built once for each such run."""
_SPLIT_ROWS = 1 << 17
"""Base rows whose keys are split at a time."""
_SPLIT_ROW_BYTES = 64
"""Memory of such a row: its key, hash, number and part."""
_SEEN_BITS_MAX = 23
_DELETE, _OF_BLOCK, _UNCONDITIONAL = 1, 2, 4


@dataclass(frozen=True)
class StreamLimits:
    """Limits of a slice that is streamed.

    Attributes:
        join_bytes: memory for keys, ordering values and positions of the logs; what exceeds it goes to disk.
        batch_bytes: approximate size of a batch of rows; None: the usual one. See `FileScan`.
        spill_folder: folder on that disk; None: the system's folder for temporary files (`TMPDIR`).
    """

    join_bytes: int = JOIN_BYTES
    batch_bytes: int | None = None
    spill_folder: str | os.PathLike[str] | None = None


USUAL_LIMITS = StreamLimits()


@dataclass(frozen=True, eq=False)
class SliceJoin:
    """Surviving base rows (None: all) and log entries, with the counts of `LogBaseJoin`."""

    keep: Mask | None
    taken: Numbers
    inserted: int
    updated: int
    deleted: int
    ignored: int


@dataclass(frozen=True, eq=False)
class SliceSides:
    """Both sides of a join: opened log files, and the base file, if there is one.

    Attributes:
        only: instants whose base rows are merged with log records; None: all.
    """

    logs: MergedLogRecords
    base: FileScan | None
    rules: MergeRules
    only: frozenset[str] | None

    def heads(
        self, groups: list[int], batch_rows: int | None
    ) -> Iterator[tuple[pa.Array | pa.ChunkedArray, pa.ChunkedArray | None]]:
        """Yield keys and ordering values of base rows; keys of rows that are not merged are null.

        `batch_rows` limits the rows that are decoded at a time; None: all at once, and what the base file's rows are made of is
        kept for them.
        """
        if self.base is None or not groups:
            return
        fields = [*self.rules.of_base, *([pa.field(COMMIT_TIME, pa.string())] if self.only is not None else [])]
        schema = pa.schema(fields)
        parts = (
            [self.base.heads(schema, groups)] if batch_rows is None else self.base.columns(schema, groups, batch_rows)
        )
        for heads in parts:
            keys = self.rules.keys_of(heads)
            if self.only is not None:
                of_these = pc.is_in(heads.column(COMMIT_TIME), pa.array(sorted(self.only), pa.string()))
                keys = pc.if_else(of_these, keys, pa.scalar(None, pa.string()))
            yield keys, self.rules.ordering_of(heads)

    def groups_met(self) -> list[int]:
        """Return the row groups to join with logs: all where a base row may win, else read ones."""
        if self.base is None:
            return []
        # A file without the keys, or without rows of these writers, has no match.
        if self.rules.ordering is None or not self.base.may_hold_keys:
            return self.base.row_groups
        return list(range(self.base.row_groups_in_file))

    def of_groups_read(self, keep: Mask | None, met: list[int]) -> Mask | None:
        """Return the part of a mask over the joined row groups that is about the read ones."""
        if keep is None or self.base is None or met == self.base.row_groups:
            return keep
        read = frozenset(self.base.row_groups)
        is_read = np.repeat([group in read for group in met], [self.base.rows_in(group) for group in met])
        return np.asarray(keep[is_read], bool)


def join_slice(sides: SliceSides, limits: StreamLimits | None) -> SliceJoin:
    """Join the entries of the log files with each other and with the base rows.

    Beyond the limits, entries and keys go to disk. None: there are none.

    Raises:
        Corrupt: a file cannot be read.
        Unsupported: ordering values of deletes that do not fit the table's.
        Unavailable: the storage did not deliver a file, or the disk is full.
    """
    ordering = sides.rules.ordering
    kind = ordering.type if ordering is not None else None
    if limits is None:
        return _joined(sides, sides.logs.entries, None)
    limit, held, count = limits.join_bytes // ENTRY_BYTES, list[LogEntries](), 0
    rest = sides.logs.entry_parts()
    for entries in rest:
        held.append(entries)
        count += len(entries)
        if count > limit:
            return _joined_by_parts(sides, chain(_emptied(held), rest), kind, limits)
    return _joined(sides, LogEntries.joined(held, kind), _KEY_ROWS)


def _emptied(held: list[LogEntries]) -> Iterator[LogEntries]:
    while held:
        yield held.pop(0)


def _joined(sides: SliceSides, entries: LogEntries, batch_rows: int | None) -> SliceJoin:
    if not len(entries):
        return SliceJoin(None, np.zeros(0, np.int64), 0, 0, 0, 0)
    meeting, groups = LogBaseJoin(entries, sides.rules.mode), sides.groups_met()
    for keys, ordering in sides.heads(groups, batch_rows):
        meeting.add(keys, ordering)
    keep = sides.of_groups_read(meeting.keep_base(), groups)
    return SliceJoin(keep, meeting.taken(), meeting.inserted, meeting.updated, meeting.deleted, meeting.ignored)


def _joined_by_parts(
    sides: SliceSides, entries: Iterable[LogEntries], kind: pa.DataType | None, limits: StreamLimits
) -> SliceJoin:
    memory_bytes = limits.join_bytes
    with closing(ChunkStore(memory_bytes // 4, limits.spill_folder, holds="keys of a slice")) as store:
        parts = _Parts(store, kind, memory_bytes)
        for some in entries:
            check_stop()
            parts.add_entries(some)
        groups = sides.groups_met()
        for keys, ordering in sides.heads(groups, max(1, min(_SPLIT_ROWS, memory_bytes // _SPLIT_ROW_BYTES))):
            check_stop()
            parts.add_base(keys, ordering)
        store.seal()
        keep, taken, counts = np.ones(parts.base_rows, bool), [np.zeros(0, np.int64)], np.zeros(4, np.int64)
        for numbers in _grouped(parts.sizes, memory_bytes // ENTRY_BYTES):
            check_stop()
            meeting, places, rows = parts.meeting(numbers, sides.rules)
            kept = meeting.keep_base()
            if kept is not None:
                keep[rows[~kept]] = False
            taken.append(places[meeting.taken()])
            counts += [meeting.inserted, meeting.updated, meeting.deleted, meeting.ignored]
    release_memory()
    kept = None if keep.all() else sides.of_groups_read(keep, groups)
    return SliceJoin(kept, np.sort(np.concatenate(taken)), *map(int, counts))


def _grouped(sizes: npt.NDArray[np.int64], limit: int) -> Iterator[list[int]]:
    """Yield runs of parts that have about as many entries together as the limit says."""
    held, count = list[int](), 0
    for number, size in enumerate(sizes.tolist()):
        if held and count + size > limit:
            yield held
            held, count = [], 0
        held.append(number)
        count += size
    if held:
        yield held


class _Parts:
    """Entries and base keys, split by a hash of the key and held in a store."""

    def __init__(self, store: ChunkStore, kind: pa.DataType | None, memory_bytes: int) -> None:
        self._store, self._kind = store, kind
        seen_bits = min(_SEEN_BITS_MAX, memory_bytes.bit_length())
        self._seen, self._shift = np.zeros(1 << seen_bits, bool), np.uint32(32 - seen_bits)
        """Hashes that an entry has: other base keys meet none."""
        self._added = self._entries = self.base_rows = 0
        self.sizes = np.zeros(PARTS, np.int64)
        """Entries of each part."""

    def add_entries(self, entries: LogEntries) -> None:
        """Add the next entries."""
        hashes = _hashes(entries.keys)
        self._seen[hashes >> self._shift] = True
        flags = _DELETE * entries.is_delete + _OF_BLOCK * entries.of_delete_block
        rows = pa.table({
            "number": np.arange(self._entries, self._entries + len(entries)),
            "key": entries.keys,
            "flags": (flags + _UNCONDITIONAL * entries.is_unconditional).astype(np.uint8),
        })
        self._entries += len(entries)
        self.sizes += self._add("log", rows, entries.ordering, hashes)

    def add_base(self, keys: pa.Array | pa.ChunkedArray, ordering: pa.ChunkedArray | None) -> None:
        """Add the keys of the next base rows that may meet an entry."""
        hashes = _hashes(keys)
        met = np.flatnonzero(self._seen[hashes >> self._shift])
        places = pa.array(met)
        rows = pa.table({"number": self.base_rows + met, "key": keys.take(places)})
        self.base_rows += len(keys)
        self._add("base", rows, ordering.take(places) if ordering is not None else None, hashes[met])

    def meeting(self, numbers: Iterable[int], rules: MergeRules) -> tuple[LogBaseJoin, Numbers, Numbers]:
        """Return the join of some parts, the numbers of its entries, and those of its base rows."""
        found = self._read("log", numbers)
        flags = found.column("flags").to_numpy()
        ordering = _array(found.column("ordering")) if "ordering" in found.column_names else None
        masks = ((flags & flag).astype(bool) for flag in (_DELETE, _OF_BLOCK, _UNCONDITIONAL))
        meeting = LogBaseJoin(LogEntries(_array(found.column("key")), ordering, *masks), rules.mode)
        base = self._read("base", numbers)
        if base.num_rows:
            values = base.column("ordering") if "ordering" in base.column_names else None
            meeting.add(base.column("key"), values)
        return meeting, found.column("number").to_numpy(), base.column("number").to_numpy()

    def _add(
        self,
        side: str,
        rows: pa.Table,
        ordering: pa.Array | pa.ChunkedArray | None,
        hashes: npt.NDArray[np.uint32],
    ) -> npt.NDArray[np.int64]:
        """Add rows to their parts; return how many each part got."""
        if self._kind is not None:
            rows = rows.append_column("ordering", ordering if ordering is not None else pa.nulls(len(rows), self._kind))
        parts = (hashes.astype(np.uint64) * np.uint64(PARTS) >> np.uint64(32)).astype(np.uint8)
        order, counts = np.argsort(parts, kind="stable"), np.bincount(parts, minlength=PARTS)
        rows = rows.take(pa.array(order)).combine_chunks()
        ends = np.cumsum(counts)
        chunks = [
            Chunk(f"{side} {part}", rows.slice(ends[part] - counts[part], counts[part]))
            for part in np.flatnonzero(counts).tolist()
        ]
        self._store.add((self._added, 0), chunks, rows.nbytes)
        self._added += 1
        return counts

    def _read(self, side: str, numbers: Iterable[int]) -> pa.Table:
        tables = [rows for number in numbers for rows in self._store.read(f"{side} {number}")]
        fields = [("number", pa.int64()), ("key", pa.string()), *([("flags", pa.uint8())] if side == "log" else [])]
        empty = pa.schema([*fields, *([("ordering", self._kind)] if self._kind is not None else [])]).empty_table()
        return pa.concat_tables([empty, *tables]).combine_chunks()


def _hashes(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    # The keys of a bucket have one remainder of this hash: the product spreads them over the upper bits.
    return java_string_hash(keys).astype(np.uint32) * np.uint32(2654435761)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])

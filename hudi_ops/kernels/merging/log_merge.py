"""Decisions on log records: which survive, and how they change the base rows.

They are masks and row numbers only. Log records of one key are folded first, and only the survivor is compared with the base
row: an unconditional delete that is followed by a row with a smaller ordering value than the base row's leaves the base row,
as in both other readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.merging.merge import Numbers, Ordering, is_late, key_codes, pairs, winners_of

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LogEntries:
    """Rows and deletes of a slice's log files, in the order in which they are read.

    Attributes:
        keys: record keys, no nulls.
        ordering: ordering values in the table's type; None if nothing is compared.
        is_delete: the entry deletes its key.
        of_delete_block: the entry comes from a delete block and has no row.
        is_unconditional: it deletes earlier records of any ordering value; only entries of delete blocks.
    """

    keys: pa.Array
    ordering: pa.Array | None
    is_delete: Mask
    of_delete_block: Mask
    is_unconditional: Mask

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, numbers: Numbers) -> LogEntries:
        """Return the entries with these numbers, in their order."""
        places = pa.array(numbers)
        ordering = self.ordering.take(places) if self.ordering is not None else None
        masks = (self.is_delete[numbers], self.of_delete_block[numbers], self.is_unconditional[numbers])
        return LogEntries(self.keys.take(places), ordering, *masks)

    @classmethod
    def joined(cls, parts: Sequence[LogEntries], kind: pa.DataType | None) -> LogEntries:
        """Concatenate entries; `kind` types the ordering values, which are null for a part without."""
        keys = pa.concat_arrays([pa.array([], pa.string()), *(part.keys for part in parts)])
        ordering = None
        if kind is not None:
            values = (part.ordering if part.ordering is not None else pa.nulls(len(part), kind) for part in parts)
            ordering = pa.concat_arrays([pa.array([], kind), *values])
        none = np.zeros(0, bool)
        return cls(
            keys,
            ordering,
            np.concatenate([none, *(part.is_delete for part in parts)]),
            np.concatenate([none, *(part.of_delete_block for part in parts)]),
            np.concatenate([none, *(part.is_unconditional for part in parts)]),
        )


class LogBaseJoin:
    """Join of log entries with each other and with the base rows, which come in runs.

    The outcome is known after the last run. Base rows are looked up in a hash table of the entries, never sorted or grouped.
    Entries that match the same base row have one key, so only keys that the base lacks are compared with each other.

    If the base holds a key more than once, the entry must win against each of its rows and then replaces them all, as in
    `plan_merge`. Source: docs/format §11.3.
    """

    def __init__(self, entries: LogEntries, mode: Ordering) -> None:
        self._entries, self._mode = entries, mode
        self._ordering = entries.ordering if mode is Ordering.EVENT_TIME else None
        self._count = 0
        self._rows: list[Numbers] = [np.zeros(0, np.int64)]
        self._numbers: list[Numbers] = [np.zeros(0, np.int64)]
        self._base_ordering: list[pa.Array] = []

    def add(self, base_keys: pa.Array | pa.ChunkedArray, base_ordering: pa.Array | pa.ChunkedArray | None) -> None:
        """Add the next base rows: keys (a null matches no entry) and ordering values.

        Ordering values are in the table's type; None, in all runs alike, if there are none.
        """
        rows, numbers = pairs(base_keys, self._entries.keys)
        if self._ordering is not None and base_ordering is not None:
            met = rows[_begins(rows)]
            values = base_ordering.take(pa.array(met))
            self._base_ordering += values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        self._rows.append(self._count + rows)
        self._numbers.append(numbers)
        self._count += len(base_keys)

    def keep_base(self) -> Mask | None:
        """Return a mask over all base rows, in order: which are kept. None: all are kept."""
        met, partners, _, loses = self._outcome
        gone = met[~loses[partners]]
        if not len(gone):
            return None
        keep = np.ones(self._count, bool)
        keep[gone] = False
        return keep

    def taken(self) -> Numbers:
        """Return the numbers of the entries whose rows are in the slice, ascending."""
        _, _, winners, loses = self._outcome
        return np.sort(winners[~self._entries.is_delete[winners] & ~loses[winners]])

    @property
    def inserted(self) -> int:
        """Rows whose key the base does not have."""
        return self._counted(is_delete=False, is_known=False)

    @property
    def updated(self) -> int:
        """Rows that replace a base row."""
        return self._counted(is_delete=False, is_known=True)

    @property
    def deleted(self) -> int:
        """Deletes that remove a base row."""
        return self._counted(is_delete=True, is_known=True)

    @property
    def ignored(self) -> int:
        """Rows and deletes that lost to a base row with a larger ordering value."""
        return int(np.count_nonzero(self._outcome[3]))

    def _counted(self, *, is_delete: bool, is_known: bool) -> int:
        _, partners, winners, loses = self._outcome
        known = np.zeros(len(self._entries), bool)
        known[partners] = True
        wanted = (self._entries.is_delete == is_delete) & (known == is_known) & ~loses
        return int(np.count_nonzero(wanted[winners]))

    @cached_property
    def _outcome(self) -> tuple[Numbers, Numbers, Numbers, Mask]:
        """Base rows that match an entry, ascending, their winners, all winners, and losers."""
        entries, rows, numbers = self._entries, np.concatenate(self._rows), np.concatenate(self._numbers)
        begins = _begins(rows)
        # An entry's key is identified by the first base row that it matches; keys without a base row are compared with each
        # other.
        codes = np.full(len(entries), -1, np.int64)
        codes[numbers[::-1]] = (np.cumsum(begins) - 1)[::-1]
        distinct = int(np.count_nonzero(begins))
        met, first = rows[begins], numbers[begins]
        alone = np.flatnonzero(codes < 0)
        if len(alone):
            added, count = key_codes(entries.keys if len(alone) == len(entries) else entries.keys.take(pa.array(alone)))
            codes[alone] = distinct + added
            distinct += count
        masks = (entries.of_delete_block, entries.is_unconditional)
        left = winners_of(codes, distinct, self._ordering, self._mode, *masks)
        partners = left[codes[first]]
        loses = np.zeros(len(entries), bool)
        if self._ordering is not None and self._base_ordering:
            late = is_late(pa.concat_arrays(self._base_ordering), self._ordering.take(pa.array(partners)))
            late &= ~entries.is_unconditional[partners]
            loses[partners[late]] = True
        return met, partners, left[left >= 0], loses


def _begins(rows: Numbers) -> Mask:
    """Return where a new number begins in ascending numbers."""
    return np.asarray(np.diff(rows, prepend=-1) != 0, bool)

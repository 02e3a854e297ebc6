"""Which log records survive, and what they do to the base rows of their slice: decisions only, as masks and numbers.

Log records of one key are folded among themselves first, and only the survivor meets the base row: an unconditional delete that is
followed by a row with a smaller ordering value than the base row's leaves the base row, as in both other readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.merge import Ordering, is_late, matches, winners_by_key

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LogEntries:
    """Rows and deletes of a slice's log files, in the order in which they are read.

    Attributes:
        keys: record keys, no nulls.
        ordering: ordering values in the table's type; None where nothing is compared.
        is_delete: the entry deletes its key.
        of_delete_block: it is no row at all; only deletes.
        is_unconditional: it deletes whatever the ordering value of what was before; only those of delete blocks.
    """

    keys: pa.Array
    ordering: pa.Array | None
    is_delete: Mask
    of_delete_block: Mask
    is_unconditional: Mask

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, numbers: npt.NDArray[np.int64]) -> LogEntries:
        """Some of them, in the order of the numbers."""
        places = pa.array(numbers)
        ordering = self.ordering.take(places) if self.ordering is not None else None
        masks = (self.is_delete[numbers], self.of_delete_block[numbers], self.is_unconditional[numbers])
        return LogEntries(self.keys.take(places), ordering, *masks)

    @classmethod
    def joined(cls, parts: Sequence[LogEntries], kind: pa.DataType | None) -> LogEntries:
        """One after the other.

        Args:
            parts: in order.
            kind: type of the ordering values; None where nothing is compared. A part without them has nulls.
        """
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


@dataclass(frozen=True, eq=False)
class Survivors:
    """One entry for each key. `places` are the numbers of the entries; the rest is theirs, as in `LogEntries`."""

    keys: pa.Array
    places: npt.NDArray[np.int64]
    ordering: pa.Array | None
    is_delete: Mask
    is_unconditional: Mask

    def __len__(self) -> int:
        return len(self.keys)


def fold(entries: LogEntries, mode: Ordering) -> Survivors:
    """The one entry of each key that is left when the log is read to its end.

    By event time the larger ordering value wins and of equal ones the later; a null loses to any value; an unconditional delete
    wins over all before it, loses to every row after it, and is not replaced by other deletes. By commit time the later wins.

    Source: docs/format.md §11.3.
    """
    ordering = entries.ordering if mode is Ordering.EVENT_TIME else None
    keys, winners = winners_by_key(entries.keys, ordering, mode, entries.of_delete_block, entries.is_unconditional)
    values = ordering.take(pa.array(winners)) if ordering is not None else None
    return Survivors(keys, winners, values, entries.is_delete[winners], entries.is_unconditional[winners])


class Meeting:
    """Survivors of the log against the base rows, which come in runs; what becomes of them is known after the last run.

    The hash table is made of the survivors; base rows are looked up in it, never sorted or grouped. Should the base hold a key
    more than once, the survivor must win against each of its rows and then replaces them all, as in `plan_merge`.

    Args:
        survivors: of the log side.
        mode: the table's merge mode.
    """

    def __init__(self, survivors: Survivors, mode: Ordering) -> None:
        self._survivors = survivors
        self._ordering = survivors.ordering if mode is Ordering.EVENT_TIME else None
        self._loses = np.zeros(len(survivors), bool)
        self._is_known = np.zeros(len(survivors), bool)
        self._runs: list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int32]]] = []

    def add(self, base_keys: pa.Array | pa.ChunkedArray, base_ordering: pa.Array | pa.ChunkedArray | None) -> None:
        """The next base rows.

        Args:
            base_keys: their record keys.
            base_ordering: their ordering values in the table's type; None where there are none.
        """
        rows, partners = matches(base_keys, self._survivors.keys)
        self._is_known[partners] = True
        if self._ordering is not None and base_ordering is not None and len(rows):
            late = is_late(base_ordering, self._ordering, rows, partners)
            late &= ~self._survivors.is_unconditional[partners]
            self._loses[partners[late]] = True
        self._runs.append((len(base_keys), rows, partners.astype(np.int32)))

    def keep_base(self) -> Mask | None:
        """Which of all base rows stay, in the order in which they were added; None: all of them."""
        keep = np.ones(sum(count for count, _, _ in self._runs), bool)
        first = 0
        for count, rows, partners in self._runs:
            keep[first + rows[~self._loses[partners]]] = False
            first += count
        return None if keep.all() else keep

    def taken(self) -> npt.NDArray[np.int64]:
        """Numbers of the entries whose rows are in the slice, ascending."""
        return np.sort(self._survivors.places[~self._survivors.is_delete & ~self._loses])

    @property
    def inserted(self) -> int:
        """Rows whose key the base does not have."""
        return int(np.count_nonzero(~self._survivors.is_delete & ~self._is_known))

    @property
    def updated(self) -> int:
        """Rows that replace a base row."""
        return int(np.count_nonzero(~self._survivors.is_delete & self._is_known & ~self._loses))

    @property
    def deleted(self) -> int:
        """Deletes that remove a base row."""
        return int(np.count_nonzero(self._survivors.is_delete & self._is_known & ~self._loses))

    @property
    def ignored(self) -> int:
        """Rows and deletes that lost to a base row with a larger ordering value."""
        return int(np.count_nonzero(self._loses))

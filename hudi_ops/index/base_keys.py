"""Apache Hudi's bloom and simple indexes (docs/format §10.2).

The base files of a key's partition locate it. Each file is read once. Both indexes are equivalent: they differ in how Apache
Hudi avoids reading keys. Here the footer's key range and bloom filter tell which keys a file may hold, and its key column
decides, for either index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask
from hudi_ops.index.locator import Found, GroupName
from hudi_ops.kernels.merging.merge import pairs
from hudi_ops.storage.protocol import Storage

Numbers: TypeAlias = npt.NDArray[np.int64]

_WORTH_ASKING: Final = 4
"""Divisor of a file's rows: a bloom filter is probed for fewer keys than that; with more, reading the keys costs less (measured).
"""


@dataclass(frozen=True, eq=False)
class KeyedGroup:
    """File group to search.

    `merged` is its whole slice, key columns only, where it has log files; `reads_logs`: these may hold keys that its base file
    lacks. Without `base` it has log files alone.
    """

    storage: Storage
    name: GroupName
    base: str | None
    merged: SliceTask | None = None
    reads_logs: bool = False


@dataclass(frozen=True)
class KeySearch:
    """Task that finds which of some keys a file group holds.

    It carries the keys, so that an engine sends them once. With `live` only keys that readers see count: log files may have deleted
    some.
    """

    keys: Mapping[str, pa.Array]
    live: bool = False

    def __call__(self, group: KeyedGroup) -> Numbers:
        """Return the numbers of the keys of the group's partition that it holds, ascending.

        Raises:
            NotFound: its base file is gone.
        """
        wanted = self.keys[group.name.partition_path]
        if group.merged is None or not (self.live or group.reads_logs or group.base is None):
            return _held_by_base(group, wanted)
        # The base file's keys are looked up by its range and filter, unless a log file may have deleted some.
        read = group.merged if self.live else replace(group.merged, base=None, base_bytes=0)
        held = pa.chunked_array(read.rules.keys_of(SliceScan(read).table()))
        seen = np.flatnonzero(_mask_of(len(wanted), pairs(held, wanted)[1]))
        return seen if self.live else np.union1d(_held_by_base(group, wanted), seen)


def _held_by_base(group: KeyedGroup, wanted: pa.Array) -> Numbers:
    if group.base is None:
        return np.empty(0, np.int64)
    reader = BaseFileReader(group.storage, group.base)
    footer = reader.footer
    rows = np.flatnonzero(footer.in_range(wanted)).astype(np.int64)
    if footer.bloom is not None and 0 < len(rows) < reader.rows // _WORTH_ASKING:
        rows = rows[footer.bloom.might_contain(_taken(wanted, rows))]
    if not len(rows) or not reader.rows:
        return np.empty(0, np.int64)
    met = pairs(reader.read((RECORD_KEY,)).column(RECORD_KEY), _taken(wanted, rows))[1]
    return rows[_mask_of(len(rows), met)]


def _taken(keys: pa.Array, rows: Numbers) -> pa.Array:
    return keys if len(rows) == len(keys) else keys.take(pa.array(rows))


@dataclass(frozen=True)
class BaseFileLocator:
    """Locator that searches base files of `groups` with the engine's tasks, a file each.

    `groups` are all that hold keys of the requested partitions, in one state of the table.
    """

    engine: Engine
    groups: Sequence[KeyedGroup]

    @property
    def is_global(self) -> bool:
        """False: the same key in another partition is another row."""
        return False

    def locate(self, keys: Mapping[str, pa.Array]) -> list[Found]:
        """Return the file groups that hold some of the keys.

        Raises:
            NotFound: a base file of that state is gone.
        """
        asked = {path: column for path, column in keys.items() if len(column)}
        groups = [group for group in self.groups if group.name.partition_path in asked]
        held = dict(zip(groups, self.engine.map(KeySearch(asked), groups), strict=True))
        for path, column in asked.items():
            self._settle(
                path, column, {group: held[group] for group in groups if group.name.partition_path == path}, held
            )
        return [Found(group.name, group.name.partition_path, rows) for group, rows in held.items() if len(rows)]

    def _settle(
        self, path: str, keys: pa.Array, found: Mapping[KeyedGroup, Numbers], held: dict[KeyedGroup, Numbers]
    ) -> None:
        """Remove a key that several groups hold from those whose log files deleted it.

        A bulk insert, which looks up no keys, may have added the key again. If all groups deleted it, the first one stays.
        """
        counts = np.zeros(len(keys), np.int64)
        for rows in found.values():
            counts[rows] += 1
        is_met = counts > 1
        logged = [group for group, rows in found.items() if group.merged is not None and is_met[rows].any()]
        if not logged:
            return
        doubted = np.flatnonzero(is_met)
        seen = self.engine.map(KeySearch({path: keys.take(pa.array(doubted))}, live=True), logged)
        live = {group: _mask_of(len(keys), doubted[rows]) for group, rows in zip(logged, seen, strict=True)}
        is_dead = {group: is_met & ~live[group] for group in logged}
        alive = np.zeros(len(keys), np.int64)
        for group, rows in found.items():
            kept = rows if group not in is_dead else rows[~is_dead[group][rows]]
            alive[kept] += 1
        first = np.zeros(len(keys), bool)
        for group, rows in found.items():
            if group not in is_dead:
                continue
            is_last_home = is_dead[group][rows] & (alive[rows] == 0) & ~first[rows]
            first[rows[is_last_home]] = True
            held[group] = rows[~is_dead[group][rows] | is_last_home]


def _mask_of(length: int, rows: Numbers) -> npt.NDArray[np.bool_]:
    mask = np.zeros(length, bool)
    mask[rows] = True
    return mask

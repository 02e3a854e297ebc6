"""Shards of a batch, which are looked up and routed separately.

A shard is a hash of the whole key within a partition, so that rows of one key are in one shard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.kernels.merging.merge import Ordering, key_codes, winners_of
from hudi_ops.services.write.routing.tasks import LEFT_OUT, RouteTask, ShardKeys

Shard: TypeAlias = tuple[str, int]
"""Partition path and number of the shard."""


@dataclass(eq=False)
class KeyShard:
    """Result of a shard's lookup: rows and the number of their group, or `LEFT_OUT`."""

    rows: int
    digest: int | None = None
    found: list[tuple[npt.NDArray[np.int32], int]] = field(default_factory=list)

    @property
    def fresh_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows whose key was not found, and that are not left out."""
        is_fresh = np.ones(self.rows, bool)
        for rows, _ in self.found:
            is_fresh[rows] = False
        return np.flatnonzero(is_fresh)

    def route(self, names: Sequence[str], fresh: Sequence[tuple[str, int]]) -> RouteTask:
        """Return the task that splits the shard's rows by file group.

        Args:
            names: keys of chunks, by number of group.
            fresh: key of the chunks and number of rows of each group that takes new keys; empty: they are left out.
        """
        groups = sorted({number for _, number in self.found} - {LEFT_OUT})
        places = {number: place for place, number in enumerate(groups)} | {LEFT_OUT: LEFT_OUT}
        rows = np.concatenate([rows for rows, _ in self.found] or [np.empty(0, np.int32)])
        spread = np.concatenate(
            [np.full(len(rows), places[number], np.int32) for rows, number in self.found] or [np.empty(0, np.int32)]
        )
        order = np.argsort(rows, kind="stable")
        used = tuple(names[number] for number in groups)
        return RouteTask(self.digest, rows[order], spread[order], used, tuple(fresh))


def rounds_of(shards: Mapping[Shard, int], rows_max: int, *, whole: bool) -> Iterator[list[Shard]]:
    """Yield shards whose keys are looked up together: at most `rows_max` rows, or one shard.

    `shards` holds the number of rows of each. With `whole`, shards of one number in all partitions belong together.
    """
    units: dict[object, list[Shard]] = defaultdict(list)
    for shard in shards:
        units[shard[1] if whole else shard].append(shard)
    chosen: list[Shard] = []
    rows = 0
    for unit in units.values():
        count = sum(shards[shard] for shard in unit)
        if chosen and rows + count > rows_max:
            yield chosen
            chosen, rows = [], 0
        chosen += unit
        rows += count
    if chosen:
        yield chosen


def leave_out_elsewhere(
    answers: Mapping[Shard, ShardKeys], shards: Mapping[Shard, KeyShard], mode: Ordering
) -> str | None:
    """Leave out new rows of a key in all partitions but that of its newest row.

    With a global index, a key has one row. If rows of two partitions are equally new, the one with the later path counts as newer.

    Args:
        answers: keys and ordering values of shards; all partitions of each number.
        shards: results of their lookups; the rows that are left out are added.

    Returns:
        A key whose rows are left out; None when there is none.
    """
    first = None
    for number in sorted({shard for _, shard in answers}):
        members = [shard for shard in answers if shard[1] == number]
        fresh = [shards[shard].fresh_rows for shard in members]
        keys = pa.concat_arrays([
            answers[shard].keys.take(pa.array(rows)) for shard, rows in zip(members, fresh, strict=True)
        ])
        of_member = np.repeat(np.arange(len(members)), [len(rows) for rows in fresh])
        held = [(answers[shard].ordering, rows) for shard, rows in zip(members, fresh, strict=True)]
        values = [column.take(pa.array(rows)) for column, rows in held if column is not None]
        ordering = pa.concat_arrays(values) if len(values) == len(members) else None
        codes, distinct = key_codes(keys)
        loses = of_member != of_member[winners_of(codes, distinct, ordering, mode)][codes]
        if not loses.any():
            continue
        first = first or str(keys[int(np.flatnonzero(loses)[0])])
        for at, (shard, rows) in enumerate(zip(members, fresh, strict=True)):
            lost = rows[loses[of_member == at]]
            if len(lost):
                shards[shard].found.append((lost.astype(np.int32), LEFT_OUT))
    return first

"""Lanes: the parts of a batch that are looked up and routed by themselves, and what was found of each.

A lane is a hash of the whole key within a partition, so that rows of one key are in one lane.
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
from hudi_ops.services.write.routing.tasks import LEFT_OUT, LaneKeys, RouteTask

Lane: TypeAlias = tuple[str, int]
"""Partition path, and number of the lane."""


@dataclass(eq=False)
class LaneState:
    """What was found of a lane: rows and the number of their group, or `LEFT_OUT`."""

    rows: int
    digest: int | None = None
    found: list[tuple[npt.NDArray[np.int32], int]] = field(default_factory=list)

    @property
    def fresh_rows(self) -> npt.NDArray[np.int64]:
        """Rows whose key is nowhere, and that are not left out."""
        is_fresh = np.ones(self.rows, bool)
        for rows, _ in self.found:
            is_fresh[rows] = False
        return np.flatnonzero(is_fresh)

    def route(self, names: Sequence[str], fresh: Sequence[tuple[str, int]]) -> RouteTask:
        """The task that splits the lane's rows by file group.

        Args:
            names: by number of group, the key of its chunks.
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


def rounds_of(lanes: Mapping[Lane, int], rows_max: int, *, whole: bool) -> Iterator[list[Lane]]:
    """Lanes whose keys are looked up together, at least one at a time.

    Args:
        lanes: with their rows.
        rows_max: of a round, unless one alone has more.
        whole: a lane's rows of all partitions belong together; else those of one partition lie side by side.
    """
    units: dict[object, list[Lane]] = defaultdict(list)
    for lane in lanes:
        units[lane[1] if whole else lane].append(lane)
    chosen: list[Lane] = []
    rows = 0
    for unit in units.values():
        count = sum(lanes[lane] for lane in unit)
        if chosen and rows + count > rows_max:
            yield chosen
            chosen, rows = [], 0
        chosen += unit
        rows += count
    if chosen:
        yield chosen


def leave_out_elsewhere(
    answers: Mapping[Lane, LaneKeys], lanes: Mapping[Lane, LaneState], mode: Ordering
) -> str | None:
    """With a global index a key is one row: of new rows of one key in several partitions, those of the newest's partition stay.

    Args:
        answers: keys and ordering values of lanes; of each lane that there is in several partitions, all.
        lanes: what was found of them; gets what is left out.
        mode: the table's merge mode. Of equal rows in two partitions the one of the later path is the newer.

    Returns:
        A key of which rows are left out; None when there is none.
    """
    first = None
    for number in sorted({lane for _, lane in answers}):
        members = [lane for lane in answers if lane[1] == number]
        fresh = [lanes[lane].fresh_rows for lane in members]
        keys = pa.concat_arrays([
            answers[lane].keys.take(pa.array(rows)) for lane, rows in zip(members, fresh, strict=True)
        ])
        of_member = np.repeat(np.arange(len(members)), [len(rows) for rows in fresh])
        held = [(answers[lane].ordering, rows) for lane, rows in zip(members, fresh, strict=True)]
        values = [column.take(pa.array(rows)) for column, rows in held if column is not None]
        ordering = pa.concat_arrays(values) if len(values) == len(members) else None
        codes, distinct = key_codes(keys)
        loses = of_member != of_member[winners_of(codes, distinct, ordering, mode)][codes]
        if not loses.any():
            continue
        first = first or str(keys[int(np.flatnonzero(loses)[0])])
        for at, (lane, rows) in enumerate(zip(members, fresh, strict=True)):
            lost = rows[loses[of_member == at]]
            if len(lost):
                lanes[lane].found.append((lost.astype(np.int32), LEFT_OUT))
    return first

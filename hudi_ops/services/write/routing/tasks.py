"""Tasks between the first and the second step of an ingest whose index has to be asked: the keys of a lane, and where its rows go.

They run on executors, as the others do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.engine.protocol import Chunk, Produced
from hudi_ops.errors import Conflict
from hudi_ops.index.packing import dealt_to
from hudi_ops.kernels.merging.split import split_groups

LEFT_OUT = -1
"""Place of a row that goes nowhere."""


@dataclass(frozen=True, eq=False)
class LaneKeys:
    """Record keys of a lane, in the order of its rows, and a checksum by which they are known again.

    `ordering` are the ordering values of the rows, where the index is global and the table has such.
    """

    keys: pa.Array
    digest: int
    ordering: pa.Array | None = None


@dataclass(frozen=True, eq=False)
class RouteTask:
    """Where the rows of a lane go.

    Attributes:
        digest: of the keys that were looked up; None where none were.
        rows: numbers of rows whose key is somewhere; one whose key lies in several groups is there as often.
        places: for each of them, the place in `names`, or `LEFT_OUT`.
        names: keys of the chunks of those groups.
        fresh: for the rows whose key is nowhere: key of the chunks and number of rows of each group that takes some. Empty: such
            rows are left out.
    """

    digest: int | None
    rows: npt.NDArray[np.int32]
    places: npt.NDArray[np.int32]
    names: tuple[str, ...]
    fresh: tuple[tuple[str, int], ...]


def keys_of_lane(_: None, tables: list[pa.Table]) -> LaneKeys:
    """Task: the record keys of a lane."""
    keys = _keys(tables)
    others = [name for name in tables[0].column_names if name != RECORD_KEY]
    ordering = pa.concat_tables(tables).column(others[0]).combine_chunks() if others else None
    return LaneKeys(keys, _digest(keys), ordering)


def route_lane(task: RouteTask, tables: list[pa.Table]) -> Iterator[Produced]:
    """Task: rows of a lane, split by the file group that they go to; the summary names the keys of the chunks.

    Raises:
        Conflict: these are not the rows whose keys were looked up.
    """
    if task.digest is not None and _digest(_keys(tables)) != task.digest:
        raise Conflict(
            "incoming rows were lost with an executor, and came out otherwise when they were read again",
            expected="the rows whose keys were looked up",
            found="others, or another order",
            next_step="run it again; a DataFrame that gives other rows each time is better stored first",
        )
    first = 0
    while tables:
        table = tables.pop(0)
        yield _routed(task, table, first)
        first += table.num_rows


def _routed(task: RouteTask, table: pa.Table, first: int) -> Produced:
    low, high = np.searchsorted(task.rows, [first, first + table.num_rows])
    rows, places = task.rows[low:high] - first, task.places[low:high]
    names = list(dict.fromkeys([*task.names, *(name for name, _ in task.fresh)]))
    if task.fresh:
        is_new = np.ones(table.num_rows, bool)
        is_new[rows] = False
        new = np.flatnonzero(is_new)
        if len(new) == table.num_rows and len(task.fresh) == 1:
            return Produced((task.fresh[0][0],), (Chunk(task.fresh[0][0], table),))
        keys = table.column(RECORD_KEY).combine_chunks().take(pa.array(new))
        takers = np.array([names.index(name) for name, _ in task.fresh])
        dealt = takers[dealt_to(keys, [count for _, count in task.fresh])]
        rows, places = np.concatenate([rows, new]), np.concatenate([places, dealt])
        order = np.argsort(rows, kind="stable")
        rows, places = rows[order], places[order]
    if (places == LEFT_OUT).any():
        rows, places = rows[places != LEFT_OUT], places[places != LEFT_OUT]
    if not len(rows):
        return Produced((), ())
    groups = split_groups(np.zeros(len(rows), np.int64), places)
    if len(groups) == 1 and len(rows) == table.num_rows:
        return Produced((names[groups[0].bucket],), (Chunk(names[groups[0].bucket], table),))
    ordered = table.combine_chunks().take(pa.array(np.concatenate([rows[group.rows] for group in groups])))
    chunks, at = [], 0
    for group in groups:
        chunks.append(Chunk(names[group.bucket], ordered.slice(at, len(group.rows))))
        at += len(group.rows)
    return Produced(tuple(chunk.key for chunk in chunks), tuple(chunks))


def _keys(tables: list[pa.Table]) -> pa.Array:
    chunks = [chunk for table in tables for chunk in table.column(RECORD_KEY).chunks]
    return pa.concat_arrays(chunks or [pa.array([], pa.string())])


def _digest(keys: pa.Array) -> int:
    # Of values and lengths, not of buffers: equal keys may lie in slices of larger ones.
    if not len(keys):
        return 0
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    text = memoryview(data)[ends[0] : ends[-1]] if data is not None else b""
    return zlib.crc32(text, zlib.crc32(np.diff(ends).tobytes()))

"""Tasks between the first and the second step of an ingest with a lookup: route a shard.

They run on executors.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.engine.protocol import Chunk, Produced
from hudi_ops.errors import Conflict
from hudi_ops.kernels.merging.split import split_groups, split_rows
from hudi_ops.services.write.routing.packing import dealt_to

LEFT_OUT = -1
"""Place of a row that is not written."""


@dataclass(frozen=True, eq=False)
class ShardKeys:
    """Record keys of a shard, in the order of its rows, with a checksum of them.

    `ordering` holds the ordering values of the rows, if the index is global and the table has them.
    """

    keys: pa.Array
    digest: int
    ordering: pa.Array | None = None


@dataclass(frozen=True, eq=False)
class RouteTask:
    """Targets of the rows of a shard.

    Attributes:
        digest: checksum of the keys that were looked up; None without a lookup.
        rows: numbers of rows whose key was found, once for each group that has it.
        places: index into `names` for each of them, or `LEFT_OUT`.
        names: keys of the chunks of those groups.
        fresh: key of the chunks and number of rows of each group that takes rows whose key was not found. Empty: such rows are left
            out.
    """

    digest: int | None
    rows: npt.NDArray[np.int32]
    places: npt.NDArray[np.int32]
    names: tuple[str, ...]
    fresh: tuple[tuple[str, int], ...]


def keys_of_shard(_: None, tables: list[pa.Table]) -> ShardKeys:
    """Return the record keys of a shard."""
    keys = _keys(tables)
    others = [name for name in tables[0].column_names if name != RECORD_KEY]
    ordering = pa.concat_tables(tables).column(others[0]).combine_chunks() if others else None
    return ShardKeys(keys, _digest(keys), ordering)


def route_shard(task: RouteTask, tables: list[pa.Table]) -> Iterator[Produced]:
    """Split the rows of a shard by file group; summaries hold the keys of the chunks.

    Raises:
        Conflict: these are not the rows whose keys were looked up.
    """
    if task.digest is not None and _digest(_keys(tables)) != task.digest:
        raise Conflict(
            "incoming rows were lost with an executor, and were different when they were read again",
            expected="the rows whose keys were looked up",
            found="other rows, or another order",
            next_step="run it again; store a DataFrame first if it gives other rows each time",
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
    parts, size_bytes = split_rows(table, [replace(group, rows=rows[group.rows]) for group in groups])
    chunks = [Chunk(names[group.bucket], part) for group, part in zip(groups, parts, strict=True)]
    return Produced(tuple(chunk.key for chunk in chunks), tuple(chunks), size_bytes)


def _keys(tables: list[pa.Table]) -> pa.Array:
    chunks = [chunk for table in tables for chunk in table.column(RECORD_KEY).chunks]
    return pa.concat_arrays(chunks or [pa.array([], pa.string())])


def _digest(keys: pa.Array) -> int:
    # Of values and lengths, not of buffers: equal keys may be slices of different buffers.
    if not len(keys):
        return 0
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    text = memoryview(data)[ends[0] : ends[-1]] if data is not None else b""
    return zlib.crc32(text, zlib.crc32(np.diff(ends).tobytes()))

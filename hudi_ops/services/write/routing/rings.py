"""Route rows by the hash rings of their partitions (docs/protocol §27).

The first step has split the rows of each partition by ranges of hashes: by the nodes of its ring if that was known, else by lanes,
the nodes of the initial ring. If a range is a node of the ring that counts, its chunks are those of the node. Other ranges are
split again by node, from the same chunks: no source is read twice when a ring changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.engine.protocol import Chunk, Produced, Scattered
from hudi_ops.errors import Conflict, Internal
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import Ranges, RingEngine, RingLookup, ring_engine_of
from hudi_ops.index.misleading_rings import (
    refuse_lost_ring,
    refuse_misleading_rings,
    refuse_older_rings,
    refuse_record_index,
)
from hudi_ops.index.ring import Ring, initial_ring
from hudi_ops.index.ring_files import RingReader, put_initial
from hudi_ops.kernels.merging.split import split_groups, split_rows
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.services.write.routing.known_rings import KnownRings
from hudi_ops.services.write.routing.routes import Routes, Target
from hudi_ops.services.write.tasks.tag import SourceSummary, chunk_key
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

Node = tuple[str, int]
"""Partition path, and number of a node in its ring."""

Range = tuple[str, int]
"""Partition path, and number of a range that split its rows."""


@dataclass(frozen=True, eq=False)
class RangeTask:
    """Range of a partition whose rows are split by node.

    `names` are the chunk keys of the nodes that it reaches.
    """

    engine: RingEngine
    lookup: RingLookup
    names: Mapping[int, str]


def split_range(task: RangeTask, tables: list[pa.Table]) -> Iterator[Produced]:
    """Split the rows of a range by node, on executors; summaries hold the chunk keys."""
    while tables:
        rows = tables.pop(0)
        nodes = task.lookup.nodes_of(task.engine.hashes(joined(rows.column(RECORD_KEY).chunks, pa.string())))
        groups = split_groups(np.zeros(len(nodes), np.int64), nodes.astype(np.int32))
        parts, size_bytes = split_rows(rows, groups)
        chunks = [Chunk(task.names[group.bucket], part) for group, part in zip(groups, parts, strict=True)]
        yield Produced(tuple(chunk.key for chunk in chunks), tuple(chunks), size_bytes)


@dataclass
class RingRouter:
    """Router of a table with hash rings.

    `scattered` and `summaries` are the result of the first step, by range; `state` is the table before the write begins, and
    `known` has rings that were read in it.
    """

    session: Session
    operation: WriteOperation
    scattered: Scattered
    summaries: Sequence[SourceSummary]
    state: TableState
    known: KnownRings | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._engine = ring_engine_of(self.state.log.properties.facts)
        found: dict[str, set[int]] = defaultdict(set)
        ranges: dict[str, Ranges] = {}
        initial = self._engine.initial()
        for summary in self.summaries:
            for path, number, _ in summary.groups:
                found[path].add(number)
            for path in {path for path, _, _ in summary.groups}:
                own = summary.ranges.get(path, initial)
                if not np.array_equal(ranges.setdefault(path, own).values, own.values):
                    raise Internal(f"rows of partition {path or '.'} were split by two versions of its hash ring")
        self._numbers = {path: sorted(numbers) for path, numbers in sorted(found.items())}
        self._ranges = ranges
        self._again: _SplitAgain | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def intent(self, source: str | None) -> Footprint:
        """Return the groups of every node that the rows may reach; create no ring."""
        known = self.known.rings if self.known is not None else {}
        read = self._rings(self.state, [path for path in self._numbers if path not in known])
        named = set()
        for path in self._numbers:
            ring = known.get(path) or read[path] or initial_ring(path, self._engine.count)
            reached = {node for nodes in self._reached(ring) for node in nodes}
            named |= {(path, ring.prefixes[node][:BUCKET_DIGITS]) for node in reached}
        return self.operation.intent(sorted(named), source=source)

    def routes(self, state: TableState) -> Routes:
        """Return the slice of each node that takes rows; create missing first rings.

        Raises:
            Conflict: a ring changed since the state was read.
            Corrupt: a ring or a file group that does not belong to it.
            Unsupported: the table has a record index.
        """
        refuse_record_index(state)
        storage, count = self.session.ctx.storage, self._engine.count
        read = self._rings(state, [*self._numbers])
        live: dict[tuple[str, str], Slice] = {}
        if self.operation.replaces is Replaces.NOTHING:
            live = live_nodes(self.session, state, read)
        rings = {path: ring or put_initial(storage, path, count) for path, ring in read.items()}
        names, again = self._by_node(rings)
        targets = []
        for (path, node), name in sorted(names.items()):
            ring = rings[path]
            found = live.get((path, ring.file_id(node)))
            is_renewed = self.operation.replaces is not Replaces.NOTHING
            targets.append(Target(name, path, node, found, is_bucket=False, ring=ring, is_renewed=is_renewed))
        return Routes(
            self.scattered,
            tuple(targets),
            rings={path: ring.instant for path, ring in rings.items()},
            again=again.scattered if again is not None else None,
            split_again=again.filled if again is not None else frozenset(),
        )

    def _rings(self, state: TableState, paths: Sequence[str]) -> dict[str, Ring | None]:
        ctx = self.session.ctx
        return RingReader.of(ctx.storage, state, self.session.commits).read_all(paths, ctx.local_engine)

    def _reached(self, ring: Ring) -> list[list[int]]:
        """Return the nodes of a ring that hold the hashes of each range with rows."""
        numbers, ranges = self._numbers[ring.partition_path], self._ranges[ring.partition_path]
        if np.array_equal(ranges.values, ring.values):
            return [[number] for number in numbers]
        return self._engine.lookup(ring).nodes_in(numbers, ranges)

    def _by_node(self, rings: Mapping[str, Ring]) -> tuple[dict[Node, str], _SplitAgain | None]:
        """Return the chunk key of each node with rows, and the chunks that were split again."""
        names: dict[Node, str] = {}
        affected: dict[Range, list[int]] = {}
        for path, ring in rings.items():
            reached = dict(zip(self._numbers[path], self._reached(ring), strict=True))
            met = Counter(node for nodes in reached.values() for node in nodes)
            for number, nodes in reached.items():
                if len(nodes) == 1 and met[nodes[0]] == 1:
                    names[path, nodes[0]] = chunk_key(path, number)
                else:
                    affected[path, number] = nodes
        if not affected:
            return names, None
        again = self._split_again({path: rings[path] for path, _ in affected}, affected)
        fresh = {(path, node): _again_key(path, node) for (path, _), nodes in affected.items() for node in nodes}
        return names | {node: name for node, name in fresh.items() if name in again.filled}, again

    def _split_again(self, rings: Mapping[str, Ring], affected: Mapping[Range, list[int]]) -> _SplitAgain:
        values = {path: ring.values.tobytes() for path, ring in rings.items()}
        if self._again is not None and self._again.values == values:
            return self._again
        self._held.close()
        lookups = {path: self._engine.lookup(ring) for path, ring in rings.items()}
        tasks = []
        for (path, number), nodes in affected.items():
            names = {node: _again_key(path, node) for node in nodes}
            tasks.append((chunk_key(path, number), RangeTask(self._engine, lookups[path], names)))
        scattered = self._held.enter_context(self.scattered.regroup(split_range, tasks))
        filled = frozenset(key for keys in scattered.summaries for key in keys)
        self._again = _SplitAgain(values, scattered, filled)
        return self._again


@dataclass(frozen=True)
class _SplitAgain:
    """Chunks of ranges that are no nodes, split by the nodes of their rings.

    `values` are the node values of the rings by partition path, `filled` are the chunk keys with rows.
    """

    values: Mapping[str, bytes]
    scattered: Scattered
    filled: frozenset[str]


def _again_key(path: str, node: int) -> str:
    return f"node {chunk_key(path, node)}"


def live_nodes(session: Session, state: TableState, rings: Mapping[str, Ring | None]) -> dict[tuple[str, str], Slice]:
    """Return the visible slice of each (partition path, file id) in the partitions of rings.

    Raises:
        Corrupt: a file group belongs to no node, so that no write would find its rows; or a ring was lost.
    """
    live = {slice_.key: slice_ for slice_ in live_slices(session, state, sorted(rings))}
    known = {path: ring for path, ring in rings.items() if ring is not None}
    filled = {path for path, _ in live}
    for path in sorted(filled - known.keys()):
        refuse_lost_ring(state.config.name, path)
    bare = {path: ring.instant if ring is not None else "" for path, ring in rings.items() if path not in filled}
    refuse_older_rings(session.commits, state, bare)
    refuse_misleading_rings(session.ctx.storage, session.commits, state, live, known)
    return live


def unchanged_rings(session: Session, attempt: Attempt, rings: Mapping[str, str]) -> Callable[[TableState], None]:
    """Return a check that no ring of a write changed since its attempt began.

    A resize names the groups that it replaces, but a group that the write begins is in no plan. Its node may be gone.
    """

    def check(state: TableState) -> None:
        since = state.timeline.completed_beyond(attempt.begun.timeline.completions, attempt.instant) if rings else []
        for instant in since:
            metadata = session.commits.metadata(state.timeline, instant) if instant.kind == "replacecommit" else None
            changed = sorted(rings.keys() & (metadata.replaced or {}).keys()) if metadata is not None else []
            if changed:
                raise Conflict(
                    f"{instant.action} {instant.time} replaced file groups of partition {changed[0] or '.'} since this write began",
                    table=state.config.name,
                    instant=attempt.instant,
                    expected=f"the hash ring of {rings[changed[0]]}",
                    found=f"a ring that {instant.time} may have changed",
                    next_step="run the same call again: it routes the rows by the new ring",
                )

    return check

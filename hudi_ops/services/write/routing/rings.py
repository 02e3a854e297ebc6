"""Route rows by the hash rings of their partitions (docs/protocol.md §27).

The first step split the rows by lane, the nodes of the initial ring. Where each lane is a node of its own, its chunks are those of
the node. Otherwise they are split again by node, from the same chunks: no source is read twice when a ring changed.
"""

from __future__ import annotations

from collections import defaultdict
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
from hudi_ops.errors import Conflict
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import RingEngine, RingLookup, ring_engine_of
from hudi_ops.index.ring import Ring, initial_ring
from hudi_ops.index.ring_files import RingReader, put_initial
from hudi_ops.kernels.merging.split import split_groups
from hudi_ops.services.base.planned.rings import refuse_record_index, refuse_stray_groups
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.services.write.routing.routes import Routes, Target
from hudi_ops.services.write.tasks.tag import SourceSummary, chunk_key
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

Node = tuple[str, int]
"""Partition path, and number of a node in its ring."""


@dataclass(frozen=True, eq=False)
class LaneTask:
    """Lane of a partition whose rows are split by node.

    `names` are the chunk keys of the nodes that it reaches.
    """

    engine: RingEngine
    lookup: RingLookup
    names: Mapping[int, str]


def split_lane(task: LaneTask, tables: list[pa.Table]) -> Iterator[Produced]:
    """Split the rows of a lane by node, on executors; summaries hold the chunk keys."""
    while tables:
        rows = tables.pop(0)
        nodes = task.lookup.nodes_of(task.engine.hashes(joined(rows.column(RECORD_KEY).chunks, pa.string())))
        groups = split_groups(np.zeros(len(nodes), np.int64), nodes.astype(np.int32))
        if len(groups) == 1:
            chunks = [Chunk(task.names[groups[0].bucket], rows)]
        else:
            ordered = rows.combine_chunks().take(pa.array(np.concatenate([group.rows for group in groups])))
            ends = np.cumsum([len(group.rows) for group in groups]).tolist()
            chunks = [
                Chunk(task.names[group.bucket], ordered.slice(end - len(group.rows), len(group.rows)))
                for group, end in zip(groups, ends, strict=True)
            ]
        yield Produced(tuple(chunk.key for chunk in chunks), tuple(chunks))


@dataclass
class RingRouter:
    """Router of a table with hash rings.

    `scattered` and `summaries` are the result of the first step, by lane; `state` is the table before the write begins.
    """

    session: Session
    operation: WriteOperation
    scattered: Scattered
    summaries: Sequence[SourceSummary]
    state: TableState
    _held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._engine = ring_engine_of(self.state.log.properties.facts)
        lanes: dict[str, set[int]] = defaultdict(set)
        for summary in self.summaries:
            for path, lane, _ in summary.groups:
                lanes[path].add(lane)
        self._lanes = {path: sorted(found) for path, found in sorted(lanes.items())}
        self._split: tuple[dict[str, bytes], Scattered, list[Node]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def intent(self, source: str | None) -> Footprint:
        """Return the groups of every node that the rows may reach; create no ring."""
        rings = self._rings(self.state)
        count = self._engine.count
        named = {
            (path, lookup.ring.prefixes[node][:BUCKET_DIGITS])
            for path, lanes in self._lanes.items()
            for lookup in [self._engine.lookup(rings[path] or initial_ring(path, count))]
            for nodes in lookup.nodes_in(lanes, count)
            for node in nodes
        }
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
        rings = {path: ring or put_initial(storage, path, count) for path, ring in self._rings(state).items()}
        live: dict[tuple[str, str], Slice] = {}
        if self.operation.replaces is Replaces.NOTHING:
            live = live_nodes(self.session, state, rings)
        scattered, nodes, names = self._by_node(rings)
        targets = []
        for path, node in nodes:
            ring = rings[path]
            found = live.get((path, ring.file_id(node)))
            name, is_renewed = names[path, node], self.operation.replaces is not Replaces.NOTHING
            targets.append(Target(name, path, node, found, is_bucket=False, ring=ring, is_renewed=is_renewed))
        return Routes(scattered, tuple(targets), rings={path: ring.instant for path, ring in rings.items()})

    def _rings(self, state: TableState) -> dict[str, Ring | None]:
        ctx = self.session.ctx
        return RingReader.of(ctx.storage, state, self.session.commits).read_all(self._lanes, ctx.local_engine)

    def _by_node(self, rings: dict[str, Ring]) -> tuple[Scattered, list[Node], dict[Node, str]]:
        """Return the chunks by node, the nodes that have some, and the keys of their chunks."""
        count = self._engine.count
        lookups = {path: self._engine.lookup(ring) for path, ring in rings.items()}
        reached = {
            (path, lane): nodes
            for path, lanes in self._lanes.items()
            for lane, nodes in zip(lanes, lookups[path].nodes_in(lanes, count), strict=True)
        }
        lanes_of: dict[Node, list[int]] = defaultdict(list)
        for (path, lane), nodes in reached.items():
            for node in nodes:
                lanes_of[path, node].append(lane)
        if all(len(nodes) == 1 for nodes in reached.values()) and all(len(lanes) == 1 for lanes in lanes_of.values()):
            return (
                self.scattered,
                sorted(lanes_of),
                {(path, at): chunk_key(path, lanes[0]) for (path, at), lanes in lanes_of.items()},
            )
        names = {(path, node): f"node {chunk_key(path, node)}" for path, node in lanes_of}
        versions = {path: ring.to_bytes() for path, ring in rings.items()}
        if self._split is None or self._split[0] != versions:
            self._held.close()
            tasks = [
                (
                    chunk_key(path, lane),
                    LaneTask(
                        self._engine,
                        lookups[path],
                        {node: names[path, node] for node in nodes},
                    ),
                )
                for (path, lane), nodes in reached.items()
            ]
            regrouped = self._held.enter_context(self.scattered.regroup(split_lane, tasks))
            filled = {key for keys in regrouped.summaries for key in keys}
            self._split = versions, regrouped, sorted(node for node, name in names.items() if name in filled)
        return self._split[1], self._split[2], names


def live_nodes(session: Session, state: TableState, rings: dict[str, Ring]) -> dict[tuple[str, str], Slice]:
    """Return the visible slice of each (partition path, file id) in the partitions of rings.

    Raises:
        Corrupt: a file group belongs to no node, so that no write would find its rows.
    """
    live = {slice_.key: slice_ for slice_ in live_slices(session, state, sorted(rings))}
    refuse_stray_groups(state.config.name, live, rings)
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

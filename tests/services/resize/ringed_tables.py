"""Tables with hash rings whose buckets have chosen numbers of rows, and what a planner makes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa

from hudi_ops.config.requests import ResizeRequest
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.resizes import RingChange, changes_of
from hudi_ops.index.ring import Ring, initial_ring
from hudi_ops.index.ring_files import RingReader
from hudi_ops.services.resize.choose import ResizeChoice, choose, refuse_table
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from tests.protocol.log_actors import timeline_of
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, made, rows, table_of

CONSISTENT = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=4, buckets_min=1, buckets_max=16)
EXTENDIBLE = replace(CONSISTENT, bucket_engine="extendible")
BY_COMMIT_TIME = replace(CONSISTENT, ordering=None)

LARGE, SMALL = 3_000, 4
"""Rows of a bucket that is split, and of one that is merged, with `SIZES`."""
SIZES: dict[str, Any] = {"split_bytes": 100_000, "merge_bytes": 25_000}


def keys_in(ring: Ring, node: int, count: int, skip: int = 0) -> list[str]:
    """Keys that lie in a node; long ones, which do not compress."""
    return [key for key, _ in zip(_keys_in(ring, node), range(skip + count), strict=False)][skip:]


def _keys_in(ring: Ring, node: int) -> Iterator[str]:
    number = 0
    while True:
        keys = [hashlib.sha256(str(number + n).encode()).hexdigest() for n in range(4_096)]
        number += len(keys)
        yield from (key for key, at in zip(keys, ring.nodes_of(hashes_of(keys)).tolist(), strict=True) if at == node)


def hashes_of(keys: Sequence[str]) -> Any:
    """The hashes of keys in the tables of this module."""
    return _engine().hashes(pa.array(keys, pa.string()))


@cache
def _engine() -> Any:
    table = table_of(made(CONSISTENT), ManualClock(NOW_MS), "reader")
    return ring_engine_of(table._session.loader.load().log.properties.facts)


def batch(counts: Sequence[int], part: str = "p0", value: int = 1) -> pa.Table:
    """Rows of a partition; the counts are those of each node of its first ring."""
    ring = initial_ring(f"part={part}", len(counts))
    keys = [key for node, count in enumerate(counts) for key in keys_in(ring, node, count)]
    return rows(*((key, part, value, value, None) for key in keys))


@cache
def _filled(definition: Any, parts: tuple[tuple[int, ...], ...]) -> MemoryStorage:
    batches = [batch(counts, f"p{number}") for number, counts in enumerate(parts)]
    return made(definition, pa.concat_tables(batches))


def filled(definition: Any, *parts: tuple[int, ...]) -> MemoryStorage:
    """A table of partitions p0, p1 …; the counts are the rows of each bucket."""
    return _filled(definition, parts).copy()


def opened(storage: Any, actor: str = "planner", clock: ManualClock | None = None) -> Table:
    """The table in a process that neither cleans nor archives."""
    return table_of(storage, clock or ManualClock(NOW_MS, tick_ms=1), actor, upkeep=BY_HAND)


def chosen(table: Table, **values: Any) -> ResizeChoice:
    """What a request chooses from the table as it is; by default with `SIZES`."""
    session = table._session
    state = session.loader.load()
    refuse_table(state)
    return choose(session, state, ResizeRequest(**{**SIZES, "split_point": None, **values}))


def ring_of(table: Table, partition: str = "part=p0") -> Ring:
    """The ring of a partition that counts now."""
    session = table._session
    found = RingReader.of(session.ctx.storage, session.loader.load(), session.commits).read(partition)
    assert found is not None
    return found


def plan_of(storage: Any) -> ReplacePlan:
    """The only pending plan."""
    timeline = timeline_of(storage)
    (pending,) = timeline.pending
    plan = read_plan(storage, timeline, pending)
    assert isinstance(plan, ReplacePlan)
    return plan


def changes(plan: ReplacePlan) -> tuple[RingChange, ...]:
    """How a plan changes its rings."""
    return changes_of(plan, "t", "0")

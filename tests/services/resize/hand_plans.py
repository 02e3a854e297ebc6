"""Plans of chosen splits and merges, their execution, and writers that put their rows into the child groups, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from hudi_ops.commit.complete import complete_write
from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.files.names import data_path, log_file_name, parse_data_file
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.resizes import RESIZE_STRATEGY, RingChange, changes_of, holders_of
from hudi_ops.index.ring import Ring, merge, middle_of, split, with_children
from hudi_ops.index.ring_files import RingReader
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.planned.groups import planned_group
from hudi_ops.services.base.publish import Draft, publish_plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.resize.result import ResizeResult
from hudi_ops.services.resize.service import RESIZE
from hudi_ops.services.write import ingest
from hudi_ops.services.write.tasks.append import append_and_write, write_bucket
from hudi_ops.table.table import Table
from hudi_ops.timeline.cancel.policy import CancelPolicy, OnOverlap
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan

P0, P1 = "part=p0", "part=p1"


@dataclass(frozen=True)
class Wanted:
    """A node to split, in the middle unless a point is named, or neighbours to merge."""

    nodes: tuple[int, ...]
    partition: str = P0
    point: int | None = None


def plan_of_nodes(table: Table, *wanted: Wanted, on_overlap: OnOverlap = "pass", seq_no: int | None = None) -> str:
    """Publish a plan of these splits and merges; return its instant."""
    session = table._session
    state = session.loader.load()
    slices = {one.key: one for one in live_slices(session, state)}
    rings = rings_of(table, {one.partition for one in wanted})
    groups = []
    for number, one in enumerate(wanted):
        ring = rings[one.partition]
        names = tuple(
            f"{state.log.head:04x}{number:02x}{side:02x}-0000-4000-8000-{ring.seq_no:012d}" for side in range(2)
        )
        if len(one.nodes) == 1:
            point = middle_of(ring, one.nodes[0]) if one.point is None else one.point
            children = split(ring, one.nodes[0], point, (names[0], names[1]))
        else:
            children = merge(ring, one.nodes, names[0])
        parents = tuple(ring.file_id(node) for node in one.nodes)
        change = RingChange(one.partition, parents, children, ring.seq_no if seq_no is None else seq_no)
        found = [slices[one.partition, file_id] for file_id in parents]
        groups.append(planned_group(session.ctx.storage, found, len(change.prefixes), change.extra()))
    plan = ReplacePlan("CLUSTER", tuple(groups), RESIZE_STRATEGY)
    footprint = Footprint.of_groups((one.partition_path, one.file_id) for one in plan.slices)
    policy = CancelPolicy(cancellable=True, on_overlap=on_overlap)
    return publish_plan(session, "clustering", Draft(encode_clustering(plan), footprint, state, cancel=policy)).instant


def rings_of(table: Table, partitions: Any) -> dict[str, Ring]:
    """The rings of partitions that count now."""
    session = table._session
    reader = RingReader.of(session.ctx.storage, session.loader.load(), session.commits)
    return {path: ring for path in partitions if (ring := reader.read(path)) is not None}


def run_plan(table: Table, instant: str | None = None, **how: Any) -> ResizeResult:
    """Execute a plan in this process."""
    result = execute(table._session, RESIZE, instant, Execution(**{"engine": "local", **how}))
    assert isinstance(result, ResizeResult)
    return result


def changes_at(table: Table, instant: str) -> tuple[RingChange, ...]:
    """How a pending plan changes the rings."""
    state = table._session.loader.load()
    found = state.timeline.find(instant, "clustering")
    assert found is not None
    plan = read_plan(table._session.ctx.storage, state.timeline, found)
    assert isinstance(plan, ReplacePlan)
    return changes_of(plan, "t", instant)


def ranges_at(ring: Ring, change: RingChange) -> dict[str, tuple[int, int]]:
    """The hashes of each child, by its file id."""
    new = with_children(ring, change.children, "1")
    return {f"{name}-0": new.range_of(new.prefixes.index(name)) for name in change.prefixes}


@contextmanager
def dual_writes(table: Table, instant: str) -> Iterator[None]:
    """Let ingests write the rows of a plan's parents into its children, too, in log files of the plan's instant."""
    session, changes = table._session, changes_at(table, instant)
    rings = rings_of(table, {change.partition_path for change in changes})
    engine = ring_engine_of(session.loader.load().log.properties.facts)
    storage, beside = session.ctx.storage, []

    def write(task: Any, tables: list[pa.Table]) -> Any:
        kept = [*tables]
        result = write_bucket(task, tables)
        for change in changes:
            if task.partition_path != change.partition_path or task.file_id not in change.parents:
                continue
            ranges = ranges_at(rings[change.partition_path], change)
            rows = pa.concat_tables(kept)
            holders = holders_of(engine.hashes(rows.column(RECORD_KEY).combine_chunks()), list(ranges.values()))
            assert (holders >= 0).all()
            for number, child in enumerate(ranges):
                part = rows.filter(pa.array(holders == number))
                if part.num_rows:
                    beside.append(_renamed(append_and_write(replace(task, file_id=child), [part])))
        return result

    def _renamed(made: Any) -> Any:
        stat = made.stat
        others = [parse_data_file(info.name) for info in storage.list(stat.partition_path)]
        versions = [one.version for one in others if one and one.file_id == stat.file_id and one.instant == instant]
        own = parse_data_file(stat.file_name)
        assert own is not None
        name = log_file_name(stat.file_id, instant, max(versions, default=0) + 1, own.token)
        path = data_path(stat.partition_path, name)
        storage.put(path, storage.get(stat.path))
        storage.delete(stat.path)
        facts = replace(made.facts, path=path) if made.facts is not None else None
        return replace(made, stat=replace(stat, path=path, log_files=(name,)), facts=facts)

    def complete(session: Any, attempt: Any, done: Any, **how: Any) -> Any:
        stats = [*done.stats, *(one.stat for one in beside)]
        facts = [*done.facts, *(one.facts for one in beside if one.facts is not None)]
        return complete_write(session, attempt, replace(done, stats=stats, facts=facts), **how)

    with (
        mock.patch.object(ingest, "write_bucket", write),
        mock.patch.object(ingest, "complete_write", complete),
    ):
        yield


def child_logs(storage: Any, instant: str) -> list[str]:
    """The log files that carry the instant of a plan."""
    found = [info.path for info in storage.list() if not info.path.startswith(".hoodie/")]
    return sorted(path for path in found if f"_{instant}.log." in path)


def keys_by_child(ranges: dict[str, tuple[int, int]], hashes: Any, keys: Sequence[str]) -> dict[str, list[str]]:
    """Which of the keys each child gets."""
    holders = holders_of(hashes, list(ranges.values()))
    return {child: [keys[at] for at in np.flatnonzero(holders == number)] for number, child in enumerate(ranges)}

"""Plans of chosen splits and merges, and their execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hudi_ops.index.resizes import RESIZE_STRATEGY, RingChange
from hudi_ops.index.ring import Ring, merge, middle_between, split, with_children
from hudi_ops.index.ring_files import RingReader
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.publish import Draft, publish_plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.resize.service import RESIZE, ResizeResult
from hudi_ops.services.rewrite.draft import planned_group
from hudi_ops.table.table import Table
from hudi_ops.timeline.cancel.policy import CancelPolicy, OnOverlap
from hudi_ops.timeline.content.clean_bytes import planned_path
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan

P0, P1 = "part=p0", "part=p1"


@dataclass(frozen=True)
class Wanted:
    """A node to split, in the middle unless a point is named, or neighbours to merge."""

    nodes: tuple[int, ...]
    partition: str = P0
    point: int | None = None


def changed_ring(ring: Ring, changes: Iterable[RingChange], instant: str) -> Ring:
    """Return the ring of a partition with the changes of that partition."""
    children = [
        child for change in changes if change.partition_path == ring.partition_path for child in change.children
    ]
    return with_children(ring, children, instant)


def plan_of_nodes(table: Table, *wanted: Wanted, on_overlap: OnOverlap = "shrink", seq_no: int | None = None) -> str:
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
            point = middle_between(*ring.range_of(one.nodes[0])) if one.point is None else one.point
            children = split(ring, one.nodes[0], point, (names[0], names[1]))
        else:
            children = merge(ring, one.nodes, names[0])
        parents = tuple(ring.file_id(node) for node in one.nodes)
        change = RingChange(one.partition, parents, children, ring.seq_no if seq_no is None else seq_no)
        found = [slices[one.partition, file_id] for file_id in parents]
        groups.append(planned_group(planned_path(session.ctx.storage, ""), found, len(change.prefixes), change.extra()))
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


def child_logs(storage: Any, instant: str) -> list[str]:
    """The log files that carry the instant of a plan."""
    found = [info.path for info in storage.list() if not info.path.startswith(".hoodie/")]
    return sorted(path for path in found if f"_{instant}.log." in path)

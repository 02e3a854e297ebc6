"""Read the groups of a resize plan and their rings, as they are at the execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt
from hudi_ops.index.resizes import RingChange, changes_of, span_of
from hudi_ops.index.ring import Ring, with_children
from hudi_ops.index.ring_files import RingReader
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.services.rewrite.inputs import GroupInput, PlanInputs, read_groups
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class ChildRange:
    """A file group that a resize makes, for the hashes above `before`, up to `value`."""

    file_id: str
    before: int
    value: int


@dataclass(frozen=True)
class ParentGroup(GroupInput):
    """Slices that are replaced together. `children` is empty if the ring changed since the plan."""

    change: RingChange
    children: tuple[ChildRange, ...]


@dataclass(frozen=True)
class ResizeInputs(PlanInputs[ParentGroup]):
    """Groups of a plan, and the ring of each of their partitions.

    `lost` are the children (partition path, file id) that lack a log file which a completed write names: an earlier executor left
    them out.
    """

    rings: Mapping[str, Ring]
    lost: frozenset[tuple[str, str]] = frozenset()


def inputs_of_plan(session: Session, state: TableState, instant: str, plan: ReplacePlan) -> ResizeInputs:
    """Return the groups of a plan with the sizes of their files.

    Raises:
        Corrupt: a file or a ring is gone, a group does not say its children, or these do not take the place of its parents.
        Conflict: a ring changed since the state was read.
    """
    changes = changes_of(plan, state.config.name, instant)
    reader = RingReader.of(session.ctx.storage, state, session.commits)
    read = reader.read_all({change.partition_path for change in changes}, session.ctx.local_engine)
    rings = {path: ring for path, ring in read.items() if ring is not None}
    lost = min(read.keys() - rings.keys(), default=None)
    if lost is not None:
        raise Corrupt(
            f"partition {lost or '.'} has no hash ring, and the plan changes one",
            table=state.config.name,
            instant=instant,
            expected="the ring that was current when the plan was made",
            found="no ring file",
            next_step="restore the partition's ring files from a copy of the table",
        )
    groups: list[ParentGroup] = []
    number = 0
    for (_, slices), change in zip(read_groups(session, state, instant, plan), changes, strict=True):
        ring = rings[change.partition_path]
        children = _ranges(ring, change, state.config.name, instant) if change.seq_no == ring.seq_no else ()
        groups.append(ParentGroup(change.partition_path, slices, number, change, children))
        number += len(change.prefixes)
    return ResizeInputs(tuple(groups), rings)


def _ranges(ring: Ring, change: RingChange, table: str, instant: str) -> tuple[ChildRange, ...]:
    """Return the children of a group with their ranges.

    Raises:
        Corrupt: together they are not the ranges of the parents.
    """
    nodes = {ring.file_id(node): node for node in range(len(ring.prefixes))}
    values = {*ring.values.tolist()}
    strange = [file_id for file_id in change.parents if file_id not in nodes]
    strange += [
        f"node {child.value}" for child in change.children if child.prefix is None and child.value not in values
    ]
    parents = [ring.range_of(nodes[file_id]) for file_id in change.parents if file_id in nodes]
    made: tuple[ChildRange, ...] = ()
    if not strange and change.prefixes:
        new = with_children(ring, change.children, instant)
        places = {prefix: node for node, prefix in enumerate(new.prefixes)}
        made = tuple(ChildRange(f"{prefix}-0", *new.range_of(places[prefix])) for prefix in change.prefixes)
    ranges = [(child.before, child.value) for child in made]
    if strange or not parents or span_of(ranges) != span_of(parents):
        raise Corrupt(
            "a group of the resize plan does not fit the hash ring of its partition",
            table=table,
            instant=instant,
            expected=f"children that take the place of the nodes of {', '.join(change.parents)} in ring {ring.instant}",
            found=", ".join(strange) or f"children for {_said(ranges)}, parents of {_said(parents)}",
            next_step=cancel_advice(instant),
        )
    return made


def _said(ranges: list[tuple[int, int]]) -> str:
    return ", ".join(f"({before}, {value}]" for before, value in ranges) or "no hash"

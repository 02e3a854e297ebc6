"""Choose the buckets that a resize splits and merges, with a reason for each.

Source: docs/protocol §27; docs/format §10.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.config.requests.cancel import parse_cancel
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.misleading_rings import refuse_lost_ring, refuse_misleading_rings, refuse_record_index
from hudi_ops.index.resizes import RingChange
from hudi_ops.index.ring import Ring, merge, split
from hudi_ops.index.ring_files import RingReader
from hudi_ops.services.base.choice import Candidate, cancel_policy, count_of
from hudi_ops.services.base.engine import choose_by_bytes
from hudi_ops.services.base.slices import merging_of
from hudi_ops.services.resize.child_names import ChildNames
from hudi_ops.services.resize.nodes import Limits, NodeChoice, choose_nodes
from hudi_ops.services.resize.points import PointTask, SplitPoint, find_point, split_point_of
from hudi_ops.services.rewrite.choice import (
    RewriteChoice,
    RewriteGroup,
    by_bytes,
    leave_out_pending,
    members,
    pending_plans,
    sized,
    slices_of,
)
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema

ACTION = "clustering"
"""Word of a resize's pending instants: on the timeline it is a clustering."""


class LeftReason(StrEnum):
    """Reasons of a resize alone to leave a file group out."""

    FITTING = "a size between merge and split size"
    ALONE = "no neighbour with room for it"
    PARTITIONS = "a partition beyond the limit of partitions"
    BUCKETS = "a ring at its limit of buckets"
    ONE_HASH = "no hash to split at"


@dataclass(frozen=True)
class ResizeGroup(RewriteGroup):
    """Buckets that are replaced together: one that is split, or neighbours that are merged."""

    change: RingChange = field(kw_only=True)

    def extra(self) -> Mapping[str, str]:
        """Return the extra metadata of the plan group: how the ring changes."""
        return self.change.extra()


@dataclass
class ResizeChoice(RewriteChoice[ResizeGroup]):
    """Choice of a resize: splits, merges, and the rings that they change, by partition path."""

    rings: dict[str, Ring] = field(default_factory=dict)

    def revised(self, groups: list[ResizeGroup], left: Mapping[tuple[str, str], str]) -> Self:
        """Return the choice with these of its groups, measured with the log files that joined them."""
        return replace(super().revised(groups, left), planned=sized(members(groups)))

    def work(self) -> str:
        """Return in words how many buckets are replaced, and by how many."""
        outputs = sum(group.outputs for group in self.groups)
        splits = sum(group.outputs > 1 for group in self.groups)
        merges = len(self.groups) - splits
        return (
            f"{count_of(len(self.planned), 'bucket')} into {outputs:,}: "
            f"{count_of(splits, 'split')}, {count_of(merges, 'merge')}"
        )


def empty_choice(request: ResizeRequest) -> ResizeChoice:
    """Return the choice of a request without candidates."""
    return ResizeChoice(
        "resize",
        "files",
        by_bytes(request.split_point or "balanced"),
        float(request.split_bytes),
        request.max_bytes,
        others={reason: [] for reason in LeftReason},
        cancel=cancel_policy(parse_cancel(request.cancel), "shrink"),
    )


def refuse_table(state: TableState) -> None:
    """Refuse a table without hash rings, or with a record index.

    Raises:
        InvalidRequest: its buckets follow from no ring.
        Unsupported: its metadata table has or gets a record index.
    """
    facts = state.log.properties.facts
    if not facts.has_ring:
        raise InvalidRequest(
            "this table has no hash rings to resize",
            table=state.config.name,
            expected="a table with the bucket engine consistent or extendible",
            found=f"index {facts.index}",
            next_step="nothing to do: only these engines can split and merge buckets",
        )
    refuse_record_index(state)


def refuse_foreign_writers(state: TableState, *, has_any: bool) -> None:
    """Refuse a table with foreign writers if the later of two rows of one key counts.

    Apache Hudi gives every log file of a dual write version 1, so a later commit of it may lose to an earlier one.

    Raises:
        Unsupported: there are foreign writers.
    """
    is_by_event = state.config.merge_mode == "EVENT_TIME_ORDERING" and state.config.ordering_fields
    if has_any and not is_by_event:
        raise Unsupported(
            "this table merges rows by commit time, and foreign writers beside a resize would not keep the order of their commits",
            table=state.config.name,
            expected="only hudi-ops as a writer, or a table that merges by an ordering field",
            found="a table that was adopted, or that a foreign writer writes",
            next_step="resize its buckets with Apache Hudi while no other writer runs",
        )


@dataclass
class _Bucketed:
    """Ring of a partition with the free slice of each node, and the nodes that are changed."""

    ring: Ring
    slices: list[Candidate | None]
    found: NodeChoice = field(default_factory=NodeChoice)
    stuck: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sizes = [one.bytes_in if one is not None else None for one in self.slices]

    def choose(self, limits: Limits) -> None:
        self.found = choose_nodes(self.ring, self.sizes, limits, self.stuck)

    def of(self, nodes: Sequence[int]) -> tuple[Candidate, ...]:
        return tuple(one for node in nodes if (one := self.slices[node]) is not None)

    def size(self, nodes: Sequence[int]) -> int:
        return sum(self.sizes[node] or 0 for node in nodes)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The nodes of each split and merge, the largest first."""
        found = [*((node,) for node in self.found.splits), *self.found.merges]
        return sorted(found, key=lambda nodes: (-self.size(nodes), nodes))


_Group = tuple[str, tuple[int, ...]]
"""Partition path, and nodes of its ring."""


def choose(session: Session, state: TableState, request: ResizeRequest) -> ResizeChoice:
    """Choose the splits and merges of a plan; change nothing.

    Raises:
        InvalidRequest: a partition that the table does not have, or a split point that cannot be used.
        Unsupported: foreign writers would lose the order of their commits.
        Corrupt: a ring cannot be read, or a file group belongs to no node.
        Conflict: a ring changed since the state was read.
    """
    refuse_foreign_writers(state, has_any=has_foreign_writers(session.ctx.storage, session.commits, state))
    facts = state.log.properties.facts
    limits = Limits(
        request.split_bytes,
        request.merge_bytes,
        facts.buckets_min,
        facts.buckets_max,
        facts.index == "extendible_bucket",
    )
    rule = split_point_of(request.split_point, is_extendible=limits.is_extendible)
    choice = empty_choice(request)
    if limits.is_extendible:
        choice.strategy = by_bytes("middle")
    held = _bucketed(session, state, request, choice)
    for bucketed in held.values():
        bucketed.choose(limits)
    points: dict[tuple[str, int], int] = {}
    while True:
        taken, beyond, passed = _within(held, request)
        unknown = [(path, nodes[0]) for path, nodes in taken if len(nodes) == 1 and (path, nodes[0]) not in points]
        if not unknown:
            break
        for (path, node), point in zip(unknown, _points(session, state, request, rule, held, unknown), strict=True):
            if point is not None:
                points[path, node] = point
            else:
                held[path].stuck.add(node)
        for path in {path for path, _ in unknown}:
            held[path].choose(limits)
    _record(choice, held, beyond, passed, rule, limits)
    names = ChildNames.of(state, choice.rings)
    for path, nodes in taken:
        bucketed = held[path]
        choice.rings[path] = ring = bucketed.ring
        slices = bucketed.of(nodes)
        children = (
            split(ring, nodes[0], points[path, nodes[0]], ("", "")) if len(nodes) == 1 else merge(ring, nodes, "")
        )
        change = RingChange(path, tuple(slice_.file_id for slice_ in slices), children, ring.seq_no)
        choice.groups.append(ResizeGroup(slices, len(change.prefixes), change=names.named(change)))
    choice.planned = sized(members(choice.groups))
    return choice


def _bucketed(
    session: Session, state: TableState, request: ResizeRequest, choice: ResizeChoice
) -> dict[str, _Bucketed]:
    """Return the rings of partitions with work; record the groups of others as left out.

    Raises:
        InvalidRequest: a partition that the table does not have.
        Corrupt: a ring cannot be read, or a file group belongs to no node of its ring.
    """
    plans = pending_plans(session, state, ACTION, by_partition=True)
    slices, _ = slices_of(session, state, request.partitions)
    candidates = [Candidate(*slice_.key, slice_.base, slice_.logs) for slice_ in slices]
    free: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in leave_out_pending(choice, candidates, plans):
        free[candidate.partition_path].append(candidate)
    due: list[str] = []
    for path, buckets in free.items():
        small = [one for one in buckets if one.bytes_in < request.merge_bytes]
        if (small and len(buckets) > 1) or any(one.bytes_in > request.split_bytes for one in buckets):
            due.append(path)
            continue
        for one in buckets:
            choice.leave_out(LeftReason.ALONE if one in small else LeftReason.FITTING, one)
    rings = _rings(session, state, due)
    keys = [one.key for one in candidates if one.partition_path in rings]
    refuse_misleading_rings(session.ctx.storage, session.commits, state, keys, rings)
    found = {}
    for path, ring in rings.items():
        by_id = {one.file_id: one for one in free[path]}
        found[path] = _Bucketed(ring, [by_id.get(ring.file_id(node)) for node in range(len(ring.prefixes))])
    return found


def _rings(session: Session, state: TableState, paths: Sequence[str]) -> dict[str, Ring]:
    """Read the rings of partitions that have file groups.

    Raises:
        Corrupt: a partition has no ring, or its ring cannot be read.
    """
    ctx = session.ctx
    found = RingReader.of(ctx.storage, state, session.commits).read_all(paths, ctx.local_engine)
    lost = next((path for path, ring in found.items() if ring is None), None)
    if lost is not None:
        refuse_lost_ring(state.config.name, lost)
    return {path: ring for path, ring in found.items() if ring is not None}


def _within(held: Mapping[str, _Bucketed], request: ResizeRequest) -> tuple[list[_Group], list[_Group], list[_Group]]:
    """Return splits and merges of a plan, and those beyond its limits of bytes and partitions.

    The partition with most bytes to resize comes first, in it the largest group; the first group always fits.
    """
    groups = {path: bucketed.groups for path, bucketed in held.items()}
    total = {path: sum(map(held[path].size, found)) for path, found in groups.items()}
    taken: list[_Group] = []
    beyond: list[_Group] = []
    passed: list[_Group] = []
    used, partitions = 0, set[str]()
    for path in sorted(groups, key=lambda path: (-total[path], path)):
        for nodes in groups[path]:
            size = held[path].size(nodes)
            if path not in partitions and len(partitions) == request.max_partitions:
                passed.append((path, nodes))
            elif request.max_bytes is not None and taken and used + size > request.max_bytes:
                beyond.append((path, nodes))
            else:
                taken.append((path, nodes))
                partitions.add(path)
                used += size
    return taken, beyond, passed


def _points(
    session: Session,
    state: TableState,
    request: ResizeRequest,
    rule: SplitPoint,
    held: Mapping[str, _Bucketed],
    wanted: Sequence[tuple[str, int]],
) -> list[int | None]:
    """Return the split points of nodes. The engine reads keys if the rule needs them.

    Raises:
        InvalidRequest: a class chose a point that is not inside the range.
        Corrupt: a file cannot be read.
    """
    schema = table_schema(state.config, state.timeline, session.commits)
    merging, engine = merging_of(state, schema), ring_engine_of(state.log.properties.facts)
    tasks = [
        PointTask(rule, *held[path].ring.range_of(node), session.ctx.storage, one, merging, engine)
        for path, node in wanted
        for one in held[path].of([node])
    ]
    if not rule.reads_keys:
        return list(map(find_point, tasks))
    size_bytes = sum(task.slice_.bytes_in for task in tasks)
    chosen, _ = choose_by_bytes(request.engine, size_bytes, session.ctx.engine, "of buckets to split")
    return chosen.map(find_point, tasks)


def _record(
    choice: ResizeChoice,
    held: Mapping[str, _Bucketed],
    beyond: Sequence[_Group],
    passed: Sequence[_Group],
    rule: SplitPoint,
    limits: Limits,
) -> None:
    """Enter the buckets that are left out into a choice, with their reasons."""
    for bucketed in held.values():
        found, count = bucketed.found, len(bucketed.slices)
        for reason, nodes in (
            (LeftReason.FITTING, found.fitting),
            (LeftReason.ALONE, found.alone),
        ):
            for one in bucketed.of(nodes):
                choice.leave_out(reason, one)
        for one in bucketed.of(found.at_limit):
            option = "--buckets-max" if one.bytes_in > limits.split_bytes else "--buckets-min"
            changed = f"`hudi-ops alter TABLE {option} N` changes the limit"
            choice.leave_out(LeftReason.BUCKETS, one, f"{count_of(count, 'bucket')}, {one.bytes_in:,} bytes; {changed}")
        why = "no key, or all keys have one hash" if rule.reads_keys else "its range has one hash"
        for one in bucketed.of(sorted(bucketed.stuck)):
            choice.leave_out(LeftReason.ONE_HASH, one, why)
    choice.beyond = sized(_all(held, beyond))
    for candidate in _all(held, passed):
        choice.leave_out(LeftReason.PARTITIONS, candidate)


def _all(held: Mapping[str, _Bucketed], groups: Sequence[_Group]) -> Iterator[Candidate]:
    for path, nodes in groups:
        yield from held[path].of(nodes)

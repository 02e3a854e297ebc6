"""Plans of resizes: how each plan group changes the hash ring of its partition.

A resize is a clustering plan with an execution strategy of its own. Each plan group says its child nodes in its extra metadata, as
Apache Hudi does (docs/format §10.3).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from hudi_ops.errors import Corrupt
from hudi_ops.index.ring import HASHES, Child
from hudi_ops.timeline.content.plans import PlannedGroup, ReplacePlan

RESIZE_STRATEGY = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
"""Class with which Apache Hudi executes a resize."""

_STRATEGIES = frozenset({
    RESIZE_STRATEGY,
    "org.apache.hudi.client.clustering.run.strategy.SingleSparkJobConsistentHashingExecutionStrategy",
})

_PARTITION, _NODES, _SEQ_NO = (
    "clustering.group.partition",
    "clustering.group.child.node",
    "clustering.group.sequence.no",
)


@dataclass(frozen=True, slots=True)
class RingChange:
    """Change of one plan group.

    Attributes:
        parents: file ids of the groups that it replaces.
        children: nodes that it adds, changes or removes, in the order of the plan.
        seq_no: number of the ring that it changes.
    """

    partition_path: str
    parents: tuple[str, ...]
    children: tuple[Child, ...]
    seq_no: int

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of the child groups."""
        return tuple(child.prefix for child in self.children if child.prefix is not None)

    def extra(self) -> dict[str, str]:
        """Return the extra metadata of the plan group."""
        nodes = [{"value": child.value, "fileIdPrefix": child.prefix, "tag": child.tag} for child in self.children]
        return {_PARTITION: self.partition_path, _NODES: json.dumps(nodes), _SEQ_NO: str(self.seq_no)}


def is_resize(plan: object) -> bool:
    """Return whether a plan resizes the buckets of hash rings."""
    return isinstance(plan, ReplacePlan) and plan.strategy in _STRATEGIES


def changes_of(plan: ReplacePlan, table: str, instant: str) -> tuple[RingChange, ...]:
    """Return the change of each plan group of a resize, ours or Apache Hudi's.

    Raises:
        Corrupt: a group does not say its child nodes, or lies in several partitions.
    """
    return tuple(_change_of(group, number, table, instant) for number, group in enumerate(plan.groups))


def span_of(ranges: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the range of adjacent ranges, each above its first number, up to its second.

    The whole ring is (-1, -1), wherever its ranges end. None: they are not adjacent.
    """
    begun, ended = {before for before, _ in ranges}, {value for _, value in ranges}
    starts, ends = begun - ended, ended - begun
    if begun == ended and begun:
        return -1, -1
    return (starts.pop(), ends.pop()) if len(starts) == len(ends) == 1 else None


def holders_of(hashes: npt.NDArray[np.integer], ranges: Sequence[tuple[int, int]]) -> npt.NDArray[np.int16]:
    """Return the number of the range that holds each hash; -1: none does."""
    found = np.full(len(hashes), -1, np.int16)
    for number, (before, value) in enumerate(ranges):
        width = (value - before) % HASHES or HASHES
        found[(hashes.astype(np.int64) - before - 1) % HASHES < width] = number
    return found


@dataclass(frozen=True, slots=True)
class _Node:
    value: int
    fileIdPrefix: str | None  # noqa: N815 (as Apache Hudi spells it)
    tag: str


_NODE_LIST = TypeAdapter(list[_Node])


def _change_of(group: PlannedGroup, number: int, table: str, instant: str) -> RingChange:
    partitions = {slice_.partition_path for slice_ in group.slices}
    try:
        children = _children(group.extra.get(_NODES, ""))
        seq_no = int(group.extra.get(_SEQ_NO, ""))
        path = group.extra.get(_PARTITION, "")
    except (ValidationError, ValueError) as error:
        raise _unreadable(table, instant, number, str(error).splitlines()[0]) from None
    if partitions - {path}:
        raise _unreadable(
            table, instant, number, f"slices of {', '.join(sorted(partitions))} in a group of {path or '.'}"
        )
    return RingChange(path, tuple(slice_.file_id for slice_ in group.slices), children, seq_no)


def _children(text: str) -> tuple[Child, ...]:
    nodes: Sequence[_Node] = _NODE_LIST.validate_json(text)
    return tuple(Child(node.value, None if node.tag == "DELETE" else node.fileIdPrefix) for node in nodes)


def _unreadable(table: str, instant: str, number: int, found: str) -> Corrupt:
    return Corrupt(
        f"group {number} of the resize plan does not say how it changes the hash ring",
        table=table,
        instant=instant,
        expected=f"{_PARTITION}, {_NODES} and {_SEQ_NO}, as Apache Hudi writes them",
        found=found,
        next_step=f"cancel the plan: `hudi-ops cancel TABLE {instant} --force`; then plan again",
    )

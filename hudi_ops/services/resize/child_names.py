"""Name the file groups that a resize makes.

A name follows from table, partition, node and the slot that the plan can take: drafts of one state are equal, and no two plans that
were decided share a name, so that nothing of a cancelled plan is taken for a later one's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hudi_ops.index.resizes import RingChange
from hudi_ops.index.ring import Ring
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.state import TableState


@dataclass
class ChildNames:
    """Names for a plan from one state. No two groups of a partition begin alike: footprints name groups by these digits."""

    table_id: str
    slot: int
    rings: Mapping[str, Ring]
    _taken: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: TableState, rings: Mapping[str, Ring]) -> ChildNames:
        """Return the names for a plan in the slot after a state."""
        return cls(state.log.table_id, state.log.head + 1, rings)

    def named(self, change: RingChange) -> RingChange:
        """Return a change with names for its child groups."""
        children = tuple(
            child if child.prefix is None else replace(child, prefix=self._new(change.partition_path, child.value))
            for child in change.children
        )
        return replace(change, children=children)

    def _new(self, partition_path: str, value: int) -> str:
        taken = self._taken.get(partition_path)
        if taken is None:
            taken = self._taken[partition_path] = {*_digits(self.rings[partition_path].prefixes)}
        tried = 0
        while True:
            name = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.table_id}/{partition_path}/{value}/{self.slot}/{tried}"))
            if name[:BUCKET_DIGITS] not in taken:
                taken.add(name[:BUCKET_DIGITS])
                return name
            tried += 1


def _digits(prefixes: Iterable[str]) -> Iterable[str]:
    return (prefix[:BUCKET_DIGITS] for prefix in prefixes)

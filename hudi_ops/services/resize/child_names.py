"""Name the file groups that a resize makes.

A name follows from table, partition, node and the slot that the plan can take: drafts of one state are equal, and no two plans that
were decided share a name, so that no file of a cancelled plan is taken for one of a later plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hudi_ops.index.resizes import RingChange
from hudi_ops.index.ring import Child, Ring
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.state import TableState


@dataclass
class ChildNames:
    """Names for a plan from one state.

    No two groups of a partition have the same first digits, since footprints name groups by these.
    """

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
        path = change.partition_path
        children = tuple(
            one if one.prefix is None else Child(one.value, self._new(path, one.value)) for one in change.children
        )
        return RingChange(path, change.parents, children, change.seq_no)

    def _new(self, partition_path: str, value: int) -> str:
        taken = self._taken.get(partition_path)
        if taken is None:
            taken = self._taken[partition_path] = {*_digits(self.rings[partition_path].prefixes)}
        name, tried = "", 0
        while not name or name[:BUCKET_DIGITS] in taken:
            name = _uuid(f"{self.table_id}/{partition_path}/{value}/{self.slot}/{tried}")
            tried += 1
        taken.add(name[:BUCKET_DIGITS])
        return name


def _uuid(text: str) -> str:
    """Return a name-based UUID: version 5, without a namespace.

    The module `uuid` would take most of the time of a large plan.
    """
    digits = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _digits(prefixes: Iterable[str]) -> Iterable[str]:
    return (prefix[:BUCKET_DIGITS] for prefix in prefixes)

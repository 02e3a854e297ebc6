"""Find rollbacks and restores, by any writer, that undid an instant or will undo it."""

from __future__ import annotations

from typing import NamedTuple

from hudi_ops.config.table import TableConfig
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.plans import RestorePlan, RolledBack, decode_result, read_plan, read_result
from hudi_ops.timeline.content.rollbacks import rollback_of

_UNDOING = frozenset({"rollback", "restore"})


class Undo(NamedTuple):
    """Rollback or restore that undoes an instant: its action and request time."""

    action: str
    time: str

    def __str__(self) -> str:
        return f"{self.action} {self.time}"


def undone_by(storage: Storage, config: TableConfig, timeline: Timeline, target: str) -> Undo | None:
    """Return the rollback or restore of an instant, or None.

    Raises:
        Corrupt: the plan or result of a restore, or the history, cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    rollback = rollback_of(storage, timeline, target)
    if rollback is not None:
        return Undo("rollback", rollback.time)
    for instant in timeline:
        if instant.kind == "restore" and instant.time > target:
            said = (
                read_result(storage, timeline, instant)
                if instant.is_completed
                else read_plan(storage, timeline, instant)
            )
            if isinstance(said, RestorePlan) and target in said.targets:
                return Undo("restore", instant.time)
    for old in load_history(storage, config, with_content=True, actions=_UNDOING).instants:
        told = decode_result(old.action, old.metadata, f"archived {old.time}") if old.metadata else None
        if isinstance(told, RolledBack | RestorePlan) and old.time > target and target in told.targets:
            return Undo(old.action, old.time)
    return None


def restored_over(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """Return the instants that the restores on the timeline undid or will undo.

    Raises:
        Corrupt: the plan of a restore cannot be read.
    """
    plans = (read_plan(storage, timeline, restore) for restore in timeline.by_kind.get("restore", ()))
    return frozenset(target for plan in plans if isinstance(plan, RestorePlan) for target in plan.targets)

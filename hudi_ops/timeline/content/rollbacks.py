"""Find the rollbacks of an instant, by any writer, from the plans on the timeline."""

from __future__ import annotations

import logging

from hudi_ops.errors import Corrupt
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.plans import RollbackPlan, RolledBack, read_plan, read_result
from hudi_ops.timeline.instant import Instant

logger = logging.getLogger(__name__)


def rollback_of(storage: Storage, timeline: Timeline, target: str) -> Instant | None:
    """Return the rollback, pending or complete, that names `target`, or None.

    Only later instants are read. An unreadable plan is skipped with a warning: its writer may still be writing it, and it must not
    stop all other writers.
    """
    for instant in timeline.by_kind.get("rollback", ()):
        if instant.time > target and target in targets_of(storage, timeline, instant):
            return instant
    return None


def targets_of(storage: Storage, timeline: Timeline, instant: Instant) -> tuple[str, ...]:
    """Return the instants that a rollback undoes, or none if its plan is not readable."""
    try:
        said = (
            read_result(storage, timeline, instant) if instant.is_completed else read_plan(storage, timeline, instant)
        )
    except Corrupt as error:
        logger.warning("the plan of rollback %s cannot be read: %s", instant.time, error)
        return ()
    if isinstance(said, RolledBack):
        return said.targets
    return (said.target,) if isinstance(said, RollbackPlan) else ()

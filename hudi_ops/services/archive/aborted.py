"""Move the records of aborted plans off the timeline, into their history.

The move decides nothing: the CANCEL slot says how a plan ended, wherever its record lies. A record is moved once its plan is swept
and lies below the timeline's start.

Source: docs/protocol §26.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.services.archive.rules import Verdict
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.cancel.aborted import aborted_path
from hudi_ops.timeline.cancel.aborted_history import ArchivedPlan, add_records
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, swept_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


def archive_aborted(session: Session, state: TableState) -> int:
    """Move the records of old swept plans into the history; return their number.

    A plan is old if it lies below the timeline's start. The history gets a record before its file is deleted; the mark `swept` is
    deleted last. A mark without a record is a leftover of an archiver that died. A record that cannot be read stays, and `verify`
    reports it.
    """
    storage, timeline = session.ctx.storage, state.timeline
    records: list[ArchivedPlan] = []
    gone: list[Instant] = []
    for plan in timeline.aborted:
        if State.SWEPT not in plan.states or not is_below(timeline, plan):
            continue
        path = aborted_path(timeline, plan)
        try:
            records.append(ArchivedPlan.of(storage.get(path), path, plan.time))
        except NotFound:
            pass  # another archiver moved it, and only the mark is left
        except Corrupt as error:
            logger.warning("%s stays on the timeline: %s", path, error)
            continue
        gone.append(plan)
    add_records(storage, records)
    remove_paths(storage, Reason.ARCHIVED, [aborted_path(timeline, plan) for plan in gone])
    remove_paths(storage, Reason.ARCHIVED, [timeline.path(swept_name(plan.time, plan.action)) for plan in gone])
    return len(records)


def is_below(timeline: Timeline, plan: Instant, boundary: str = "") -> bool:
    """Return whether a plan lies below the timeline's start.

    The start is computed as if all instants up to `boundary` had left the timeline.
    """
    start = next((write.time for write in timeline.completed_writes if write.time > boundary), "")
    return plan.time < start


def aborted_verdicts(timeline: Timeline, boundary: str) -> list[Verdict]:
    """Return why each aborted plan's record stays once `boundary` is archived; empty: it leaves."""
    found = []
    for plan in timeline.aborted:
        why = "" if is_below(timeline, plan, boundary) else "the completed write before it stays"
        if State.SWEPT not in plan.states:
            why = "a later write looks once more for its files"
        found.append(Verdict(plan.time, plan.action, why))
    return found

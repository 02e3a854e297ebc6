"""Whether writers of Apache Hudi share a table, as far as its timeline and its log tell."""

from __future__ import annotations

from hudi_ops.concurrency.lease import read_lease
from hudi_ops.services.session import Session
from hudi_ops.timeline.commit_log import POINTER_KEY, read_slot
from hudi_ops.timeline.entries import Plan
from hudi_ops.timeline.state import TableState


def is_shared(session: Session, state: TableState) -> bool:
    """True for a table that was adopted, and for one with an instant that stands in no slot and that no lease of ours claims.

    It reads every commit of the active timeline that was not read yet: to be asked only when the answer matters.
    """
    first = read_slot(session.ctx.storage, 0)
    if first is None or first.decision_id.startswith("adopt "):
        return True
    planned = {entry.instant for _, entry in state.log.since(state.log.base - 1) if isinstance(entry, Plan)}
    for instant in state.timeline.completed_writes:
        metadata = session.commits.metadata(state.timeline, instant)
        if metadata is not None and POINTER_KEY not in metadata.extra:
            return True
    for instant in state.timeline.pending:
        lease = read_lease(session.ctx.storage, instant.time)
        if instant.time not in planned and (lease is None or lease.owner is None):
            return True
    return False

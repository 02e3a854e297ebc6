"""Complete an empty write before any other, so that a completed one precedes every pending one on the timeline.

Readers that list take files older than the timeline's start for rows (docs/format.md §9.1).
"""

from __future__ import annotations

from hudi_ops.commit.complete import complete_write
from hudi_ops.commit.session import Session
from hudi_ops.commit.undo.rollback import rollback_attempt
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, Cancelled, Conflict, Unsupported
from hudi_ops.timeline.state import TableState


def ensure_first_commit(session: Session) -> None:
    """Complete an empty write when the timeline holds no completed one.

    Raises:
        Busy: another program began the table's first write, or the lock was not to be had.
        Conflict: somebody undid the empty write, or changed the settings meanwhile.
        Cancelled: somebody cancelled it.
        Unsupported: the metadata table has a partition that we do not keep.
    """
    state = session.loader.load()
    if state.timeline.completed_writes:
        return
    _refuse_foreign_writes(session, state)
    attempt = begin(session.ctx, session.loader, state.config.completed_write_action)
    try:
        _refuse_foreign_writes(session, session.loader.load(), attempt.instant)
        with session.keep(attempt.instant):
            complete_write(session, attempt, Write(operation="UPSERT", stats=()))
        session.release(attempt.instant)
    except (Unsupported, Busy, Conflict, Cancelled) as error:
        rollback_attempt(session, attempt.instant, error)
        raise


def _refuse_foreign_writes(session: Session, state: TableState, instant: str = "") -> None:
    """Of pending writes below the timeline's start all files count as rows (docs/format.md §9.1); our empty ones have none.

    Args:
        session: the table's.
        state: read after `instant` was on the timeline.
        instant: what would become the timeline's start; empty when it is not chosen yet.

    Raises:
        Busy: another program has a write pending there, and nothing has completed.
    """
    if state.timeline.completed_writes:
        return
    for one in state.timeline.pending:
        if not one.is_write or (instant and one.time >= instant):
            continue
        lease = read_lease(session.ctx.storage, one.time)
        if lease is None or lease.owner is None:
            raise Busy(
                "another program began the table's first write",
                table=state.config.name,
                instant=one.time,
                expected="a completed write, or none at all",
                found=str(one),
                next_step="wait until it has completed; if its writer is dead, let Apache Hudi roll it back",
            )

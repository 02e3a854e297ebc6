"""First commit of a table: an empty write, so that a completed write precedes pending ones.

Listing readers take files older than the timeline's start for rows (docs/format §9.1).
"""

from __future__ import annotations

from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.recover.rollback import rollback_attempt
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.foreign.foreign_instants import may_be_foreign
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, Cancelled, Conflict, Unsupported
from hudi_ops.timeline.state import TableState


def ensure_first_commit(session: Session) -> None:
    """Complete an empty write when the timeline holds no completed one.

    Raises:
        Busy: a foreign writer began the table's first write, or the lock was not free in time.
        Conflict: another process rolled the empty write back, or changed the settings.
        Cancelled: another process cancelled it.
        Unsupported: the metadata table has a partition that hudi_ops does not keep.
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
    """Refuse foreign writes below the timeline's start.

    All their files count as rows (docs/format §9.1). Pending empty writes of hudi_ops have no files. `instant` is the future
    start, and `state` is read after it was put on the timeline; empty: not chosen yet.

    Raises:
        Busy: a foreign write is pending there, and none has completed.
    """
    if state.timeline.completed_writes:
        return
    for pending in state.timeline.pending:
        if not pending.is_write or (instant and pending.time >= instant):
            continue
        lease = read_lease(session.ctx.storage, pending.time)
        if may_be_foreign(lease):
            raise Busy(
                "a foreign writer began the table's first write",
                table=state.config.name,
                instant=pending.time,
                expected="a completed write, or none at all",
                found=str(pending),
                next_step="wait until it has completed; if its writer is dead, let Apache Hudi roll it back",
            )

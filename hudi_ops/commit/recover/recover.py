"""Recovery before each write: finish decided instants, remove leftovers of dead attempts.

Only attempts with a dead lease are removed: their process has ended, or their last heartbeat is too old. Live attempts are kept,
and so are attempts without a lease, unless a slot cancels them.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.apply.invalidate import clear_voided
from hudi_ops.commit.apply.put_back import decided_before, may_be_lost
from hudi_ops.commit.decide.archive_boundary import clear_archived
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.withdraw import lock_and_put_back
from hudi_ops.commit.owned.find import needs_listing
from hudi_ops.commit.recover.index_builds import drop_ended_checkpoints, list_built_indexes
from hudi_ops.commit.recover.rollback import RolledBackWrite, mend_plan, roll_back
from hudi_ops.commit.recover.sweep import remove_zombie_files, sweep
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_instants import is_dead, may_be_foreign
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.lease import Lease, list_leases, read_lease, warn_other_lock
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.concurrency.transaction import unfinished
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.content.rollbacks import targets_of
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import SERVICE_ACTIONS, WRITE_ACTIONS, State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

RECOVER_EVERY_S = 10.0
"""Interval of recoveries, in seconds, in a session that writes repeatedly without a failure."""


def is_due(session: Session) -> bool:
    """Return whether a write has to recover the table first, because of time or a failed write.

    A due recovery also reads the table's state again: after a pause its settings may have changed, or the table may be gone.
    """
    return (
        not session.memory.is_clean or session.ctx.clock.monotonic_s() - session.memory.recovered_s >= RECOVER_EVERY_S
    )


def ready(session: Session, state: TableState | None = None) -> TableState | None:
    """Recover the table before a write, unless this session did so and has not failed since.

    Returns the state to start from: the given `state`, which was just read, if no recovery is due; None if it must be read again.
    """
    now_s = session.ctx.clock.monotonic_s()
    is_skipped = state is not None and not is_due(session) and unfinished(state) is None
    session.memory.is_clean = False  # until this write has succeeded
    if is_skipped:
        return state
    undone, state = _recover(session, state, is_ingestion=True)
    session.memory.is_clean = False  # again: the sweep, which releases other writes, may have set it
    session.memory.recovered_s = now_s
    return None if undone else state


def recover(session: Session, *, is_ingestion: bool = False) -> list[RolledBackWrite]:
    """Finish decided instants and roll back dead writes; return those rolled back.

    Before an ingestion at most one cancelled plan is removed, and none for which the table must be listed: rows must not wait for
    the leftovers of a service.
    """
    return _recover(session, None, is_ingestion=is_ingestion)[0]


def _recover(
    session: Session, state: TableState | None, *, is_ingestion: bool
) -> tuple[list[RolledBackWrite], TableState]:
    # Read leases before the state: if the later state lacks the instant of a dead lease, the attempt never put it there.
    dead = _dead_leases(session)
    if state is None or dead or unfinished(state) is not None:
        state = finish_unfinished(session)
    if [*clear_archived(session, state), *clear_voided(session.ctx, state)]:
        state = session.loader.load()
    undone = _finish_rollbacks(session, state)
    if undone or (state.config.metadata_partitions_inflight and list_built_indexes(session)):
        state = session.loader.load()
    drop_ended_checkpoints(session, state)
    if has_foreign_writers(session.ctx.storage, session.commits, state) and lock_and_put_back(session, state):
        state = session.loader.load()
    has_put_back = has_removed = False
    for instant in state.timeline.pending:
        if instant.action not in WRITE_ACTIONS | SERVICE_ACTIONS:
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        is_left = lease is None or lease.is_dead(session.ctx.clock)
        if is_left and may_be_lost(instant) and _put_back(session, state, instant):
            has_put_back = True
        elif instant.action in SERVICE_ACTIONS:
            if is_left and not (is_ingestion and has_removed) and session.was_cancelled(state, instant.time):
                done = _remove_plan(session, instant, lease, may_list=not is_ingestion)
                has_removed = has_removed or done is not None
                undone += [done] if done is not None else []
        elif lease is None:
            _clear_if_cancelled(session, state, instant.time)
        elif is_left and (done := rollback_dead_write(session, instant)) is not None:
            undone.append(done)
    if undone or has_put_back:
        state = session.loader.load()
    sweep(session, state, dead)
    return undone, state


def rollback_dead_write(session: Session, instant: Instant) -> RolledBackWrite | None:
    """Cancel and roll back a write whose writer is still dead under the lock, else return None."""
    lease = read_lease(session.ctx.storage, instant.time)
    whose = "Apache Hudi, whose heartbeat stopped" if lease is None or may_be_foreign(lease) else str(lease.owner)
    if not cancel_write(
        session, instant.time, f"its writer is gone: {whose}", lambda: is_dead(session.ctx, instant.time)
    ):
        return None
    return roll_back(session, instant)


def finish_unfinished(session: Session) -> TableState:
    """Apply decided completions that are not on the timeline yet; return the state after it."""
    state = session.loader.load()
    if unfinished(state) is None:
        return state
    with hold_lock(session.ctx, "finish decided instants"):
        return session.finish_decided()


def _put_back(session: Session, state: TableState, instant: Instant) -> bool:
    """Put back the deleted completed file of an instant, or raise `Corrupt`."""
    decided = decided_before(session.ctx.storage, state.log, instant.time)
    if decided is None or undone_by(session.ctx.storage, state.config, state.timeline, instant.time):
        return False  # the rollback or restore removes it
    with hold_lock(session.ctx, f"put back the completed file of {instant.time}"):
        now = session.finish_decided()
        still = now.timeline.find(instant.time, instant.action)
        return still is None or still.is_completed or session.applier.put_back(now, *decided)


def _remove_plan(session: Session, plan: Instant, lease: Lease | None, *, may_list: bool) -> RolledBackWrite | None:
    """Remove a cancelled plan without a live executor.

    `may_list` False: not if the table must be listed for its files.
    """
    if not may_list and needs_listing(session, plan.time, foreign=may_be_foreign(lease, plan)):
        logger.info("the cancelled %s is left to the next clean: the table must be listed for its files", plan)
        return None
    return roll_back(session, plan)


def _clear_if_cancelled(session: Session, state: TableState, instant: str) -> None:
    # A process that resumes after its rollback may leave an inflight file without its requested file, which makes the table
    # unreadable for Apache Hudi (docs/format §2.3). Pending writes without a lease and without a CANCEL are foreign, and stay.
    if session.was_cancelled(state, instant):
        remove_zombie_files(session, state, instant)


def _finish_rollbacks(session: Session, state: TableState) -> list[RolledBackWrite]:
    """Resume rollbacks whose executor died; their target may be off the timeline already."""
    undone = []
    for instant in state.timeline.pending:
        if instant.action != "rollback":
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        if lease is None or may_be_foreign(lease):
            mend_plan(session, state, instant)  # a foreign rollback, which Apache Hudi's writers execute
            continue
        if not lease.is_dead(session.ctx.clock):
            continue
        for target in targets_of(session.ctx.storage, state.timeline, instant):
            found = state.timeline.find(target) or Instant(target, _action_of(session, state, instant), State.INFLIGHT)
            # The target was cancelled before its rollback began; after a crash in between there is only the CANCEL.
            if not found.is_completed and (done := roll_back(session, found)) is not None:
                undone.append(done)
    return undone


def _action_of(session: Session, state: TableState, rollback: Instant) -> str:
    """Return the action of a rollback's target, from its plan, once the target is gone."""
    plan = read_plan(session.ctx.storage, state.timeline, rollback)
    return plan.target_action if isinstance(plan, RollbackPlan) else state.config.completed_write_action


def _dead_leases(session: Session) -> dict[str, bool]:
    """Return the instants with a dead lease, and whether the lease is foreign."""
    dead = {}
    for time in list_leases(session.ctx.storage):
        lease = read_lease(session.ctx.storage, time)
        if lease is not None and lease.is_dead(session.ctx.clock):
            dead[time] = may_be_foreign(lease)
        elif lease is not None:
            warn_other_lock(session.ctx, lease)
    return dead

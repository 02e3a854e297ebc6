"""Finish abandoned rollbacks of Apache Hudi, on the request of a user.

The user knows that the processes of the rollback have ended. Normally the next foreign writer executes such a rollback. Under the
EAGER policy it refuses if any write with a later instant has completed: then each of its writes fails, and removing only the target
or only the rollback does not help.

Source: docs/protocol §8, §10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.recover.rollback import RolledBackWrite, roll_back
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_instants import is_dead, may_be_foreign
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, Conflict, Corrupt, InvalidRequest, Unsupported
from hudi_ops.timeline.content.archived import is_archived_write
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class AbandonedRollback:
    """A pending foreign rollback without a live heartbeat, and its target.

    The target may be off the timeline, or completed and archived: archiving does not wait for such a rollback.
    """

    rollback: Instant
    plan: RollbackPlan
    target: Instant


def abandoned_rollbacks(session: Session, state: TableState, target: str = "") -> Iterator[AbandonedRollback]:
    """Yield abandoned rollbacks, oldest first, of one or all targets; skip unreadable plans."""
    for instant in state.timeline.pending:
        if instant.kind != "rollback" or instant.time < target:
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        if lease is not None and not (may_be_foreign(lease) and lease.is_dead(session.ctx.clock)):
            continue
        try:
            plan = read_plan(session.ctx.storage, state.timeline, instant)
        except Corrupt:
            continue
        if isinstance(plan, RollbackPlan) and target in {"", plan.target}:
            found = state.timeline.find(plan.target)
            is_archived = found is None and is_archived_write(session.ctx.storage, state.config, plan.target)
            last = State.COMPLETED if is_archived else State.INFLIGHT
            undone = found or Instant(plan.target, plan.target_action, last)
            yield AbandonedRollback(instant, plan, undone)


def finish_abandoned(session: Session, state: TableState, abandoned: AbandonedRollback) -> RolledBackWrite:
    """Finish an abandoned rollback in the order that lets foreign writers continue.

    The leftovers of the write are removed first (data files, metadata delta, inflight and requested file); the rollback's completed
    file is put last. The caller knows that the processes of both have ended.

    Raises:
        InvalidRequest: its target is completed.
        Unsupported: its target is a service's action, or it belongs to a restore.
        Busy: another process works on one of the two.
        Conflict: the write completed, or its writer resumed.
    """
    target = abandoned.target
    refuse_other_kinds(state, abandoned)
    lease = read_lease(session.ctx.storage, target.time)
    if lease is not None and not is_dead(session.ctx, target.time):
        raise Busy(
            "the writer of this rollback's target is alive",
            table=state.config.name,
            instant=target.time,
            next_step="stop that process, or wait until its heartbeat is dead",
        )

    def still() -> bool:
        # The write may have completed and been archived since `state`, so the history is read under the lock, only here.
        is_still_dead = is_dead(session.ctx, target.time, had_lease=lease is not None)
        return is_still_dead and not is_archived_write(session.ctx.storage, state.config, target.time)

    if not cancel_write(session, target.time, "asked for by hand", still):
        raise Conflict(
            "the write completed, or its writer came back, since the rollback was found",
            table=state.config.name,
            instant=target.time,
            next_step="see `hudi-ops timeline`",
        )
    undone = roll_back(session, target, abandoned.rollback, abandoned=True)
    if undone is None:
        raise Busy(
            f"another process finished, or works on, rollback {abandoned.rollback.time}",
            table=state.config.name,
            instant=target.time,
            next_step="see `hudi-ops timeline` and `hudi-ops verify`",
        )
    return undone


def refuse_other_kinds(state: TableState, abandoned: AbandonedRollback) -> None:
    """Refuse rollbacks that hudi_ops does not finish.

    Raises:
        InvalidRequest: of a completed write, archived or not.
        Unsupported: of a service's action, or within a restore.
    """
    rollback, plan, target = abandoned.rollback, abandoned.plan, abandoned.target
    if target.is_completed:
        raise InvalidRequest(
            f"rollback {rollback.time} would undo a completed {target.kind}: its rows are in the table",
            table=state.config.name,
            instant=target.time,
            expected="a pending write",
            found=str(target),
            next_step="if it is not to be undone, delete the rollback's inflight, then its requested file",
        )
    restore = next((instant for instant in state.timeline.pending if instant.kind == "restore"), None)
    if plan.target_action not in WRITE_ACTIONS or restore is not None:
        raise Unsupported(
            f"rollback {rollback.time} is part of restore {restore.time}"
            if restore is not None
            else f"rollback {rollback.time} undoes a {plan.target_action}, whose plan may have to stay",
            table=state.config.name,
            instant=target.time,
            expected="the rollback of a write",
            next_step="let Apache Hudi finish it",
        )

"""Rollbacks that Apache Hudi began and left: finished here once somebody says that its program has ended.

Its next writer executes such a rollback by itself, as a rule. Under the EAGER policy it refuses to, once anything has completed
above the instant that is undone: then each of its writes fails, and removing the instant alone, or the rollback alone, does not
help.

Source: docs/protocol.md §8, §10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hudi_ops.commit.recover.dead_writers import is_dead, is_foreign
from hudi_ops.commit.session import Session
from hudi_ops.commit.undo.cancel import cancel_write
from hudi_ops.commit.undo.rollback import RolledBackWrite, roll_back
from hudi_ops.concurrency.lease.lease import Lease, read_lease
from hudi_ops.errors import Busy, Conflict, Corrupt, InvalidRequest, Unsupported
from hudi_ops.timeline.content.archived import is_archived_write
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class AbandonedRollback:
    """A pending rollback of Apache Hudi's without a live heartbeat; the write that it undoes may be off the timeline already.

    It may have completed and been archived, as archiving does not wait for such a rollback.
    """

    rollback: Instant
    plan: RollbackPlan
    target: Instant


def abandoned_rollbacks(session: Session, state: TableState, target: str = "") -> Iterator[AbandonedRollback]:
    """Those on the timeline, oldest first, or those of one write alone. Plans that cannot be read are passed over."""
    for instant in state.timeline.pending:
        if instant.kind != "rollback" or instant.time < target:
            continue
        lease = read_lease(session.ctx.storage, instant.time)
        if lease is not None and not (is_foreign(lease) and lease.is_dead(session.ctx.clock)):
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


def finish_abandoned(session: Session, state: TableState, left: AbandonedRollback) -> RolledBackWrite:
    """Finish one, in the order that lets Apache Hudi's writers go on.

    What the write left goes first: data files, its part of the metadata table, inflight and requested file. The rollback's
    completed file comes last.

    Args:
        session: the table's.
        state: as read.
        left: the rollback. Whoever calls knows that the programs of both have ended.

    Raises:
        InvalidRequest: what it undoes is completed.
        Unsupported: it undoes a service's action, or belongs to a restore.
        Busy: somebody is at work on one of the two.
        Conflict: the write completed, or its writer came back, meanwhile.
    """
    target = left.target
    refuse_other_kinds(state, left)
    lease = read_lease(session.ctx.storage, target.time)
    if lease is not None and not is_dead(session, target.time):
        raise Busy(
            "the writer whose work this rollback undoes is alive",
            table=state.config.name,
            instant=target.time,
            next_step="stop that process, or wait until its heartbeat is dead",
        )
    silent = still_silent(session, target.time, lease)

    def still() -> bool:
        # Completed and archived since the state was read: this history is read under the lock, in this case alone.
        return silent() and not is_archived_write(session.ctx.storage, state.config, target.time)

    if not cancel_write(session, target.time, "asked for by hand", still):
        raise Conflict(
            "the write completed, or its writer came back, meanwhile",
            table=state.config.name,
            instant=target.time,
            next_step="see `hudi-ops timeline`",
        )
    undone = roll_back(session, target, left.rollback, abandoned=True)
    if undone is None:
        raise Busy(
            f"somebody else finished, or is at work on, rollback {left.rollback.time}",
            table=state.config.name,
            instant=target.time,
            next_step="see `hudi-ops timeline` and `hudi-ops verify`",
        )
    return undone


def still_silent(session: Session, instant: str, lease: Lease | None) -> Callable[[], bool]:
    """What is asked under the lock before a write is cancelled: whether its writer is as dead, or as silent, as it was."""
    if lease is not None:
        return lambda: is_dead(session, instant)
    return lambda: read_lease(session.ctx.storage, instant) is None


def refuse_other_kinds(state: TableState, left: AbandonedRollback) -> None:
    """Refuse rollbacks of what is not to be undone here.

    Raises:
        InvalidRequest: of a completed write, archived or not.
        Unsupported: of a service's action, or within a restore.
    """
    if left.target.is_completed:
        raise InvalidRequest(
            f"rollback {left.rollback.time} would undo a completed {left.target.kind}: its rows are the table's",
            table=state.config.name,
            instant=left.target.time,
            expected="a pending write",
            found=str(left.target),
            next_step="if it is not to be undone, delete the rollback's inflight, then its requested file",
        )
    restore = next((one for one in state.timeline.pending if one.kind == "restore"), None)
    if left.plan.target_action not in WRITE_ACTIONS or restore is not None:
        raise Unsupported(
            f"rollback {left.rollback.time} is part of restore {restore.time}"
            if restore is not None
            else f"rollback {left.rollback.time} undoes a {left.plan.target_action}, whose plan may have to stay",
            table=state.config.name,
            instant=left.target.time,
            expected="the rollback of a write",
            next_step="let Apache Hudi finish it",
        )

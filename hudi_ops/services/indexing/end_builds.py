"""End pending index builds before their partitions are dropped or built again."""

from __future__ import annotations

import logging
from collections.abc import Collection

from hudi_ops.commit.decide.cancel import CancelReason, cancel_write
from hudi_ops.commit.recover.rollback import roll_back
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy
from hudi_ops.services.indexing.choose import pending_builds
from hudi_ops.timeline.log.plan_slots import plan_entry

logger = logging.getLogger(__name__)

WAIT_S = 30.0
"""Time that a living executor has to stop."""
_STEP_S = 0.5


def end_builds(session: Session, names: Collection[str] | None, why: str, *, only: str = "") -> tuple[str, ...]:
    """Cancel and remove the pending builds of some partitions, or of any; return their instants.

    `only` is the one instant that is meant; empty: any.

    Builds of Apache Hudi stay: it does not look at cancels.

    Raises:
        Busy: an executor did not stop in time, or another process removes the build.
    """
    ended: list[str] = []
    state = session.loader.load()
    for plan, partitions in list(pending_builds(session, state)):
        if (only and plan.time != only) or (names is not None and not {*names} & {*partitions}):
            continue
        if plan_entry(session.ctx.storage, state, plan.time) is None:
            continue
        reason = CancelReason(why, cause="request", requester=str(session.ctx.owner))
        if not cancel_write(session, plan.time, reason):
            continue  # it has completed
        _await_end(session, plan.time, state.config.name)
        found = session.loader.load().timeline.find(plan.time)
        if found is not None and roll_back(session, found) is None:
            raise Busy(
                "another process removes an index build",
                table=state.config.name,
                instant=plan.time,
                next_step="run the same call again",
            )
        logger.warning("cancelled the index build %s of %s: %s", plan.time, ", ".join(partitions), why)
        ended.append(plan.time)
    return tuple(ended)


def _await_end(session: Session, plan: str, table: str) -> None:
    """Wait until the executor of a cancelled build has ended.

    Raises:
        Busy: it did not stop in time.
    """
    until_s = session.ctx.clock.monotonic_s() + WAIT_S
    while True:
        lease = read_lease(session.ctx.storage, plan)
        if lease is None or lease.owner == session.ctx.owner or lease.is_dead(session.ctx.clock):
            return
        if session.ctx.clock.monotonic_s() >= until_s:
            raise Busy(
                f"{lease.owner or 'a foreign program'} has not stopped building yet",
                table=table,
                instant=plan,
                expected="an executor that has ended",
                found="a live lease",
                next_step="it is cancelled, and stops at its next look; then run the same call again",
            )
        session.ctx.clock.sleep_s(_STEP_S)

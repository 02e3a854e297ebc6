"""Writers of Apache Hudi that have taken their instant and not read the table yet: nothing newer may complete before they have.

Such a writer takes its instant first, and notes only later, right before its inflight file, what had completed by then. Whatever
completes in between it builds upon, and never checks; and where that has a newer instant than its own, its base files lie *behind*
those that they were made from: the rows it commits are never seen. So ours lets it start first.

Source: docs/format.md §9.4.
"""

from __future__ import annotations

import logging

from hudi_ops.concurrency.early_conflicts import POLL_MAX_S, POLL_S, jittered
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

STARTS_WITHIN_S = EXPIRY_MS / 1000 + 10
"""After so long it has started, or counts as dead."""


def starting(ctx: TableContext, state: TableState, instant: str) -> Instant | None:
    """The oldest live writer without slots that took its instant before this one and has no inflight file yet; None: nobody.

    Asks nothing of the storage where nothing of that kind is pending. Ours need no waiting for: they note what had completed before
    they take an instant.
    """
    for one in state.timeline.pending:
        if one.time >= instant or one.action not in WRITE_ACTIONS or State.INFLIGHT in one.states:
            continue
        lease = read_lease(ctx.storage, one.time)
        if lease is not None and lease.owner is None and not lease.is_dead(ctx.clock):
            return one
    return None


def refuse_starting(ctx: TableContext, state: TableState, instant: str) -> None:
    """Refuse to complete an instant above that of a writer which is starting; asked under the lock, where it takes its own.

    Raises:
        Busy: names it; `is_starting` tells this refusal from others.
    """
    one = starting(ctx, state, instant)
    if one is not None:
        raise Busy(
            f"{one.action} {one.time} of Apache Hudi has begun, and has not read the table yet",
            table=state.config.name,
            instant=instant,
            expected="that it says what it is about to write, or that its heartbeat stops",
            found="its requested file alone",
            next_step="run the same call again once it has started",
            other=one.time,
            starting=True,
        )


def is_starting(error: Busy) -> bool:
    """Whether what was refused may be decided as soon as a writer of Apache Hudi has started."""
    return bool(error.details.get("starting"))


def await_started(ctx: TableContext, state: TableState, instant: str) -> None:
    """Wait outside the lock until nobody is starting, or for as long as a heartbeat lasts."""
    until_s = ctx.clock.monotonic_s() + STARTS_WITHIN_S
    poll_s = POLL_S
    while (one := starting(ctx, state, instant)) is not None and ctx.clock.monotonic_s() < until_s:
        if poll_s == POLL_S:
            logger.info("waiting for %s of Apache Hudi, which is starting", one)
        ctx.clock.sleep_s(jittered(ctx, poll_s))
        poll_s = min(poll_s * 1.5, POLL_MAX_S)
        state = TableState(state.config, state.log, load_timeline(ctx.storage, state.config))

"""Let foreign writers start first that have an instant but have not read the table yet.

Such a writer takes its instant first. It records the completed writes only later, right before its inflight file, and builds upon
those that completed in between without checking them. If one of these has a newer instant, the foreign writer's base files sort
*below* the files that they were made from, and readers never see its rows. So hudi_ops writers with newer instants wait.

Source: docs/format §9.4.
"""

from __future__ import annotations

import logging

from hudi_ops.concurrency.early_conflicts import POLL_MAX_S, POLL_S, jittered
from hudi_ops.concurrency.foreign.foreign_instants import may_be_foreign
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

STARTS_WITHIN_S = EXPIRY_MS / 1000 + 10
"""Time after which a starting foreign writer has started or counts as dead."""


def starting(ctx: TableContext, state: TableState, instant: str) -> Instant | None:
    """Return the oldest live foreign writer with an older instant and no inflight file, or None.

    No storage call without such a pending instant. hudi_ops writers record completions before they take an instant.
    """
    for pending in state.timeline.pending:
        if pending.time >= instant or pending.action not in WRITE_ACTIONS or State.INFLIGHT in pending.states:
            continue
        lease = read_lease(ctx.storage, pending.time)
        if lease is not None and may_be_foreign(lease) and not lease.is_dead(ctx.clock):
            return pending
    return None


def refuse_starting(ctx: TableContext, state: TableState, instant: str) -> None:
    """Refuse to complete an instant above that of a starting foreign writer, under the lock.

    Raises:
        Busy: names it; `is_starting` recognizes this error.
    """
    writer = starting(ctx, state, instant)
    if writer is not None:
        raise Busy(
            f"{writer.action} {writer.time} of Apache Hudi has begun, and has not read the table yet",
            table=state.config.name,
            instant=instant,
            expected="its inflight file, or the end of its heartbeat",
            found="its requested file alone",
            next_step="run the same call again once it has started",
            other=writer.time,
            starting=True,
        )


def is_starting(error: Busy) -> bool:
    """Return whether the decision can be repeated once a foreign writer has started."""
    return bool(error.details.get("starting"))


def await_started(ctx: TableContext, state: TableState, instant: str) -> None:
    """Wait, outside the lock, until no foreign writer is starting, or `STARTS_WITHIN_S`."""
    until_s = ctx.clock.monotonic_s() + STARTS_WITHIN_S
    poll_s = POLL_S
    while (writer := starting(ctx, state, instant)) is not None and ctx.clock.monotonic_s() < until_s:
        if poll_s == POLL_S:
            logger.info("waiting for %s of Apache Hudi, which is starting", writer)
        ctx.clock.sleep_s(jittered(ctx, poll_s))
        poll_s = min(poll_s * 1.5, POLL_MAX_S)
        state = TableState(state.config, state.log, load_timeline(ctx.storage, state.config))

"""Judge whose a pending instant is, and whether its process may be alive.

A lease tells it for hudi_ops, the change time of a heartbeat for Apache Hudi. A missing heartbeat alone is no proof: some foreign
writers make none.
"""

from __future__ import annotations

import logging

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, Lease, read_lease
from hudi_ops.concurrency.lease.own_clock import storage_ms
from hudi_ops.context import TableContext
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State

logger = logging.getLogger(__name__)


def may_be_foreign(lease: Lease | None, instant: Instant | None = None) -> bool:
    """Return whether an instant may be foreign: its heartbeat has no owner, or it has none.

    Apache Hudi writes empty heartbeat files. A plan that was never executed has neither heartbeat nor files: pass `instant`, and it
    counts as ours. The markers of a foreign write may be missing, so the table is listed for its files; and Hadoop may have put
    checksum files beside them.
    """
    if lease is not None:
        return lease.owner is None
    return instant is None or instant.action in WRITE_ACTIONS or State.INFLIGHT in instant.states


def has_foreign_executor(plan: Instant, lease: Lease | None) -> bool:
    """Return whether Apache Hudi has begun to execute a plan, and may still do so.

    Its executors leave no heartbeat, so a live one cannot be told from a dead one. Our executors hold a lease while their inflight
    file exists.
    """
    return lease is None and State.INFLIGHT in plan.states


def is_dead(ctx: TableContext, instant: str, *, had_lease: bool = True) -> bool:
    """Return whether the writer of a pending instant is dead now; False when unknown.

    Without `had_lease` a user states that a writer without a heartbeat has ended: it is dead as long as none has appeared.
    """
    lease = read_lease(ctx.storage, instant)
    if not had_lease:
        return lease is None
    if lease is None or not lease.is_dead(ctx.clock):
        return False
    return _is_expired(ctx, instant) if may_be_foreign(lease) else True


def _is_expired(ctx: TableContext, instant: str) -> bool:
    """Return whether a heartbeat has expired by the storage's clock, which set its time.

    By a local clock that is fast, every foreign writer would look dead, and a CANCEL slot does not stop a foreign writer.
    """
    now_ms = storage_ms(ctx.storage)
    lease = read_lease(ctx.storage, instant)
    silent_ms = now_ms - lease.beaten_ms if now_ms is not None and lease is not None else 0
    if silent_ms <= EXPIRY_MS:
        logger.warning("the heartbeat of %s is %d ms old by the storage's clock: left alone", instant, silent_ms)
    return silent_ms > EXPIRY_MS

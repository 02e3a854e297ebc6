"""Tests for dead writers: by lease for hudi_ops, by heartbeat change time for Apache Hudi.

A missing heartbeat alone is no proof: some foreign writers make none.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, Lease, read_lease
from hudi_ops.concurrency.lease.own_clock import storage_ms

logger = logging.getLogger(__name__)


def is_foreign(lease: Lease) -> bool:
    """Return whether a heartbeat has no owner: Apache Hudi writes empty files."""
    return lease.owner is None


def is_dead(session: Session, instant: str) -> bool:
    """Return whether the writer of a pending instant is dead now; False when unknown."""
    lease = read_lease(session.ctx.storage, instant)
    if lease is None or not lease.is_dead(session.ctx.clock):
        return False
    return is_silent(session, instant) if is_foreign(lease) else True


def is_silent(session: Session, instant: str) -> bool:
    """Return whether a heartbeat has expired by the storage's clock, which set its time.

    By a local clock that is fast, every foreign writer would look dead, and a CANCEL slot does not stop a foreign writer.
    """
    now_ms = storage_ms(session.ctx.storage)
    lease = read_lease(session.ctx.storage, instant)
    silent_ms = now_ms - lease.beaten_ms if now_ms is not None and lease is not None else 0
    if silent_ms <= EXPIRY_MS:
        logger.warning("the heartbeat of %s is %d ms old by the storage's clock: left alone", instant, silent_ms)
    return silent_ms > EXPIRY_MS

"""Tests for dead writers: by lease for hudi_ops, by heartbeat change time for Apache Hudi.

A missing heartbeat alone is no proof: some foreign writers make none.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, Lease, read_lease
from hudi_ops.storage.protocol import Storage

logger = logging.getLogger(__name__)

CLOCK_PROBE = ".hoodie/.hudi_ops_now"
"""File that is put so that its change time shows the storage's clock."""


def is_foreign(lease: Lease) -> bool:
    """Return whether a heartbeat has no owner: Apache Hudi writes empty files."""
    return lease.owner is None


def is_dead(session: Session, instant: str) -> bool:
    """Return whether the writer of a pending instant is dead now; False when unknown."""
    lease = read_lease(session.ctx.storage, instant)
    if lease is None or not lease.is_dead(session.ctx.clock):
        return False
    return is_silent(session, instant) if is_foreign(lease) else True


def storage_now_ms(storage: Storage) -> int:
    """Return the time by the storage's clock, in ms since 1970.

    It is 0 if another process deletes the probe meanwhile.
    """
    storage.put(CLOCK_PROBE, b"")
    info = storage.head(CLOCK_PROBE)
    storage.delete(CLOCK_PROBE)
    return info.modified_ms if info is not None else 0


def is_silent(session: Session, instant: str) -> bool:
    """Return whether a heartbeat has expired by the storage's clock, which set its time.

    By a local clock that is fast, every foreign writer would look dead, and a CANCEL slot does not stop a foreign writer.
    """
    now_ms = storage_now_ms(session.ctx.storage)
    lease = read_lease(session.ctx.storage, instant)
    silent_ms = now_ms - lease.beaten_ms if lease is not None else 0
    if silent_ms <= EXPIRY_MS:
        logger.warning("the heartbeat of %s is %d ms old by the storage's clock: left alone", instant, silent_ms)
    return silent_ms > EXPIRY_MS

"""Which pending writes are dead: ours by their lease, those of Apache Hudi by the change time of their heartbeat.

Absence alone never decides. A write without a heartbeat is left alone: its writer may be one that makes none.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, Lease, read_lease

logger = logging.getLogger(__name__)

CLOCK_PROBE = ".hoodie/.hudi_ops_now"
"""A file that is written to learn what time the storage has."""


def is_foreign(lease: Lease) -> bool:
    """Whether a heartbeat names nobody: Apache Hudi writes empty files."""
    return lease.owner is None


def is_dead(session: Session, instant: str) -> bool:
    """Whether the writer of a pending instant is dead as of now; False when nothing tells."""
    lease = read_lease(session.ctx.storage, instant)
    if lease is None or not lease.is_dead(session.ctx.clock):
        return False
    return is_silent(session, instant) if is_foreign(lease) else True


def is_silent(session: Session, instant: str) -> bool:
    """Whether a heartbeat is too old by the storage's own clock, which made its time.

    A machine whose clock is ahead would take every writer of Apache Hudi for dead, and those do not find out by a slot.
    """
    storage = session.ctx.storage
    storage.put(CLOCK_PROBE, b"")
    info = storage.head(CLOCK_PROBE)
    storage.delete(CLOCK_PROBE)
    lease = read_lease(storage, instant)
    silent_ms = info.modified_ms - lease.beaten_ms if info is not None and lease is not None else 0
    if silent_ms <= EXPIRY_MS:
        logger.warning("the heartbeat of %s is %d ms old by the storage's clock: left alone", instant, silent_ms)
    return silent_ms > EXPIRY_MS

"""Describe who uses a table: the holder of its lock, those who wait for it, and the leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hudi_ops.clock import Clock, SystemClock, iso_of_ms
from hudi_ops.concurrency.lease.lease import Lease, list_leases, read_lease
from hudi_ops.concurrency.lock.open_lock import IN_PROCESS, lock_of
from hudi_ops.config.tables_file import TableLocation
from hudi_ops.storage.protocol import Storage


def describe_lock(
    location: TableLocation, storage: Storage, clock: Clock | None = None, leases: Sequence[Lease] | None = None
) -> dict[str, Any]:
    """Return the lock of a table, the queue for it, and the leases.

    They are as `hudi-ops lock --json` prints them.

    Args:
        location: of the table.
        storage: of the table.
        clock: tells which leases are dead; None: this machine's.
        leases: of the table; None: they are read.

    Raises:
        InvalidRequest: the declared lock cannot be used.
        Unavailable: the lock service or storage did not answer.
    """
    address, line = lock_line(location)
    return {
        "table": location.name,
        "lock": address,
        "is_visible": line is not None,
        "line": line or [],
        "leases": describe_leases(read_leases(storage) if leases is None else leases, clock),
    }


def lock_line(location: TableLocation) -> tuple[str, list[dict[str, Any]] | None]:
    """Return the lock's address and its queue, the holder first; None if it cannot be seen."""
    if location.lock is None or location.lock == IN_PROCESS:
        return IN_PROCESS, None
    from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock

    opened = lock_of(location)
    assert isinstance(opened, ZooKeeperLock)  # noqa: S101 - the only other kind
    try:
        return opened.address, [asdict(one) | {"since": iso_of_ms(one.since_ms)} for one in opened.line()]
    finally:
        opened.close()


def read_leases(storage: Storage) -> list[Lease]:
    """Return the leases of a table's pending instants, by instant.

    Raises:
        Unavailable: storage did not answer.
    """
    found = (read_lease(storage, instant) for instant in sorted(list_leases(storage)))
    return [lease for lease in found if lease is not None]  # None: its owner dropped it after the listing


def describe_leases(leases: Sequence[Lease], clock: Clock | None = None) -> list[dict[str, Any]]:
    """Return leases as plain values."""
    clock, found = clock or SystemClock(), []
    for lease in leases:
        owner = lease.owner
        found.append({
            "instant": lease.instant,
            "role": lease.role or None,
            "owner": f"{owner.host.partition('#')[0]}:{owner.pid}" if owner is not None else "Apache Hudi",
            "run": (owner.run or None) if owner is not None else None,
            "beaten": iso_of_ms(lease.beaten_ms),
            "expires": iso_of_ms(lease.expires_ms),
            "is_live": not lease.is_dead(clock),
            "lock": lease.lock or None,
        })
    return found

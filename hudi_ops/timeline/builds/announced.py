"""Find the announcement of a partition of the metadata table in the commit log."""

from __future__ import annotations

from collections.abc import Iterable

from hudi_ops.config.table import METADATA_PARTITIONS_INFLIGHT
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, read_slot
from hudi_ops.timeline.log.entries import Properties


def announcement_of(storage: Storage, log: Log, name: str) -> Properties | None:
    """Return the entry that announced a partition, unless a later one listed or dropped it."""
    slot, entry = log.properties_slot, log.properties
    while True:
        if name in entry.announces:
            return entry
        if name in entry.adds or name in entry.drops or METADATA_PARTITIONS_INFLIGHT in entry.remove:
            return None
        below = entry.properties_slot
        if not 0 <= below < slot:
            return None
        found = read_slot(storage, below)
        if not isinstance(found, Properties):
            return None
        slot, entry = below, found


def announced_plan(storage: Storage, log: Log, names: Iterable[str]) -> Properties | None:
    """Return the entry that announced all of some partitions; None: they have no common one."""
    found = [announcement_of(storage, log, name) for name in names]
    first = found[0] if found else None
    return first if first is not None and all(one == first for one in found) else None

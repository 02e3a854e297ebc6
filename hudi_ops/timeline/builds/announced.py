"""Find the announcement of a partition of the metadata table in the commit log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from hudi_ops.config.table import METADATA_PARTITIONS_INFLIGHT
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, read_slot
from hudi_ops.timeline.log.entries import Properties


def newest_properties(storage: Storage, log: Log) -> Iterator[Properties]:
    """Yield the PROPERTIES entries of a log, the newest first; older ones are read one by one."""
    slot, entry = log.properties_slot, log.properties
    while True:
        yield entry
        below = entry.properties_slot
        found = read_slot(storage, below) if 0 <= below < slot else None
        if not isinstance(found, Properties):
            return
        slot, entry = below, found


def announcement_of(storage: Storage, log: Log, name: str, most: int | None = None) -> Properties | None:
    """Return the entry that announced a partition, unless a later one listed or dropped it.

    `most` limits the number of entries that are looked at; None: all.
    """
    for entry in islice(newest_properties(storage, log), most):
        if name in entry.announces:
            return entry
        if name in entry.adds or name in entry.drops or METADATA_PARTITIONS_INFLIGHT in entry.remove:
            return None
    return None


def built_indexes(storage: Storage, log: Log, names: Collection[str], most: int | None = None) -> dict[str, Properties]:
    """Return the indexes that this library built and did not drop, with the entry of each.

    `most` limits the number of entries; None: all that concern the indexes.
    """
    found, unknown = {}, set(names)
    for entry in islice(newest_properties(storage, log), most):
        for name in sorted(unknown & {*entry.adds, *entry.announces, *entry.drops}):
            unknown.discard(name)
            if name not in entry.drops:
                found[name] = entry
        # An entry that removes settings drops the whole metadata table.
        if not unknown or entry.remove:
            break
    return found


def announced_plan(storage: Storage, log: Log, names: Iterable[str]) -> Properties | None:
    """Return the entry that announced all of some partitions; None: no single entry did."""
    found = [announcement_of(storage, log, name) for name in names]
    first = found[0] if found else None
    return first if first is not None and all(one == first for one in found) else None

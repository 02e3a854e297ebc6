"""Search for the commit log's head without a pointer, and for older entries.

It probes slots and never lists.

Which slots below the head may still be unapplied? Every process finishes all decided entries before it claims a slot, and
again before it applies a decision of its own: it was the newest then. A VOID is claimed in the slot after the COMPLETE that
it names, and finishes nothing else. So only the newest entry that is not a VOID may be unapplied; an entry below it was
applied before the next one was claimed. The part that `newest_log` reads begins at or below it, and reaches down to the
newest COMPLETE that counts, so that the next completion time is above every one before it. Source: docs/protocol.md §1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hudi_ops.errors import Corrupt
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, Pointer, load_log, read_slot, refresh_log, slot_path
from hudi_ops.timeline.log.entries import Archive, Complete, Entry, Properties, Void


def open_log(storage: Storage, pointer: Pointer | None) -> Log | None:
    """Read the newest part of the log, if any, by a completed instant's pointer or by probing."""
    return newest_log(storage) if pointer is None else load_log(storage, pointer)


def newest_log(storage: Storage) -> Log | None:
    """Find and read the newest part of a log that begins at slot 0, or None."""
    first = read_slot(storage, 0)
    if not isinstance(first, Properties):
        return None
    head, newest = _head(storage, first)
    read = {head: newest}
    properties: tuple[int, Properties] | None = None
    archive: tuple[int, Archive] | None = None
    said: Entry | None = None
    voided: set[int] = set()
    has_complete, slot = False, head
    while True:
        entry = read[slot]
        if entry.table_id == first.table_id:
            if isinstance(entry, Properties):
                properties = properties or (slot, entry)
            elif isinstance(entry, Archive):
                archive = archive or (slot, entry)
            elif isinstance(entry, Void):
                voided.add(entry.slot)
            elif isinstance(entry, Complete):
                has_complete = has_complete or slot not in voided
            # Entries of older versions do not name the slots of the others: then the walk goes on.
            said = said or (entry if entry.properties_slot >= 0 else None)
        if slot == 0 or (said is not None and has_complete):
            break
        slot -= 1
        read[slot] = first if slot == 0 else _present(storage, slot)
    log = Log(
        table_id=first.table_id,
        base=slot,
        entries=tuple(read[number] for number in range(slot, head + 1)),
        properties_slot=0,
        properties=first,
    )
    log = _with_properties(storage, log, properties, said)
    return refresh_log(storage, _with_archive(storage, log, archive, said))


def older_entries(storage: Storage, log: Log) -> Iterator[tuple[int, Entry]]:
    """Yield (slot, entry) of this table below the loaded part, newest first; one get each."""
    for slot in range(log.base - 1, -1, -1):
        entry = _present(storage, slot)
        if entry.table_id == log.table_id:
            yield slot, entry


def reaching_back(storage: Storage, log: Log, instant: str) -> Log:
    """Return the log extended down to the first slot that may name `instant`.

    A process that completes an instant takes a time above every instant that it knows, and it knows those that slots name. So below
    a completion time that is not above `instant` no slot names it.
    """
    entries: list[Entry] = []
    base = log.base
    for slot in range(log.base - 1, -1, -1):
        entry = _present(storage, slot)
        entries.append(entry)
        base = slot
        if isinstance(entry, Complete) and entry.table_id == log.table_id and entry.completion_time < instant:
            break
    return replace(log, base=base, entries=(*reversed(entries), *log.entries)) if entries else log


def _head(storage: Storage, first: Properties) -> tuple[int, Entry]:
    """Return number and entry of a slot that is the head, or was when it was read.

    It doubles the slot number, then bisects. Slots with another table's id count as free: their writer slept while the table
    was made again, and may have left them above a gap. `refresh_log` walks over those right above the head.
    """
    low, entry, high = 0, first, 1

    def probe(slot: int) -> Entry | None:
        found = read_slot(storage, slot)
        return found if found is not None and found.table_id == first.table_id else None

    newest: Entry = entry
    while (found := probe(high)) is not None:
        low, newest, high = high, found, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        found = probe(middle)
        if found is None:
            high = middle
        else:
            low, newest = middle, found
    return low, newest


def _with_properties(storage: Storage, log: Log, seen: tuple[int, Properties] | None, said: Entry | None) -> Log:
    if seen is not None:
        return replace(log, properties_slot=seen[0], properties=seen[1])
    slot = said.properties_slot if said is not None else 0
    entry = read_slot(storage, slot) if slot > 0 else log.properties
    if not isinstance(entry, Properties):
        raise _broken(slot, "PROPERTIES", entry)
    return replace(log, properties_slot=slot, properties=entry)


def _with_archive(storage: Storage, log: Log, seen: tuple[int, Archive] | None, said: Entry | None) -> Log:
    if seen is None and said is not None and said.archive_slot >= 0:
        entry = read_slot(storage, said.archive_slot)
        if not isinstance(entry, Archive):
            raise _broken(said.archive_slot, "ARCHIVE", entry)
        seen = said.archive_slot, entry
    return replace(log, archive_slot=seen[0], boundary=seen[1].boundary) if seen is not None else log


def _present(storage: Storage, slot: int) -> Entry:
    entry = read_slot(storage, slot)
    if entry is None:
        raise _broken(slot, "an entry", None)
    return entry


def _broken(slot: int, expected: str, found: Entry | None) -> Corrupt:
    return Corrupt(
        f"{slot_path(slot)} of the commit log contradicts newer slots",
        expected=expected,
        found=found.kind if found is not None else "no such file",
        next_step="restore it from a copy of the table before any writer runs",
    )

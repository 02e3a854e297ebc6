"""Find the commit log's head without a pointer, and read older entries.

This probes slots and never lists.

Only the newest entry that is not a VOID may be unapplied: every process applies all decided entries before it claims a slot. A VOID
is the exception: it is claimed in the slot after the COMPLETE that it names, and nothing else is applied first. The part that
`newest_log` reads begins at or below that newest entry, and reaches down to the newest COMPLETE that counts, so that the next
completion time is above all earlier ones. Source: docs/protocol.md §1.
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
            # Entries of older releases do not name the PROPERTIES and ARCHIVE slots: then read on downwards.
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

    A process takes a completion time above every instant that it knows, including those that slots name. So no slot below a
    COMPLETE names `instant` if that COMPLETE's completion time is not above `instant`.
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

    It doubles the slot number, then bisects. Slots with another table's id count as free: their writer slept while the table was
    created again, and may have left them above a gap. `refresh_log` skips those right above the head.
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

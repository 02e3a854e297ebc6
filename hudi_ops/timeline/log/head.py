"""Find the commit log's head without a pointer, and read older entries.

This probes slots and never lists.

Only the newest entry that is not a VOID may be unapplied: every process applies all decided entries before it claims a slot. A VOID
is the exception: it is claimed in the slot after the COMPLETE that it names, and nothing else is applied first. The part that
`newest_log` reads begins at or below that newest entry, and reaches down to the newest COMPLETE that counts, so that the next
completion time is above all earlier ones. Source: docs/protocol §1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from hudi_ops.errors import Corrupt
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, Pointer, load_log, read_slot, refresh_log, slot_path
from hudi_ops.timeline.log.entries import Archive, Complete, Entry, Properties, Void

_Named = TypeVar("_Named", Properties, Archive)


def open_log(storage: Storage, pointer: Pointer | None) -> Log | None:
    """Read the newest part of the log, if any, by a completed instant's pointer or by probing."""
    return newest_log(storage) if pointer is None else load_log(storage, pointer)


def newest_log(storage: Storage) -> Log | None:
    """Find and read the newest part of a log that begins at slot 0, or None."""
    first = read_slot(storage, 0)
    if not isinstance(first, Properties):
        return None
    head, newest = _head(storage, first)
    entries: list[Entry] = [newest]
    voided: set[int] = set()
    while (slot := head + 1 - len(entries)) > 0:
        entry = entries[-1]
        if entry.table_id == first.table_id:
            if isinstance(entry, Complete) and slot not in voided:
                break
            if isinstance(entry, Void):
                voided.add(entry.slot)
        entries.append(first if slot == 1 else _present(storage, slot - 1))
    log = Log(first.table_id, slot, tuple(reversed(entries)), properties_slot=0, properties=first)
    at = head if isinstance(newest, Properties) else newest.properties_slot
    if at > 0:
        log = replace(log, properties_slot=at, properties=_named(storage, log, at, Properties))
    at = head if isinstance(newest, Archive) else newest.archive_slot
    if at > 0:
        log = replace(log, archive_slot=at, boundary=_named(storage, log, at, Archive).boundary)
    return refresh_log(storage, log)


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


def _named(storage: Storage, log: Log, slot: int, kind: type[_Named]) -> _Named:
    entry = log.at(slot) or read_slot(storage, slot)
    if not isinstance(entry, kind):
        raise _broken(slot, kind.__name__.upper(), entry)
    return entry


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

"""Commit log: numbered slots, each created once, never changed, never deleted.

A slot decides. A committer validates against everything up to the head, then claims the next slot; a committer with an outdated
view finds that slot taken. This holds even if the lock fails (docs/protocol §1). Slots are found by probing, never by listing.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import itemgetter

from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.formats.json_text import load_json
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.entries import (
    Archive,
    Cancel,
    Complete,
    Entry,
    Plan,
    Properties,
    Restore,
    Savepoint,
    Takeover,
    Void,
    cancel_of,
    decode_entry,
)
from hudi_ops.timeline.names import completes_as, newest_of

FOLDER = ".hoodie/.commit_log"
SAVEPOINT_SUFFIX = ".savepoint"
"""Suffix of the folder of a savepoint's payloads, so that it differs from the folder of its write's payloads."""
_SLOT_MAX = 10**12 - 1
_slot_of = itemgetter(0)
POINTER_KEY = "hudi_ops.commit_log"
"""Key of a completed commit's extra metadata that holds its `Pointer`."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Position of a completed instant in the log.

    It holds its own slot, and the slots of the last PROPERTIES and ARCHIVE before it. `archive_slot` is -1 if nothing was archived.
    `stranger` is the completion time of the newest earlier write of a foreign writer, "" if its decider knew of none. `may_double`
    is False if each record key is in only one file group of a table that uses its record index (`timeline.log.unique_keys`); None:
    the table uses another index. `shared` is False if no foreign writer has ever written the table, and stays True once one has.
    """

    table_id: str
    slot: int
    properties_slot: int
    archive_slot: int
    stranger: str
    may_double: bool | None
    shared: bool

    def encode(self) -> str:
        """Encode as the value of `POINTER_KEY`."""
        return json.dumps({
            "table_id": self.table_id,
            "slot": self.slot,
            "properties_slot": self.properties_slot,
            "archive_slot": self.archive_slot,
            "stranger": self.stranger,
            "may_double": self.may_double,
            "shared": self.shared,
        })

    @classmethod
    def decode(cls, extra: Mapping[str, str], path: str = "") -> Pointer | None:
        """Return the pointer in a commit's extra metadata, or None for a foreign writer's commit.

        Fields of a later release are ignored.

        Raises:
            Corrupt: the commit has another value there.
        """
        text = extra.get(POINTER_KEY)
        if not text:
            return None
        where, expected = f"{POINTER_KEY} in {path or 'the metadata of a commit'}", "a pointer into the commit log"
        said = load_json(text, where, expected) if isinstance(text, str) else None
        known = {known_field.name for known_field in fields(cls)}
        try:
            found = cls(**{name: value for name, value in said.items() if name in known})
        except (AttributeError, TypeError):
            found = None
        if found is None or not found.is_sound:
            next_step = "run `hudi-ops verify`; restore the file from a copy of the table"
            raise Corrupt(f"{where} is damaged", expected=expected, found=repr(text)[:80], next_step=next_step)
        return found

    @property
    def is_sound(self) -> bool:
        """Whether each field is of its type."""
        slots = (self.slot, self.properties_slot, self.archive_slot)
        return (
            all(type(slot) is int and -1 <= slot <= _SLOT_MAX for slot in slots)
            and all(isinstance(text, str) for text in (self.table_id, self.stranger))
            and isinstance(self.may_double, bool | None)
            and isinstance(self.shared, bool)
        )


def slot_path(slot: int) -> str:
    """Return the path of a slot.

    >>> slot_path(20007)
    '.hoodie/.commit_log/00000002/000000020007.json'
    """
    return f"{FOLDER}/{slot // 10_000:08d}/{slot:012d}.json"


def payload_folder(instant: str) -> str:
    """Return the folder of an instant's payloads, also those of lost tries to decide it."""
    return f"{FOLDER}/payload/{instant}"


def put_payload(storage: Storage, instant: str, slot: int, body: bytes) -> str:
    """Put the bytes that a COMPLETE in `slot` will point to, and return their path.

    The name holds a digest of the bytes: of two processes that finish one rollback, the loser must not overwrite the winner's.
    """
    path = f"{payload_folder(instant)}/{slot}-{hashlib.sha256(body).hexdigest()[:16]}"
    storage.put(path, body)
    return path


@dataclass(frozen=True)
class Log:
    """Entries from `base` to the head, oldest first, with the properties of the table.

    Entries with another table's id (of a writer that slept while the folder was re-created) keep their slot and are ignored.
    """

    table_id: str
    base: int
    entries: tuple[Entry, ...]
    properties_slot: int
    properties: Properties
    archive_slot: int = -1
    boundary: str = ""

    @property
    def head(self) -> int:
        """Number of the newest slot."""
        return self.base + len(self.entries) - 1

    def newest(self, count: int) -> Log:
        """Return the log's newest `count` entries, and more until a COMPLETE is among them."""
        cut = len(self.entries) - count
        while cut > 0 and not any(isinstance(entry, Complete) for entry in self.entries[cut:]):
            cut -= count
        if cut <= 0:
            return self
        shorter = replace(self, base=self.base + cut, entries=self.entries[cut:])
        vars(shorter)["lineage"] = self.lineage
        return shorter

    def at(self, slot: int) -> Entry | None:
        """Return the entry in a slot, or None when it is outside the part that was read."""
        return self.entries[slot - self.base] if self.base <= slot <= self.head else None

    def since(self, slot: int) -> Iterator[tuple[int, Entry]]:
        """Yield (slot, entry) of this table's entries after `slot`."""
        return iter(self.own if slot < self.base else self.own[bisect_right(self.own, slot, key=_slot_of) :])

    @cached_property
    def own(self) -> tuple[tuple[int, Entry], ...]:
        """Entries of this table with their slots, oldest first."""
        table_id = self.table_id
        return tuple((slot, entry) for slot, entry in enumerate(self.entries, self.base) if entry.table_id == table_id)

    @cached_property
    def voided(self) -> frozenset[int]:
        """Slots that a VOID names."""
        return frozenset(entry.slot for _, entry in self.own if isinstance(entry, Void))

    @cached_property
    def instants(self) -> frozenset[str]:
        """Instants that entries name."""
        return frozenset(getattr(entry, "instant", "") for _, entry in self.own)

    @cached_property
    def times(self) -> frozenset[str]:
        """Request and completion times that entries name; later times are above them."""
        return frozenset(time for _, entry in self.own for time in _times_of(entry))

    @cached_property
    def newest_time(self) -> str:
        """Newest of `times`, or empty."""
        return newest_of(self.times)

    @cached_property
    def completed(self) -> dict[str, Complete]:
        """Newest COMPLETE of each instant that no VOID names."""
        return {entry.instant: entry for _, entry in self._completes}

    @cached_property
    def completions(self) -> frozenset[str]:
        """Instants of `completed`, each with the word of its completed file, as in `Timeline.done`."""
        return frozenset(f"{entry.instant} {completes_as(entry.action)}" for _, entry in self._completes)

    @cached_property
    def lineage(self) -> object:
        """Identity that a log shares with logs that were extended or cut from it.

        A VOID or RESTORE, which revokes a completion, begins a new lineage. Within one lineage, an instant that is `completed` in
        one log is completed in all logs with higher heads, too, even if its entry was cut off.
        """
        return object()

    def fate(self, instant: str) -> tuple[int, Entry] | None:
        """Return the slot that decides `instant`, and its entry.

        It is the RESTORE that undoes the instant, else its first CANCEL or unvoided COMPLETE. For a RESTORE the entry is a CANCEL
        with its facts.
        """
        return self._fates.get(instant)

    @cached_property
    def _fates(self) -> dict[str, tuple[int, Entry]]:
        found: dict[str, tuple[int, Entry]] = {}
        for slot, entry in self.own:
            if isinstance(entry, Complete | Cancel) and slot not in self.voided:
                found.setdefault(entry.instant, (slot, entry))
            elif isinstance(entry, Restore):
                found |= {cancel.instant: (slot, cancel) for cancel in entry.cancels()}
        return found

    def takeover(self, instant: str) -> tuple[int, Takeover] | None:
        """Return the newest TAKEOVER of `instant` in this part of the log, with its slot."""
        return self._takeovers.get(instant)

    @cached_property
    def _takeovers(self) -> dict[str, tuple[int, Takeover]]:
        return {entry.instant: (slot, entry) for slot, entry in self.own if isinstance(entry, Takeover)}

    def completes(self) -> Iterator[tuple[int, Complete]]:
        """Yield (slot, entry) of every COMPLETE that no VOID names and no RESTORE undoes."""
        return iter(self._completes)

    def _decides(self, slot: int, entry: Complete) -> bool:
        fate = self.fate(entry.instant)
        return slot not in self.voided and not (fate is not None and cancel_of(fate) is not None and fate[0] > slot)

    @cached_property
    def _completes(self) -> tuple[tuple[int, Complete], ...]:
        return tuple((slot, one) for slot, one in self.own if isinstance(one, Complete) and self._decides(slot, one))


def automatic_of(storage: Storage, log: Log | None) -> Mapping[str, Mapping[str, str | int]]:
    """Return the automatic services that creation or `alter` recorded, with their settings.

    Adoption records none.
    """
    if log is not None and log.properties.upkeep is not None:
        return log.properties.upkeep
    first = read_slot(storage, 0)
    return first.automatic if isinstance(first, Properties) else {}


def read_slot(storage: Storage, slot: int) -> Entry | None:
    """Read the entry in `slot`, or None when it is free.

    Raises:
        Corrupt: the slot's bytes are no entry.
    """
    path = slot_path(slot)
    try:
        return decode_entry(storage.get(path), path)
    except NotFound:
        return None


def load_log(storage: Storage, pointer: Pointer | None) -> Log | None:
    """Read the log from the newest completed instant's pointer upwards, or all of it.

    None for a table without a log, which this library did not make.
    """
    first = read_slot(storage, 0) if pointer is None else read_slot(storage, pointer.properties_slot)
    if not isinstance(first, Properties):
        return None
    log = Log(
        table_id=first.table_id,
        base=pointer.slot + 1 if pointer else 0,
        entries=(),
        properties_slot=pointer.properties_slot if pointer else 0,
        properties=first,
    )
    if pointer is not None and pointer.archive_slot >= 0:
        archived = read_slot(storage, pointer.archive_slot)
        if isinstance(archived, Archive):
            log = replace(log, archive_slot=pointer.archive_slot, boundary=archived.boundary)
    return refresh_log(storage, log)


def refresh_log(storage: Storage, log: Log) -> Log:
    """Probe upwards from the known head; slots never change, so read entries stay."""
    fresh: list[Entry] = []
    while (entry := read_slot(storage, log.head + 1 + len(fresh))) is not None:
        fresh.append(entry)
    return extended(log, fresh)


def extended(log: Log, fresh: Sequence[Entry]) -> Log:
    """Return the log with further entries right above its head, as read from their slots."""
    if not fresh:
        return log
    grown = replace(log, entries=(*log.entries, *fresh))
    added = tuple((slot, entry) for slot, entry in enumerate(fresh, log.head + 1) if entry.table_id == log.table_id)
    for slot, entry in added:
        if isinstance(entry, Properties):
            grown = replace(grown, properties_slot=slot, properties=entry)
        elif isinstance(entry, Archive):
            grown = replace(grown, archive_slot=slot, boundary=max(grown.boundary, entry.boundary))
    _keep(log, grown, added)
    return grown


def _keep(log: Log, grown: Log, added: Sequence[tuple[int, Entry]]) -> None:
    """Carry cached values of `log` over to `grown`, updated by the added entries.

    A session appends an entry for each commit, and uses these values several times.
    """
    derived, kept = vars(log), vars(grown)
    if "own" in derived:
        kept["own"] = (*log.own, *added)
    if "instants" in derived:
        kept["instants"] = log.instants.union(getattr(entry, "instant", "") for _, entry in added)
    times = [time for _, entry in added for time in _times_of(entry)]
    if "times" in derived:
        kept["times"] = log.times.union(times)
    if "newest_time" in derived:
        kept["newest_time"] = max(log.newest_time, newest_of(times))
    if any(isinstance(entry, Void | Restore) for _, entry in added):
        return  # an earlier entry is revoked: compute the other values again
    kept["lineage"] = log.lineage
    completes = [(slot, entry) for slot, entry in added if isinstance(entry, Complete)]
    if "voided" in derived:
        kept["voided"] = log.voided
    if "_completes" in derived:
        kept["_completes"] = (*log._completes, *completes)
    if "completed" in derived:
        kept["completed"] = {**log.completed, **{entry.instant: entry for _, entry in completes}}
    if "completions" in derived:
        kept["completions"] = log.completions.union(f"{one.instant} {completes_as(one.action)}" for _, one in completes)
    if "_takeovers" in derived:
        taken = {entry.instant: (slot, entry) for slot, entry in added if isinstance(entry, Takeover)}
        kept["_takeovers"] = {**log._takeovers, **taken}
    if "_fates" in derived:
        fates = dict(log._fates)
        for slot, entry in added:
            if isinstance(entry, Complete | Cancel):
                fates.setdefault(entry.instant, (slot, entry))
        kept["_fates"] = fates


def _times_of(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, Complete):
        return entry.instant, entry.completion_time
    if isinstance(entry, Plan | Cancel | Restore):
        return (entry.instant,)
    return (entry.completion_time,) if isinstance(entry, Savepoint) else ()

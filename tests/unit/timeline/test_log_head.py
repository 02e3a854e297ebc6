"""The log's head is found by probing a few slots, however many there are, and with it all that may be unapplied."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import ceil, log2

import pytest

from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer, load_log, slot_path
from hudi_ops.timeline.log.entries import (
    Archive,
    Cancel,
    Complete,
    Entry,
    Plan,
    Properties,
    Takeover,
    Void,
    decode_entry,
    encode_entry,
)
from hudi_ops.timeline.log.head import newest_log, older_entries, reaching_back
from hudi_ops.timeline.names import instant_of_ms
from tests.tables import START_MS

FACTS = TableFacts(buckets=1, hash_fields=("id",))
MILLION = 1_000_000


def common(slot: int, /, **where: int | str) -> dict[str, object]:
    return {"table_id": "t", "decision_id": f"d{slot}", "owner": "o", "at_ms": slot, "archive_slot": -1, **where}


def properties(slot: int = 0, **where: int | str) -> Properties:
    said = {"properties_slot": 0 if slot else -1, **where}
    return Properties.model_validate({
        **common(slot, **said),
        "facts": FACTS,
        "set": {"slot": str(slot)},
        "settings": {},
    })


def complete(slot: int, **where: int | str) -> Complete:
    return Complete.model_validate({
        **common(slot, **where),
        "instant": instant_of_ms(START_MS + 10 * slot),
        "action": "commit",
        "epoch": 0,
        "completion_time": instant_of_ms(START_MS + 10 * slot + 5),
        "payload": f"p{slot}",
    })


def entry_of(kind: type[Entry], at: int, /, **fields: object) -> Entry:
    return kind.model_validate({**common(at, properties_slot=0), **fields})


class Synthesised:
    """A storage whose slots are made up when they are read; counts the gets."""

    def __init__(self, slots: int, make: Callable[[int], Entry]) -> None:
        self._slots = slots
        self._make = make
        self.gets = 0

    def get(self, path: str) -> bytes:
        self.gets += 1
        slot = int(re.findall(r"\d+", path)[-1])
        if slot >= self._slots:
            raise NotFound(path)
        assert path == slot_path(slot)
        return encode_entry(self._make(slot))


def stored(*entries: Entry) -> MemoryStorage:
    storage = MemoryStorage()
    for slot, entry in enumerate(entries):
        storage.put(slot_path(slot), encode_entry(entry))
    return storage


def test_a_million_slots_take_two_logarithms_of_gets() -> None:
    where = {"properties_slot": 123_456, "archive_slot": 900_000}

    def make(slot: int) -> Entry:
        if slot in (0, 123_456):
            return properties(slot)
        if slot == 900_000:
            return entry_of(Archive, slot, boundary="20260101000000000", history="h")
        return complete(slot, **where)

    storage = Synthesised(MILLION, make)
    log = newest_log(storage)  # type: ignore[arg-type]
    assert log is not None
    print(f"gets to open a log of a million slots without a pointer: {storage.gets}")
    assert storage.gets <= 2 * ceil(log2(MILLION)) + 5
    assert (log.head, log.base) == (MILLION - 1, MILLION - 1)
    assert (log.properties_slot, log.properties.set) == (123_456, {"slot": "123456"})
    assert (log.archive_slot, log.boundary) == (900_000, "20260101000000000")


def test_the_head_is_the_newest_slot() -> None:
    wrong = []
    for slots in range(1, 70):
        storage = stored(properties(), *(complete(slot, properties_slot=0) for slot in range(1, slots)))
        log, whole = newest_log(storage), load_log(storage, None)
        if log is None or whole is None or (log.head, log.entries[-1]) != (slots - 1, whole.entries[-1]):
            wrong.append((slots, log))
    assert wrong == []


UNCANCELLED = CancelPolicy().entry_fields()
TAILS: dict[str, list[Entry]] = {
    "complete": [],
    "void": [entry_of(Void, 4, slot=3, reason="r")],
    "cancel": [entry_of(Cancel, 4, instant="20260101000000000", reason="r")],
    "takeovers": [entry_of(Takeover, slot, instant="20260101000000000", epoch=slot) for slot in (4, 5, 6)],
    "plan": [
        entry_of(Plan, 4, instant="20310101000000000", action="compaction", payload="p", footprint="", **UNCANCELLED)
    ],
}


@pytest.mark.parametrize("tail", TAILS)
def test_what_may_be_unapplied_is_in_the_part_that_is_read(tail: str) -> None:
    storage = stored(properties(), *(complete(slot, properties_slot=0) for slot in (1, 2, 3)), *TAILS[tail])
    log = newest_log(storage)
    assert log is not None
    # The newest completion that counts is there too: the next completion time must lie above it.
    newest = 2 if tail == "void" else 3
    assert log.base == newest
    assert log.head == 3 + len(TAILS[tail])
    assert [slot for slot, _ in log.completes()] == [newest]


def test_the_head_names_properties_and_archive_below_it() -> None:
    said = entry_of(Archive, 3, boundary="20260101000000000", history="h")
    above = [complete(slot, properties_slot=2, archive_slot=3) for slot in (4, 5)]
    log = newest_log(stored(properties(), complete(1, properties_slot=0), properties(2), said, *above))
    assert log is not None
    assert (log.properties_slot, log.properties.set) == (2, {"slot": "2"})
    assert (log.archive_slot, log.boundary) == (3, "20260101000000000")


@pytest.mark.parametrize("newest", [2, 3])
def test_a_head_that_is_properties_or_archive_counts_itself(newest: int) -> None:
    said = entry_of(Archive, 3, boundary="20260101000000000", history="h")
    log = newest_log(stored(*[properties(), complete(1, properties_slot=0), properties(2), said][: newest + 1]))
    assert log is not None
    assert (log.properties_slot, log.archive_slot) == ((2, -1) if newest == 2 else (0, 3))


def test_what_a_table_that_is_gone_left_above_a_gap_is_not_the_head() -> None:
    storage = stored(properties(), *(complete(slot, properties_slot=0) for slot in (1, 2)))
    for slot in range(4, 200):
        storage.put(slot_path(slot), encode_entry(complete(slot, properties_slot=0, table_id="gone")))
    log = newest_log(storage)
    assert log is not None
    assert log.head == 2


def test_a_table_without_a_log_has_none() -> None:
    assert newest_log(MemoryStorage()) is None


def test_a_slot_that_is_missing_below_the_head_is_corrupt() -> None:
    storage = stored(properties(), *(complete(slot, properties_slot=5) for slot in range(1, 9)))
    with pytest.raises(Corrupt, match="contradicts newer slots"):
        newest_log(storage)


def test_what_lies_below_is_read_no_further_than_it_can_tell() -> None:
    cancelled = instant_of_ms(START_MS + 10 * 999_990 + 7)

    def make(slot: int) -> Entry:
        if slot == 0:
            return properties()
        if slot == 999_993:
            return entry_of(Cancel, slot, instant=cancelled, reason="r")
        return complete(slot, properties_slot=0)

    storage = Synthesised(MILLION, make)
    log = newest_log(storage)  # type: ignore[arg-type]
    assert log is not None
    assert log.fate(cancelled) is None
    before = storage.gets
    fate = reaching_back(storage, log, cancelled).fate(cancelled)  # type: ignore[arg-type]
    assert fate is not None
    assert fate[0] == 999_993
    assert storage.gets - before < 15
    assert [slot for slot, _ in zip((s for s, _ in older_entries(storage, log)), range(2))] == [999_998, 999_997]  # type: ignore[arg-type]  # noqa: B905


def test_a_pointer_of_a_later_release_is_read_for_what_is_known() -> None:
    """Writers of two releases share a table while it is upgraded."""
    pointer = Pointer("t", 7, 0, -1, stranger="", may_double=None, shared=False)
    later = {**json.loads(pointer.encode()), "added_later": 1}
    assert Pointer.decode({POINTER_KEY: json.dumps(later)}) == pointer


@pytest.mark.parametrize("name", ["slot", "properties_slot", "archive_slot", "stranger", "may_double", "shared"])
def test_a_pointer_without_a_field_is_corrupt(name: str) -> None:
    said = json.loads(Pointer("t", 7, 0, -1, stranger="", may_double=None, shared=False).encode())
    del said[name]
    with pytest.raises(Corrupt, match="damaged") as refused:
        Pointer.decode({POINTER_KEY: json.dumps(said)}, "20260101000000000.commit")
    assert "20260101000000000.commit" in refused.value.what


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (complete(7, properties_slot=0), "archive_slot"),
        (complete(7, properties_slot=0), "properties_slot"),
        (properties(7), "settings"),
        (TAILS["plan"][0], "cancellable"),
        (TAILS["plan"][0], "on_overlap"),
        (TAILS["plan"][0], "footprint"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.kind,
)
def test_an_entry_without_a_field_is_corrupt(entry: Entry, name: str) -> None:
    said = json.loads(encode_entry(entry))
    del said[name]
    with pytest.raises(Corrupt, match="is not a commit log entry") as refused:
        decode_entry(json.dumps(said).encode(), slot_path(7))
    assert slot_path(7) in refused.value.what
    assert f"{name}: Field required" in refused.value.found


def test_a_fact_of_a_later_release_is_refused_and_the_error_names_the_cure() -> None:
    """A release that does not know a fact of the table must not write to it."""
    said = json.loads(encode_entry(properties()))
    said["facts"]["of_a_later_release"] = True
    with pytest.raises(Corrupt, match="is not a commit log entry") as refused:
        decode_entry(json.dumps(said).encode())
    assert "upgrade" in refused.value.next_step

"""Broken commit logs, and tables that do not agree with theirs, one respect at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer, slot_path
from hudi_ops.timeline.log.entries import Cancel, Complete, Entry, Plan, Properties, Void, encode_entry
from hudi_ops.verify import verify_table
from tests.unit.verify.breaking import (
    complete_of,
    edit_properties,
    entries,
    errors,
    found,
    metadata_of,
    path_of,
    rewrite_commit,
    timeline_of,
    warnings,
    writes,
)

LATER = "20990101000000000"
PLANNED = {"action": "clustering", "payload": "p", "footprint": "", **CancelPolicy().entry_fields()}


def put_slot(storage: MemoryStorage, slot: int, entry: Entry) -> None:
    storage.put(slot_path(slot), encode_entry(entry))


def common(storage: MemoryStorage) -> dict[str, object]:
    slots = {"properties_slot": 0, "archive_slot": -1}
    return {"table_id": entries(storage)[0].table_id, "decision_id": "test", "owner": "test", "at_ms": 0, **slots}


def test_slot_missing_below_others(ours):
    last = len(entries(ours)) - 1
    ours.put(slot_path(last + 2), ours.get(slot_path(last)))
    assert found(ours) == errors("slot-gap")


def test_slot_that_is_no_entry(ours):
    ours.put(slot_path(len(entries(ours))), b'{"kind": "SURPRISE"}')
    assert found(ours) == errors("slot-broken")


def test_log_without_its_beginning(ours):
    ours.delete(slot_path(0))
    assert found(ours) == errors("log-start", "slot-gap")


def test_slot_of_another_table(ours):
    put_slot(ours, len(entries(ours)), Cancel(**{**common(ours), "table_id": "other"}, instant=LATER, reason=""))
    assert found(ours) == warnings("slot-of-another-table")


def test_completion_times_that_do_not_rise_with_the_slots(ours):
    first, last = writes(ours)[0], writes(ours)[-1]
    slot, entry = complete_of(ours, last.time)
    body = ours.get(path_of(ours, last))
    ours.delete(path_of(ours, last))
    early = first.completion_time[:-3] + "000"
    put_slot(ours, slot, entry.model_copy(update={"completion_time": early}))
    ours.put(f".hoodie/timeline/{last.time}_{early}.commit", body)
    assert found(ours) == errors("completion-before-request", "slot-order")


def test_cancelled_and_completed(ours):
    last = writes(ours)[-1]
    slot, _ = complete_of(ours, last.time)
    put_slot(ours, slot, Cancel(**common(ours), instant=last.time, reason="test"))
    report = verify_table(ours)
    assert {one.invariant for one in report.errors} == {"cancelled-completed", "slot-pointer"}


def test_voided_and_completed(ours):
    slot, _ = complete_of(ours, writes(ours)[-1].time)
    put_slot(ours, len(entries(ours)), Void(**common(ours), slot=slot, reason="test"))
    assert found(ours) == errors("voided-completed")


def hide(storage: MemoryStorage, instant: Instant) -> None:
    """Take a write's completed file away; requested and inflight stay, as after a crash right behind the slot."""
    storage.delete(path_of(storage, instant))


def test_decided_and_not_applied(ours):
    hide(ours, writes(ours)[-1])
    assert found(ours) == warnings("decided-unfinished")


def test_decided_and_lost(ours):
    hide(ours, writes(ours)[0])
    assert found(ours) == errors("decided-lost")


def test_decided_and_its_payload_gone(ours):
    last = writes(ours)[-1]
    ours.delete(complete_of(ours, last.time)[1].payload)
    assert found(ours) == [], "once applied, the payload is history"
    hide(ours, last)
    assert found(ours) == errors("payload-missing")


def test_decided_and_its_payload_damaged(ours):
    last = writes(ours)[-1]
    ours.put(complete_of(ours, last.time)[1].payload, b"{")
    hide(ours, last)
    assert found(ours) == errors("payload-broken")


def test_completed_at_another_time_than_decided(ours):
    last = writes(ours)[-1]
    body = ours.get(path_of(ours, last))
    ours.delete(path_of(ours, last))
    ours.put(f".hoodie/timeline/{last.time}_{LATER}.commit", body)
    assert found(ours) == errors("completion-mismatch")


def test_completed_file_with_other_bytes_than_decided(ours):
    last = writes(ours)[-1]
    metadata = metadata_of(ours, last)
    ours.put(path_of(ours, last), replace(metadata, operation="INSERT").to_bytes())
    assert found(ours) == errors("payload-mismatch")


@pytest.mark.parametrize("slot", [0, 1])
def test_pointer_to_another_slot(ours, slot):
    def change(metadata):
        pointer = Pointer.decode(metadata.extra)
        return replace(metadata, extra={**metadata.extra, POINTER_KEY: replace(pointer, slot=slot).encode()})

    rewrite_commit(ours, writes(ours)[-1], change)
    assert found(ours) == errors("slot-pointer")


@pytest.mark.parametrize("text", [None, "not json"])
def test_pointer_gone_or_broken(ours, text):
    def change(metadata):
        extra = {key: value for key, value in metadata.extra.items() if key != POINTER_KEY}
        return replace(metadata, extra=extra if text is None else {**extra, POINTER_KEY: text})

    rewrite_commit(ours, writes(ours)[-2], change)
    assert found(ours) == errors("slot-pointer")


def test_write_without_a_slot(ours):
    from hudi_ops.timeline.content.commit_metadata import CommitMetadata

    time = "20980101000000000"
    for name in (f"{time}.commit.requested", f"{time}.inflight"):
        ours.put(f".hoodie/timeline/{name}", b"")
    ours.put(f".hoodie/timeline/{time}_{LATER}.commit", CommitMetadata(operation="UPSERT").to_bytes())
    assert found(ours) == warnings("foreign-instant")


def test_cancelled_and_completed_by_another_program(ours):
    """It was silent for two minutes, we cancelled it, and then it completed under the lock: its rows are the table's."""
    from hudi_ops.timeline.content.commit_metadata import CommitMetadata

    time = "20980101000000000"
    put_slot(ours, len(entries(ours)), Cancel(**common(ours), instant=time, reason="its heartbeat stopped"))
    for name in (f"{time}.commit.requested", f"{time}.inflight"):
        ours.put(f".hoodie/timeline/{name}", b"")
    ours.put(f".hoodie/timeline/{time}_{LATER}.commit", CommitMetadata(operation="UPSERT").to_bytes())
    assert found(ours) == warnings("cancelled-foreign", "foreign-instant")


def test_rollback_without_a_slot(ours):
    rollback = next(one for one in timeline_of(ours) if one.kind == "rollback")
    time = "20980101000000000"
    for suffix in (".rollback.requested", ".rollback.inflight"):
        ours.put(f".hoodie/timeline/{time}{suffix}", ours.get(f".hoodie/timeline/{rollback.time}{suffix}"))
    ours.put(f".hoodie/timeline/{time}_{LATER}.rollback", ours.get(path_of(ours, rollback)))
    assert found(ours) == warnings("foreign-instant")


def test_settings_that_the_log_does_not_say(ours):
    edit_properties(ours, table_timeline_timezone="LOCAL")
    assert found(ours) == errors("properties-fold")


def test_setting_that_the_log_removed(ours):
    first = entries(ours)[0]
    assert isinstance(first, Properties)
    removal = first.model_copy(update={"set": {}, "remove": ("hoodie.table.format",), "decision_id": "remove"})
    put_slot(ours, len(entries(ours)), removal)
    assert found(ours) == errors("properties-fold")
    edit_properties(ours, table_format=None)
    assert found(ours) == []


def ledger(storage: MemoryStorage) -> str:
    (path,) = [info.path for info in storage.list(".hoodie/.ingest")]
    return path


def test_ledger_gone(ours):
    ours.delete(ledger(ours))
    assert found(ours) == errors("ledger-missing")


@pytest.mark.parametrize("body", [b"not json", b"[]", json.dumps({"files": []}).encode()])
def test_ledger_broken(ours, body):
    ours.put(ledger(ours), body)
    assert found(ours) == errors("ledger-broken")


def test_a_plan_decides_nothing_of_fate(ours):
    put_slot(ours, len(entries(ours)), Plan(**common(ours), **PLANNED, instant=LATER))
    assert found(ours) == []
    assert isinstance(entries(ours)[1], Complete)

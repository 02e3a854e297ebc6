"""Logs whose entries contradict each other, one respect at a time."""

from __future__ import annotations

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Takeover, encode_entry
from hudi_ops.verify import verify_table
from tests.unit.verify.breaking import complete_of, entries, errors, found, timeline_of, writes

LATER = "20990101000000000"
POLICY = CancelPolicy().entry_fields()


def append(storage: MemoryStorage, kind: type[Entry], **fields: object) -> None:  # type: ignore[valid-type]
    slots = {"properties_slot": 0, "archive_slot": -1}
    common = {"table_id": entries(storage)[0].table_id, "decision_id": "test", "owner": "test", "at_ms": 0, **slots}
    slot = len(entries(storage))
    storage.put(slot_path(slot), encode_entry(kind(**common, **fields)))  # type: ignore[operator]


def test_a_plan_that_is_not_above_what_completed_before(ours):
    append(ours, Plan, instant=writes(ours)[-1].time, action="clustering", payload="", footprint="", **POLICY)
    assert ("error", "plan-order") in found(ours)


def test_epochs_rise(ours):
    for epoch in (1, 2):
        append(ours, Takeover, instant=LATER, epoch=epoch)
    assert found(ours) == []
    append(ours, Takeover, instant=LATER, epoch=2)
    assert found(ours) == errors("takeover-epoch")


def test_a_completion_in_another_epoch_than_the_newest_takeover(ours):
    last = writes(ours)[-1]
    slot, entry = complete_of(ours, last.time)
    ours.put(slot_path(slot), encode_entry(entry.model_copy(update={"epoch": 1})))
    assert found(ours) == errors("complete-epoch")


def test_nothing_is_decided_after_an_instants_fate(ours):
    last = writes(ours)[-1]
    entry = complete_of(ours, last.time)[1]
    append(ours, Cancel, instant=LATER, reason="")
    append(ours, Cancel, instant=LATER, reason="two may cancel one instant")
    assert found(ours) == []
    append(ours, Cancel, instant=last.time, reason="")
    assert found(ours) == errors("after-fate")
    append(ours, Takeover, instant=LATER, epoch=1)
    fields = {"action": "commit", "epoch": 1, "completion_time": LATER, "payload": entry.payload}
    append(ours, Complete, instant=LATER, **fields)
    decided = [one.what for one in verify_table(ours).errors if one.invariant == "after-fate"]
    assert [what.split()[0] for what in decided] == ["CANCEL", "TAKEOVER", "COMPLETE"]


def test_boundaries_rise(ours):
    first = timeline_of(ours).completed_writes[0].time
    for boundary in ("20000101000000000", "19990101000000000"):
        append(ours, Archive, boundary=boundary, history="")
    assert first > "20000101000000000"
    assert found(ours) == errors("archive-order")


def test_what_was_archived_is_off_the_timeline(ours):
    first = timeline_of(ours).completed_writes[0]
    for suffix in ("commit.requested", "inflight"):
        ours.put(f".hoodie/timeline/20000101000000000.{suffix}", b"")
    append(ours, Archive, boundary=first.time, history="")
    assert {("warning", "archived-present"), ("warning", "archived-pending")} <= set(found(ours))
    ours.put("p=x/00000000-0000-4000-8000-000000000000-0_0-0-0_20000101000000000.parquet", b"")
    assert ("error", "archived-pending") in found(ours), "its rows are seen by readers that list"

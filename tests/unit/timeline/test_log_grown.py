"""A log that grew entry by entry tells the same as one that was read at once."""

from __future__ import annotations

import random

from hudi_ops.config.table import TableFacts
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.log.commit_log import Log, extended
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Properties, Savepoint, Takeover, Void
from tests.bounds import bound

DERIVED = (
    "own",
    "voided",
    "instants",
    "times",
    "newest_time",
    "completed",
    "completions",
    "_completes",
    "_fates",
    "_takeovers",
    "properties_slot",
    "properties",
    "archive_slot",
    "boundary",
)
FIRST = Properties.model_validate({
    "table_id": "t",
    "decision_id": "first",
    "owner": "o",
    "at_ms": 0,
    "properties_slot": 0,
    "archive_slot": -1,
    "settings": {},
    "facts": TableFacts(buckets=1, hash_fields=("id",)),
})


def entry(chance: random.Random, slot: int) -> Entry:
    common = {
        "table_id": "other" if chance.random() < 0.1 else "t",
        "decision_id": f"d{slot}",
        "owner": "o",
        "at_ms": slot,
        "properties_slot": 0,
        "archive_slot": -1,
    }
    instant = str(20260101000000000 + chance.randrange(6))
    action = chance.choice(("commit", "compaction", "clean"))
    completion = str(20260101000001000 + slot)
    named = {**common, "instant": instant}
    return chance.choice((
        Complete.model_validate({**named, "action": action, "epoch": 0, "completion_time": completion, "payload": "p"}),
        Complete.model_validate({**named, "action": action, "epoch": 1, "completion_time": completion, "payload": "p"}),
        Cancel.model_validate({**named, "reason": "r"}),
        Plan.model_validate({
            **named,
            "action": action,
            "payload": "p",
            "footprint": "",
            **CancelPolicy().entry_fields(),
        }),
        Takeover.model_validate({**named, "epoch": chance.randrange(3)}),
        Void.model_validate({**common, "slot": chance.randrange(slot + 1), "reason": "r"}),
        FIRST.model_copy(update=common),
        Archive.model_validate({**common, "boundary": instant, "history": "h"}),
        Savepoint.model_validate({
            **named,
            "is_made": True,
            "completion_time": completion,
            "payload": "p",
        }),
    ))


def told(log: Log) -> dict[str, object]:
    return {name: getattr(log, name) for name in DERIVED}


def test_a_log_that_grew_equals_one_that_was_read_at_once() -> None:
    for seed in range(bound(quick=150, full=1_000, soak=50_000)):
        chance = random.Random(seed)
        empty = Log("t", base=chance.choice((0, 7)), entries=(), properties_slot=0, properties=FIRST)
        grown, entries = empty, list[Entry]()
        for _ in range(12):
            if chance.random() < 0.7:
                told(grown)  # what was derived is kept, what was not is not
            fresh = [entry(chance, empty.base + len(entries) + more) for more in range(chance.choice((0, 1, 1, 3)))]
            grown, entries = extended(grown, fresh), [*entries, *fresh]
            assert told(grown) == told(extended(empty, entries)), f"seed {seed}"

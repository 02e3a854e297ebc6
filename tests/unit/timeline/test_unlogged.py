"""Writes without a slot that are kept from one timeline to the next are those that a look at all of them finds."""

from __future__ import annotations

import random

from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import list_timeline
from hudi_ops.timeline.log.commit_log import Log, extended
from hudi_ops.timeline.log.entries import Complete, Entry, Properties, Restore, Void
from hudi_ops.timeline.names import completed_name, requested_name
from hudi_ops.timeline.state import TableState
from hudi_ops.timeline.unlogged import unlogged_since
from tests.bounds import bound

FOLDER = ".hoodie/timeline"
CONFIG = TableConfig(name="t", version=9, layout=2, timeline_folder=FOLDER, raw={})
COMMON = {"table_id": "t", "decision_id": "d", "owner": "o", "at_ms": 0, "properties_slot": 0, "archive_slot": -1}
FACTS = TableFacts(buckets=1, hash_fields=("id",))
FIRST = Properties.model_validate({**COMMON, "facts": FACTS, "settings": {}})


class Table:
    """A timeline and a log that grow as writers of ours, foreign writers, restores and archives make them."""

    def __init__(self, seed: int) -> None:
        self.chance, self.storage, self.time = random.Random(seed), MemoryStorage(), 20260101000000000
        self.log = Log("t", base=0, entries=(FIRST,), properties_slot=0, properties=FIRST)
        self.logs = [self.log]

    def now(self) -> str:
        self.time += self.chance.choice((1, 1, 1000))
        return str(self.time)

    def learn(self, entry: Entry) -> None:
        self.log = extended(self.log, [entry])
        self.logs.append(self.log)

    def complete(self, *, is_logged: bool) -> None:
        time, completion = self.now(), self.now()
        if self.chance.random() < 0.1:
            completion = str(self.time - 5_000)  # a clock that is behind
        named = {**COMMON, "instant": time, "epoch": 0, "completion_time": completion, "payload": "p"}
        if is_logged:
            self.learn(Complete.model_validate({**named, "action": "commit"}))
        if self.chance.random() < 0.9:
            self.storage.put(f"{FOLDER}/{requested_name(time, 'commit')}", b"")
            self.storage.put(f"{FOLDER}/{completed_name(time, 'commit', completion)}", b"")

    def completed(self, log: Log) -> set[str]:
        """Instants that a log completes, with those that were cut off it."""
        cut = [other for other in self.logs if other.lineage is log.lineage and other.head <= log.head]
        return {instant for other in (*cut, log) for instant in other.completed}

    def undo(self) -> None:
        slot = self.chance.randrange(self.log.base, self.log.head + 1)
        if self.chance.random() < 0.5:
            self.learn(Void.model_validate({**COMMON, "slot": slot, "reason": "r"}))
        elif isinstance(entry := self.log.at(slot), Complete):
            restore = {"instant": self.now(), "savepoint": entry.instant, "undone": [entry.instant], "payload": "p"}
            self.learn(Restore.model_validate({**COMMON, **restore}))

    def lose(self) -> None:
        names = [info.path for info in self.storage.list(FOLDER)]
        for path in names[: self.chance.randrange(3)] if self.chance.random() < 0.5 else names[-1:]:
            self.storage.delete(path)

    def move(self) -> None:
        chosen = self.chance.random()
        if chosen < 0.6:
            self.complete(is_logged=True)
        elif chosen < 0.8:
            self.complete(is_logged=False)
        elif chosen < 0.87:
            self.undo()
        elif chosen < 0.95:
            self.lose()
        else:
            self.log = self.log.newest(3)
            self.logs.append(self.log)


def test_writes_without_a_slot_are_those_that_a_look_at_all_of_them_finds() -> None:
    found = 0
    for seed in range(bound(quick=60, full=300, soak=10_000)):
        table = Table(seed)
        for step in range(40):
            table.move()
            timeline = list_timeline(table.storage, FOLDER, 2)
            log = table.log if table.chance.random() < 0.9 else table.chance.choice(table.logs)
            times = sorted(timeline.known_times) or [""]
            for time in ("", table.chance.choice(times), table.chance.choice(times[-5:])):
                wanted = [one for one in timeline.newest_first if one.completion_time >= time]
                least = {one for one in wanted if one.time not in table.completed(log)}
                most = {one for one in wanted if one.time not in log.completed}
                told = list(unlogged_since(TableState(CONFIG, log, timeline), time))
                assert least <= {*told} <= most, f"seed {seed}, step {step}"
                assert len(told) == len({*told})
                times_told = [one.completion_time for one in told]
                assert times_told == sorted(times_told, reverse=True)
                found += len(told)
    assert found


def test_writes_that_are_in_the_log_are_looked_at_once() -> None:
    table = Table(0)
    for _ in range(20):
        table.complete(is_logged=True)
    for number in range(3):
        if number == 1:
            table.log = table.log.newest(1)  # as in a session that has read a thousand entries
        timeline = list_timeline(table.storage, FOLDER, 2)
        assert list(unlogged_since(TableState(CONFIG, table.log, timeline), "")) == []
        table.complete(is_logged=True)
        kept = vars(list_timeline(table.storage, FOLDER, 2))["unlogged"]
        assert len(kept.writes) <= 1

"""A timeline that is listed again and again equals one that is listed for the first time, and only new names are parsed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, list_timeline
from hudi_ops.timeline.kept import moved_between
from hudi_ops.timeline.names import completed_name, inflight_name, parse_file_name, requested_name
from tests.bounds import bound

FOLDER = ".hoodie/timeline"
DERIVED = (
    "by_time",
    "completed_writes",
    "completions",
    "pending",
    "start",
    "deltas",
    "by_kind",
    "done",
    "raised",
    "first_completion",
    "known_times",
    "newest_first",
    "newest_time",
)
ACTIONS = ("commit", "deltacommit", "compaction", "clustering", "clean", "rollback", "savepoint", "indexing", "restore")


class History:
    """Random moves on a timeline folder, as writers, cleaners, archivers and foreign programs make them."""

    def __init__(self, seed: int, layout: int) -> None:
        self.chance, self.layout, self.storage = random.Random(seed), layout, MemoryStorage()
        self.time = 20260101000000000

    def now(self) -> str:
        self.time += self.chance.choice((1, 1, 1, 1000))
        return str(self.time)

    def put(self, name: str) -> None:
        self.storage.put(f"{FOLDER}/{name}", b"")

    def names(self) -> list[str]:
        return [info.name for info in self.storage.list_folder(FOLDER).files]

    def done(self, time: str, action: str) -> str:
        # Some complete at their request time, and some when another did.
        at = self.chance.choice((time, str(self.time), *(self.now() for _ in range(8))))
        return completed_name(time, action, at) if self.layout == 2 else f"{time}.{action}"

    def begin(self) -> None:
        time, action = self.now(), self.chance.choice(ACTIONS)
        # A foreign writer whose clock is behind, and a metadata table's numbered instants.
        time = self.chance.choice((time, time, time, str(self.time - 5000), "00000000000000001"))
        self.put(requested_name(time, action))
        if self.chance.random() < 0.7:
            self.put(inflight_name(time, action))

    def complete(self) -> None:
        known = [file for name in self.names() if (file := parse_file_name(name, self.layout))]
        if known:
            file = self.chance.choice(known)
            self.put(self.done(file.time, self.chance.choice((file.action, file.action, "savepoint"))))

    def whole(self) -> None:
        time, action = self.now(), self.chance.choice(("commit", "deltacommit", "replacecommit"))
        for name in (requested_name(time, action), inflight_name(time, action), self.done(time, action)):
            self.put(name)

    def undo(self) -> None:
        if names := self.names():
            time = self.chance.choice(names)[:17]
            for name in names:
                if name.startswith(time):
                    self.storage.delete(f"{FOLDER}/{name}")

    def lose(self) -> None:
        if names := self.names():
            self.storage.delete(f"{FOLDER}/{self.chance.choice(names)}")

    def archive(self) -> None:
        names = self.names()
        for name in names[: self.chance.randrange(len(names) + 1) // 2]:
            self.storage.delete(f"{FOLDER}/{name}")

    def strange(self) -> None:
        self.put(self.chance.choice(("hoodie.properties", "20260101.commit.rollback", "notes.txt", "2026.inflight")))

    def move(self) -> None:
        moves = (self.begin, self.begin, self.complete, self.complete, self.whole, self.whole, self.whole)
        self.chance.choice((*moves, self.undo, self.lose, self.archive, self.strange))()


def asked(timeline: Timeline) -> dict[str, object]:
    """All that is derived of a timeline, with its instants."""
    found = {name: getattr(timeline, name) for name in DERIVED}
    finds = {
        (one.time, kind): timeline.find(one.time, kind) for one in timeline for kind in (None, "savepoint", one.action)
    }
    return {"instants": timeline.instants, "find": finds, "layout": timeline.layout, **found}


@pytest.mark.parametrize("layout", [1, 2])
def test_a_timeline_listed_again_equals_one_listed_for_the_first_time(layout: int) -> None:
    for seed in range(bound(quick=60, full=400, soak=20_000)):
        history = History(seed, layout)
        for step in range(40):
            for _ in range(history.chance.choice((0, 1, 1, 1, 5))):
                history.move()
            again = list_timeline(history.storage, FOLDER, layout)
            if history.chance.random() < 0.7:
                asked(again)  # what was derived before is kept, what was not is not
            first = list_timeline(history.storage.copy(), FOLDER, layout)
            assert asked(again) == asked(first), f"seed {seed}, step {step}"


def test_what_moved_between_two_timelines_is_known_or_said_to_be_unknown() -> None:
    known = 0
    for seed in range(bound(quick=40, full=200, soak=10_000)):
        history, seen = History(seed, 2), list[Timeline]()
        for _ in range(40):
            history.move()
            now = list_timeline(history.storage, FOLDER, 2)
            if now.pending and history.chance.random() < 0.3:
                one = history.chance.choice(now.pending)
                now = now.completed(one.time, one.action, history.now())  # a value that no later listing grows from
            seen.append(now)
            before = history.chance.choice(seen[-6:])
            for old, new in ((before, now), (now, before)):
                moved = moved_between(old, new)
                if moved is not None:
                    known += 1
                    states = [{(one.time, one.kind): one for one in timeline} for timeline in (old, new)]
                    keys = [key for key in {**states[0], **states[1]} if states[0].get(key) != states[1].get(key)]
                    assert moved == {key: (states[0].get(key), states[1].get(key)) for key in keys}, f"seed {seed}"
        assert moved_between(seen[0], list_timeline(history.storage.copy(), FOLDER, 2)) is None
    assert known > 1_000


def test_an_instant_that_is_made_again_shows_its_new_state() -> None:
    storage = MemoryStorage()
    time = "20260101000000000"
    done = completed_name(time, "commit", "20260101000000001")
    for name in (requested_name(time, "commit"), done):
        storage.put(f"{FOLDER}/{name}", b"")
    assert list_timeline(storage, FOLDER, 2).completed_writes
    storage.delete(f"{FOLDER}/{done}")
    assert [str(one) for one in list_timeline(storage, FOLDER, 2).pending] == [f"{time} commit requested"]
    storage.put(f"{FOLDER}/{completed_name(time, 'commit', '20260101000000009')}", b"")
    (found,) = list_timeline(storage, FOLDER, 2).completed_writes
    assert found.completion_time == "20260101000000009"


def test_a_timeline_that_did_not_change_is_the_same_value() -> None:
    history = History(1, 2)
    for _ in range(30):
        history.move()
    assert list_timeline(history.storage, FOLDER, 2) is list_timeline(history.storage, FOLDER, 2)


def parsed(storage: Storage) -> int:
    """Names that are parsed to list a timeline once."""
    before = parse_file_name.cache_info()
    list_timeline(storage, FOLDER, 2)
    after = parse_file_name.cache_info()
    return after.hits + after.misses - before.hits - before.misses


def test_only_new_names_are_parsed(tmp_path: Path) -> None:
    for storage in (MemoryStorage(), LocalStorage(tmp_path)):
        for number in range(50):
            storage.put(f"{FOLDER}/{requested_name(str(20260101000000000 + number), 'commit')}", b"")
        assert parsed(storage) == 50
        assert parsed(storage) == 0
        storage.put(f"{FOLDER}/{inflight_name('20260101000000049', 'commit')}", b"")
        storage.put(f"{FOLDER}/{requested_name('20260101000000050', 'commit')}", b"")
        assert parsed(storage) == 2
        storage.delete(f"{FOLDER}/{requested_name('20260101000000000', 'commit')}")
        assert parsed(storage) == 1, "a name that went is parsed to find its instant"

"""Files of a folder that are kept from one listing to the next: none that may still change, and none that is gone."""

from __future__ import annotations

import random

from hudi_ops.files.names import base_file_name, log_file_name
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import NewFiles
from hudi_ops.timeline.active import Timeline, list_timeline
from hudi_ops.timeline.names import completed_name, requested_name
from hudi_ops.view.known_files import listed_files
from hudi_ops.view.listing import StorageListing
from tests.bounds import bound

TIMELINE = ".hoodie/timeline"
GROUPS = ("00000000-aaaa-0", "00000001-bbbb-0")


class Asked(MemoryStorage):
    """Keeps the names that were known at each listing."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[frozenset[str]] = []

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        if prefix == "p":
            self.known.append(known)
        return super().list_new(prefix, known)


def instant(number: int) -> str:
    return f"{20260101000000000 + number}"


def timeline(storage: MemoryStorage, layout: int = 2) -> Timeline:
    return list_timeline(storage, TIMELINE, layout)


def begin(storage: MemoryStorage, number: int, action: str = "commit") -> str:
    storage.put(f"{TIMELINE}/{requested_name(instant(number), action)}", b"")
    return instant(number)


def complete(storage: MemoryStorage, number: int, action: str = "commit") -> None:
    storage.put(f"{TIMELINE}/{completed_name(instant(number), action, instant(number + 500))}", b"")


def sizes(storage: MemoryStorage, layout: int = 2) -> dict[str, int]:
    return {file.name: file.size_bytes for file in listed_files(storage, "p", timeline(storage, layout))}


def test_a_file_is_looked_at_again_until_its_writer_has_completed() -> None:
    storage = Asked()
    name = base_file_name(GROUPS[0], 0, 0, begin(storage, 1))
    for body in (b"PAR", b"PAR1...", b"PAR1......"):
        storage.put(f"p/{name}", body)
        assert sizes(storage) == {name: len(body)}
    complete(storage, 1)
    storage.put(f"p/{name}", b"PAR1.........")
    assert sizes(storage) == {name: 13}
    assert sizes(storage) == {name: 13}
    assert storage.known == [frozenset()] * 4 + [frozenset({name})]


def test_a_file_that_is_gone_is_listed_no_more_and_one_that_is_back_is_looked_at() -> None:
    storage = MemoryStorage()
    name = base_file_name(GROUPS[0], 0, 0, begin(storage, 1))
    complete(storage, 1)
    storage.put(f"p/{name}", b"1")
    assert sizes(storage) == {name: 1}
    storage.delete(f"p/{name}")
    assert sizes(storage) == {}
    storage.put(f"p/{name}", b"restored")
    assert sizes(storage) == {name: 8}


def test_log_files_that_others_may_append_to_are_looked_at_again() -> None:
    for layout, action, is_kept in ((1, "deltacommit", False), (2, "replacecommit", False), (2, "deltacommit", True)):
        storage = Asked()
        name = log_file_name(GROUPS[0], begin(storage, 1, action), 1, "0-0-0")
        done = completed_name(instant(1), action, instant(2)) if layout == 2 else f"{instant(1)}.{action}"
        storage.put(f"{TIMELINE}/{done}", b"")
        storage.put(f"p/{name}", b"1")
        assert sizes(storage, layout) == {name: 1}
        assert sizes(storage, layout) == {name: 1}
        assert storage.known[-1] == (frozenset({name}) if is_kept else frozenset()), (layout, action)


def test_a_folder_listed_again_equals_one_listed_for_the_first_time() -> None:
    for seed in range(bound(quick=30, full=150, soak=5_000)):
        chance, storage, pending = random.Random(seed), MemoryStorage(), []
        for number in range(60):
            move = chance.random()
            if move < 0.4:
                action = chance.choice(("commit", "deltacommit", "replacecommit"))
                time = begin(storage, number, action)
                pending.append((number, action))
                for group in GROUPS[: chance.choice((1, 2))]:
                    is_log = action == "deltacommit" and chance.random() < 0.7
                    name = log_file_name(group, time, 1, "0-0-0") if is_log else base_file_name(group, 0, 0, time)
                    storage.put(f"p/{name}", b"x" * chance.randrange(9))
            elif move < 0.7 and pending:
                done = pending.pop(chance.randrange(len(pending)))
                complete(storage, *done)
            elif move < 0.8 and pending:
                for info in storage.list("p"):
                    if instant(pending[0][0]) in info.path:
                        storage.put(info.path, b"y" * chance.randrange(9))
            elif files := storage.list("p"):
                storage.delete(chance.choice(files).path)
            storage.put("p/.hoodie_partition_metadata", b"")
            again = listed_files(storage, "p", timeline(storage))
            assert again == StorageListing(storage, is_partitioned=True).files(["p"])["p"], f"seed {seed}, {number}"

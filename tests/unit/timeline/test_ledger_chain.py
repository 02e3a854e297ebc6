"""A chain of links holds what a whole ledger would, in a bounded number of files, and in bytes by the number of files alone."""

from __future__ import annotations

import json
import random

import pytest

from hudi_ops.commit.ledger import POINTER_PREFIX, Ledger, read_ledger, source_id_of
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import FileInfo
from hudi_ops.timeline.content import ledger_chain
from hudi_ops.timeline.content.ledger_chain import LINKS_MAX, built_upon, ledger_path, read_chain
from tests.bounds import bound

URI = "file:///landing"
ID = source_id_of(URI)


def instant(number: int) -> str:
    return f"{20260101000000000 + number}"


def file(number: int, changed: int = 1_700_000_000_000) -> FileInfo:
    return FileInfo(f"events/part-{number:06d}.csv", 1000 + number, changed)


def read(storage: MemoryStorage, path: str) -> Ledger:
    return read_ledger(storage, {POINTER_PREFIX + ID: path} if path else {}, URI)


def taken_one_by_one(files: int) -> tuple[MemoryStorage, str]:
    storage, path = MemoryStorage(), ""
    for number in range(files):
        path = read(storage, path).put_with(storage, [file(number)], instant(number))
    return storage, path


def size_bytes(storage: MemoryStorage) -> int:
    return sum(info.size_bytes for info in storage.list())


def test_a_chain_tells_what_a_whole_ledger_would() -> None:
    for seed in range(bound(quick=20, full=100, soak=5_000)):
        chance, storage, path = random.Random(seed), MemoryStorage(), ""
        taken: dict[str, tuple[int, int]] = {}
        retaken: dict[str, tuple[tuple[int, int], ...]] = {}
        for number in range(40):
            files = [file(chance.randrange(300), number) for _ in range(chance.choice((1, 1, 1, 5, 40)))]
            path = read(storage, path).put_with(storage, files, instant(number))
            for info in {info.path: info for info in files}.values():
                if info.path in taken:
                    retaken[info.path] = (*retaken.get(info.path, ()), taken[info.path])
                taken[info.path] = (info.size_bytes, info.modified_ms)
            ledger = read(storage, path)
            assert (ledger.taken, ledger.retaken) == (taken, retaken), f"seed {seed}"
            assert ledger.read_from == path
            assert built_upon(storage, path) == tuple(ledger_path(link.instant, ID) for link in ledger.links[:-1])


def test_bytes_and_links_grow_with_the_files_and_not_with_their_square() -> None:
    files = bound(quick=500, full=2_000, soak=10_000)
    half, whole = taken_one_by_one(files // 2), taken_one_by_one(files)
    assert size_bytes(whole[0]) < 2.5 * size_bytes(half[0])
    assert size_bytes(whole[0]) < files * 1_200, "a whole ledger for each would be 60 bytes by the square"
    assert max(len(built_upon(whole[0], info.path)) for info in whole[0].list()) <= 12


def test_long_links_stay_and_too_many_become_a_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_chain, "LONG_LINK_FILES", 2)
    storage, path = MemoryStorage(), ""
    lengths = []
    for number in range(3 * LINKS_MAX):
        path = read(storage, path).put_with(storage, [file(2 * number), file(2 * number + 1)], instant(number))
        lengths.append(len(read_chain(storage, path)))
    assert max(lengths) == LINKS_MAX
    assert min(lengths[LINKS_MAX:]) == 1
    assert len(read(storage, path).taken) == 6 * LINKS_MAX


def test_the_first_ledger_of_a_source_is_whole() -> None:
    storage = MemoryStorage()
    path = Ledger(ID, URI).put_with(storage, [file(1), file(0)], instant(0))
    said = json.loads(storage.get(path))
    assert said == {
        "form": 1,
        "source": ID,
        "uri": URI,
        "upon": [],
        "retaken": {},
        "files": {
            "events/part-000000.csv": [1000, 1_700_000_000_000],
            "events/part-000001.csv": [1001, 1_700_000_000_000],
        },
    }
    assert list(said["files"]) == sorted(said["files"])
    assert built_upon(storage, path) == ()


@pytest.mark.parametrize("position", [0, 1])
def test_a_missing_ledger_below_is_named(position: int) -> None:
    storage, path = taken_one_by_one(12)
    below = built_upon(storage, path)[position]
    storage.delete(below)
    with pytest.raises(Corrupt, match="is missing: the source ledger") as refused:
        read(storage, path)
    assert below in refused.value.what
    assert path in refused.value.what
    assert "taken twice" in refused.value.next_step
    assert refused.value.details["path"] == below


def test_a_ledger_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        read(MemoryStorage(), ledger_path(instant(0), ID))


@pytest.mark.parametrize("upon", [["x"], [1], "12", [["1"]], [instant(8)]])
def test_a_link_upon_something_else_is_refused(upon: object) -> None:
    storage, path = taken_one_by_one(12)
    storage.put(path, json.dumps({"source": ID, "uri": URI, "upon": upon, "files": {}, "retaken": {}}).encode())
    with pytest.raises(Corrupt):
        read(storage, path)


@pytest.mark.parametrize("name", ["upon", "files", "retaken"])
def test_a_ledger_without_a_field_is_refused(name: str) -> None:
    storage, path = taken_one_by_one(1)
    said = json.loads(storage.get(path))
    del said[name]
    storage.put(path, json.dumps(said).encode())
    with pytest.raises(Corrupt, match=f"{path} is not a source ledger") as refused:
        read(storage, path)
    assert name in refused.value.found

"""Goal: every backend keeps the contract of storage/protocol.py. One suite; a backend joins by one line."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import AlreadyExists, InvalidRequest, NotFound
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.object_store import ObjectStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import FaultyStorage

Make: TypeAlias = Callable[[Path, pytest.FixtureRequest], Storage]
BACKENDS: dict[str, Make] = {
    "memory": lambda folder, _: MemoryStorage("contract"),
    "local": lambda folder, _: LocalStorage(folder / "root"),
    "faulty": lambda folder, _: FaultyStorage(MemoryStorage("contract")),
    "s3": lambda _, request: request.getfixturevalue("make_s3")(),
    "azure": lambda _, request: request.getfixturevalue("make_azure")(),
}
NOT_ATOMIC = {"s3"}  # the tests' server looks first and writes then, with no lock: a race on it tests nothing of ours

ODD_NAMES = [
    "origin=JFK/month=1/a.parquet",
    "per%20cent/100%/%2F",
    "with space/ leading and trailing ",
    "Zürich/日本/🛫.log",
    "zu\u0308rich/decomposed",
    ".hoodie/.aux/.hidden",
    "quote'\"/back\\slash/semi;colon/a&b?c#d",
    "a" * 200,
    "-dash/--option",
    "...",
    "..a/b..",
]
REWRITTEN_BY_AZURE = {name for name in ODD_NAMES if "\\" in name or "..." in name or name.endswith(".")}
BAD_PATHS = ["", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "a\0b"]


@pytest.fixture(params=BACKENDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return BACKENDS[request.param](tmp_path, request)


@pytest.fixture(params=[name for name in BACKENDS if name not in NOT_ATOMIC])
def atomic_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return BACKENDS[request.param](tmp_path, request)


def paths(storage: Storage, prefix: str = "") -> list[str]:
    return [found.path for found in storage.list(prefix)]


LARGE = random.Random(1).randbytes(20_000_000)
BODIES: list[tuple[object, bytes]] = [
    (b"", b""),
    (b"whole", b"whole"),
    (memoryview(b"w.h.o.l.e")[::2], b"whole"),
    (pa.py_buffer(b"-whole-").slice(1, 5), b"whole"),
    (LARGE, LARGE),
]
MORE_BODIES: list[tuple[object, bytes]] = [
    (bytearray(b"whole"), b"whole"),
    (memoryview(b"-whole-")[1:-1], b"whole"),
    (memoryview(b"abcdabcd").cast("I"), b"abcdabcd"),
    (memoryview(b"").cast("I"), b""),
    (pa.py_buffer(b"whole"), b"whole"),
    (pa.py_buffer(b""), b""),
]
"""Other kinds of buffers, for the storages that handle bodies themselves; what they hand on is in `BODIES`."""


@pytest.mark.parametrize("put", ["put", "put_if_absent"])
def test_get_gives_the_whole_body_that_was_put(storage: Storage, put: str) -> None:
    is_own = isinstance(storage, MemoryStorage | LocalStorage)
    for number, (body, expected) in enumerate([*BODIES, *(MORE_BODIES if is_own else [])]):
        path, what = f"a{number}/b", f"body {number}, {type(body).__name__} of {len(expected)} bytes"
        getattr(storage, put)(path, body)
        assert storage.get(path) == expected, what
        info = storage.head(path)
        assert info is not None, what
        assert (info.path, info.name, info.size_bytes) == (path, "b", len(expected)), what
        assert list(storage.list()) == [info], what
        storage.delete(path)


def test_put_replaces(storage: Storage) -> None:
    storage.put("a", b"long before")
    storage.put("a", b"after")
    assert storage.get("a") == b"after"
    assert paths(storage) == ["a"]


def test_put_if_absent_keeps_the_first(storage: Storage) -> None:
    storage.put_if_absent("a/b", b"first")
    with pytest.raises(AlreadyExists, match="a/b"):
        storage.put_if_absent("a/b", b"second")
    assert storage.get("a/b") == b"first"
    storage.delete("a/b")
    storage.put_if_absent("a/b", b"third")
    assert storage.get("a/b") == b"third"


def test_put_if_absent_has_one_winner_between_threads(atomic_storage: Storage) -> None:
    start = threading.Barrier(8)

    def race(me: int) -> list[int]:
        won = []
        for number in range(40):
            start.wait()
            try:
                atomic_storage.put_if_absent(f"race/{number}", b"%d" % me)
                won.append(number)
            except AlreadyExists:
                assert atomic_storage.get(f"race/{number}")
        return won

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(8)))
    assert sorted(number for wins in won for number in wins) == list(range(40))
    for me, wins in enumerate(won):
        assert all(atomic_storage.get(f"race/{number}") == b"%d" % me for number in wins)


def test_list_is_recursive_and_sorted_by_the_whole_path(storage: Storage) -> None:
    names = ["a/b", "a-b", "a", "B", "a.b", "é", "z", "ab/c/d", "ab/c-d", "ab/c.d", "a0"]
    names.remove("a")  # a file and a folder of one name: undefined, a disk has no such thing
    for name in names:
        storage.put(name, name.encode())
    assert paths(storage) == sorted(names)
    assert paths(storage, "ab") == ["ab/c-d", "ab/c.d", "ab/c/d"]
    assert paths(storage, "ab/c") == ["ab/c/d"]
    assert paths(storage, "a0") == []  # a file is no folder
    assert paths(storage, "none/such") == []


def test_list_folder_gives_files_and_the_names_of_folders(storage: Storage) -> None:
    for name in ["t/f1", "t/d/x", "t/d-e/x", "t/d.e/x/y", "t/f0", "u/x", ".hoodie/timeline/1", "g"]:
        storage.put(name, b"1")
    found = storage.list_folder("t")
    assert [info.path for info in found.files] == ["t/f0", "t/f1"]
    assert found.folders == ("d", "d-e", "d.e")
    root = storage.list_folder()
    assert ([info.path for info in root.files], root.folders) == (["g"], (".hoodie", "t", "u"))
    assert storage.list_folder("none") == storage.list_folder("g") == type(found)((), ())


def test_new_names_of_a_folder_and_those_that_are_gone(storage: Storage) -> None:
    for name in ["t/f1", "t/d/x", "t/f0", "u/x"]:
        storage.put(name, b"1")
    first = storage.list_new("t", frozenset())
    assert ([*first.files], first.gone) == ([*storage.list_folder("t").files], frozenset())
    storage.put("t/f2", b"22")
    storage.delete("t/f0")
    news = storage.list_new("t", frozenset({"f0", "f1", "f9"}))
    assert [(info.path, info.size_bytes) for info in news.files] == [("t/f2", 2)]
    assert news.gone == {"f0", "f9"}
    assert storage.list_new("none", frozenset({"a"})) == type(news)((), frozenset({"a"}))
    assert storage.list_new("t/f1", frozenset()) == type(news)((), frozenset())
    assert storage.list_new("", frozenset()) == type(news)((), frozenset())


def test_a_folder_is_gone_with_its_last_file(storage: Storage) -> None:
    storage.put("a/b/c/d", b"1")
    storage.put("a/e", b"1")
    storage.delete("a/b/c/d")
    assert storage.list_folder("a").folders == ()
    storage.delete("a/e")
    assert storage.list_folder().folders == ()
    storage.put("a/b/c/d", b"2")
    assert paths(storage) == ["a/b/c/d"]


def test_odd_names_are_kept_as_they_are_or_refused(storage: Storage) -> None:
    for name in ODD_NAMES:
        if storage.uri.startswith("az:") and name in REWRITTEN_BY_AZURE:
            for call in (storage.get, storage.head, storage.delete, storage.list, partial(storage.put, body=b"1")):
                with pytest.raises(InvalidRequest, match="Azure would not keep"):
                    call(name)
            assert paths(storage) == [], name
            continue
        storage.put_if_absent(name, b"1")
        storage.put(name, name.encode())
        assert storage.get(name) == name.encode()
        assert storage.open_input(name).read() == name.encode()
        assert paths(storage) == [name]
        assert storage.head(name) == storage.list()[0]
        folder, _, _ = name.rpartition("/")
        assert [found.path for found in storage.list_folder(folder).files] == [name]
        storage.delete(name)
        assert storage.head(name) is None
        assert paths(storage) == [], name


def test_control_characters_are_kept_or_refused(storage: Storage) -> None:
    name = "new\nline/tab\t"
    if isinstance(storage, ObjectStorage):  # its client library knows no such names
        for call in (storage.get, storage.head, storage.delete, storage.list):
            with pytest.raises(InvalidRequest, match="new"):
                call(name)
        for put in (storage.put, storage.put_if_absent):
            with pytest.raises(InvalidRequest, match="new"):
                put(name, b"1")
        assert paths(storage) == []
        return
    storage.put_if_absent(name, b"1")
    assert storage.get(name) == b"1"
    assert paths(storage) == [name]


def test_bad_paths_are_refused_everywhere(storage: Storage) -> None:
    for path in BAD_PATHS:
        for call in (storage.get, storage.open_input, storage.head, storage.delete):
            with pytest.raises(InvalidRequest):
                call(path)
        for put in (storage.put, storage.put_if_absent):
            with pytest.raises(InvalidRequest):
                put(path, b"")
        for look in (storage.list, storage.list_folder, partial(storage.list_new, known=frozenset())):
            if path:
                with pytest.raises(InvalidRequest):
                    look(path)
        assert paths(storage) == [], path


def test_nothing_there(storage: Storage) -> None:
    storage.put("a/b", b"1")
    for path in ("x", "a", "a/b/c", "x/y/z"):
        with pytest.raises(NotFound, match=path):
            storage.get(path)
        with pytest.raises(NotFound, match=path):
            storage.open_input(path)
        assert storage.head(path) is None
        storage.delete(path)
    assert paths(storage) == ["a/b"]


def test_an_empty_storage_lists_nothing(storage: Storage) -> None:
    assert list(storage.list()) == []
    assert storage.list_folder().files == storage.list_folder().folders == ()
    storage.delete("a")


@pytest.mark.full("moves gigabytes or thousands of files")
def test_thousands_of_names(storage: Storage) -> None:
    # Listings of object stores come in pages of a thousand; the tests' server is slow.
    count = 3_000 if isinstance(storage, ObjectStorage) else 10_000
    names = [f"p={number % 7}/{number:05d}" for number in range(count)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: storage.put_if_absent(name, name.encode()), names))
    found = storage.list()
    assert [info.path for info in found] == sorted(names)
    assert {info.size_bytes for info in found} == {9}
    assert len(storage.list_folder("p=3").files) == len(storage.list("p=3")) == len(names[3::7])
    assert storage.list_folder().folders == tuple(f"p={number}" for number in range(7))


def test_parquet_reads_ranges(storage: Storage) -> None:
    table = pa.table({"key": pa.array(range(100_000)), "value": pa.array([f"v{n}" for n in range(100_000)])})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=10_000)
    storage.put("a/f.parquet", sink.getvalue())
    with storage.open_input("a/f.parquet") as source:
        assert source.size() == sink.getvalue().size
        file = pq.ParquetFile(source)
        assert file.read_row_group(7, columns=["value"]).column("value")[0].as_py() == "v70000"
        assert file.read().equals(table)
        assert source.read_at(4, 0) == b"PAR1"


def test_an_opened_file_outlives_its_replacement(storage: Storage) -> None:
    storage.put("a", b"before")
    with storage.open_input("a") as source:
        storage.put("a", b"after!")
        assert source.read() == b"before"
    with storage.open_input("a") as source:
        storage.delete("a")
        assert source.read() == b"after!"

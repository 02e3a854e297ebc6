"""Goal: a URI or a plain path leads to one storage, and back."""

from pathlib import Path

import pytest

from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_folder, open_storage
from hudi_ops.storage.paths import is_inside, join
from hudi_ops.testing.clock import ManualClock


@pytest.mark.parametrize("name", ["trips", "with space", "a=1%20b", "Zürich", "hash#q?"])
def test_the_uri_opens_the_same_storage(tmp_path: Path, name: str) -> None:
    storage = LocalStorage(tmp_path / name)
    storage.put("a", b"1")
    for uri in (storage.uri, storage.uri.replace("file://", "file:"), str(tmp_path / name), f"{storage.uri}/"):
        again = open_storage(uri)
        assert again.get("a") == b"1"
        assert again.uri == storage.uri


def test_a_relative_path_is_taken_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_storage("tables/../trips").uri == (tmp_path / "trips").as_uri()


@pytest.mark.parametrize("scheme", ["hdfs", "memory", "https"])
def test_other_schemes_are_refused(scheme: str) -> None:
    with pytest.raises(Unsupported, match=f"{scheme}://"):
        open_storage(f"{scheme}://bucket/trips")


@pytest.mark.parametrize("uri", ["", "file://elsewhere/trips", "file:///trips?x=1"])
def test_bad_uris_are_refused(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        open_storage(uri)


def test_join_leaves_out_the_root() -> None:
    assert join("", "a", "", "b/c") == "a/b/c"
    assert is_inside(join("a", "b"), "a")
    assert not is_inside("a", "a")
    assert is_inside("a", "")


def test_a_copy_in_memory_stands_still_and_dumps_for_other_readers(tmp_path: Path) -> None:
    storage = MemoryStorage("trips", ManualClock(1_000, tick_ms=5))
    storage.put("p=1/a", b"1")
    storage.put("b", b"2")
    copy = storage.copy()
    storage.put("b", b"changed")
    storage.delete("p=1/a")
    assert [(found.path, found.modified_ms) for found in copy.list()] == [("b", 1_005), ("p=1/a", 1_000)]
    dumped = LocalStorage(copy.dump(tmp_path / "out"))
    assert {found.path: dumped.get(found.path) for found in dumped.list()} == {"b": b"2", "p=1/a": b"1"}
    assert copy.uri == "memory://trips"


def test_a_source_has_one_uri_however_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    direct, linked = (open_folder(str(tmp_path / name / "in")) for name in ("real", "link"))
    assert linked.uri == direct.uri == (tmp_path.resolve() / "real" / "in").as_uri()

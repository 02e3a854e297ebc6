"""Goal: what LocalStorage promises beyond the contract: error classes, hidden temp files, kept folders. Real disk."""

import errno
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hudi_ops.errors import (
    AlreadyExists,
    HudiOpsError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    Unavailable,
    Unsupported,
)
from hudi_ops.storage import disk
from hudi_ops.storage.local import LocalStorage

TEMP = ".hoodie/.hudi_ops_tmp"
PUTS: list[Callable[[LocalStorage, str, bytes], None]] = [LocalStorage.put, LocalStorage.put_if_absent]


def refused(number: int, **how: bool) -> type[HudiOpsError]:
    with pytest.raises(HudiOpsError) as caught:
        disk.fail_naming(OSError(number, os.strerror(number)), Path("a/b"), by_link=how["by_link"])
    assert "a/b" in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    return caught.type


@pytest.mark.parametrize(
    ("number", "linking", "renaming"),
    [
        (errno.ENOSPC, Unavailable, Unavailable),
        (errno.EDQUOT, Unavailable, Unavailable),
        (errno.EACCES, PermissionDenied, PermissionDenied),
        (errno.EROFS, PermissionDenied, PermissionDenied),
        (errno.EPERM, Unsupported, PermissionDenied),
        (errno.EXDEV, Unsupported, Unavailable),
        (errno.EOPNOTSUPP, Unsupported, Unavailable),
        (errno.ENAMETOOLONG, InvalidRequest, InvalidRequest),
        (errno.EIO, OutcomeUnknown, OutcomeUnknown),
        (errno.ETIMEDOUT, OutcomeUnknown, OutcomeUnknown),
        (errno.ESTALE, OutcomeUnknown, OutcomeUnknown),
    ],
)
def test_a_refused_name_landed_not_and_a_failed_one_perhaps(
    number: int, linking: type[HudiOpsError], renaming: type[HudiOpsError]
) -> None:
    assert refused(number, by_link=True) is linking
    assert refused(number, by_link=False) is renaming


@pytest.mark.parametrize("put", PUTS)
def test_a_disk_that_runs_full_leaves_nothing(tmp_path: Path, put: Callable[..., None]) -> None:
    # A limit on file sizes fails the write after its first part, as a full disk does, without needing one.
    script = (
        "import resource, sys\n"
        "from hudi_ops.errors import Unavailable\n"
        "from hudi_ops.storage.local import LocalStorage\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: getattr(LocalStorage(sys.argv[1]), sys.argv[2])('a/b', bytes(300_000))\n"
        "except Unavailable as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), put.__name__], capture_output=True, text=True, check=True
    )
    assert "a/b could not be written: File too large" in done.stdout
    assert list(LocalStorage(tmp_path).list()) == []
    assert list((tmp_path / TEMP).iterdir()) == []


@pytest.mark.parametrize("put", PUTS)
def test_names_that_a_disk_cannot_hold_are_invalid(tmp_path: Path, put: Callable[..., None]) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("file", b"1")
    storage.put("folder/file", b"1")
    for path in ("x" * 300, "file/below", "file/far/below", "folder"):
        with pytest.raises(InvalidRequest, match=path[:20]):
            put(storage, path, b"2")
    assert [found.path for found in storage.list()] == ["file", "folder/file"]
    assert list((tmp_path / TEMP).iterdir()) == []


def test_without_hard_links_exclusive_creation_is_unsupported(tmp_path: Path) -> None:
    # A temp folder behind a link onto another file system: link(2) refuses as on a file system that has no links.
    other = Path("/dev/shm") / f"{os.getpid()}-{tmp_path.name}"
    other.mkdir()
    try:
        assert other.stat().st_dev != tmp_path.stat().st_dev
        (tmp_path / "temp").symlink_to(other)
        storage = LocalStorage(tmp_path, temp_folder="temp")
        with pytest.raises(Unsupported, match="hard links"):
            storage.put_if_absent("a", b"1")
        with pytest.raises(Unavailable):
            storage.put("a", b"1")
        assert storage.head("a") is None
        assert list(other.iterdir()) == []
    finally:
        other.rmdir()


def test_the_temp_folder_is_hidden_and_closed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / TEMP).mkdir(parents=True)
    (tmp_path / TEMP / "left").write_bytes(b"torn")
    assert list(storage.list()) == list(storage.list(".hoodie")) == []
    assert storage.list_folder().folders == storage.list_folder(".hoodie").folders == ()
    storage.put(".hoodie/hoodie.properties", b"1")
    assert [found.path for found in storage.list()] == [".hoodie/hoodie.properties"]
    for call in (storage.get, storage.head, storage.delete, storage.list, storage.list_folder):
        with pytest.raises(InvalidRequest, match="temp folder"):
            call(f"{TEMP}/left")
    with pytest.raises(InvalidRequest, match="temp folder"):
        storage.put(TEMP, b"1")


def test_sweep_takes_what_is_old_enough(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert storage.sweep_temp(0, 10**15) == 0
    (tmp_path / TEMP).mkdir(parents=True)
    for name, modified_s in (("old", 1000), ("young", 2000)):
        (tmp_path / TEMP / name).write_bytes(b"1")
        os.utime(tmp_path / TEMP / name, (modified_s, modified_s))
    assert storage.sweep_temp(older_than_ms=600_000, now_ms=2_100_000) == 1
    assert [left.name for left in (tmp_path / TEMP).iterdir()] == ["young"]


def test_a_sweep_spares_a_name_linked_to_its_leftover(tmp_path: Path) -> None:
    # Killed between link and unlink: the name is whole, and the temp file is the same inode.
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("a/b", b"whole")
    os.link(tmp_path / "a/b", tmp_path / TEMP / "1-left")
    assert storage.sweep_temp(0, 10**15) == 1
    assert storage.get("a/b") == b"whole"


def test_delete_prunes_up_to_the_kept_folders(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "root")
    paths = ["p=1/q=2/f", ".hoodie/timeline/history/f", ".hoodie/.commit_log/00000000/f"]
    for path in paths:
        storage.put(path, b"1")
    for path in paths:
        storage.delete(path)
    left = sorted(str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*"))
    assert left == ["root", "root/.hoodie", "root/.hoodie/.commit_log", f"root/{TEMP}", "root/.hoodie/timeline"]


def test_an_empty_folder_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    storage = LocalStorage(tmp_path)
    assert storage.list_folder().folders == ()
    storage.put("a/b/c/f", b"1")
    assert storage.list_folder().folders == ("a",)


def test_folders_and_links_to_nothing_are_not_files(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert list(storage.list()) == []
    assert storage.head("folder") is storage.head("pipe") is None
    with pytest.raises(NotFound):
        storage.get("folder")


def test_files_keep_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / "plain").touch()
    storage.put("put", b"1")
    storage.put_if_absent("created", b"1")
    assert {(tmp_path / name).stat().st_mode for name in ("plain", "put", "created")} == {
        (tmp_path / "plain").stat().st_mode
    }


def test_it_pickles_with_its_temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage("rel", temp_folder="tmp/here")
    monkeypatch.chdir("/")
    twin = pickle.loads(pickle.dumps(storage))
    twin.put("a", b"1")
    assert (twin.uri, twin.root) == (storage.uri, tmp_path / "rel")
    assert storage.get("a") == b"1"
    assert [found.path for found in twin.list()] == ["a"]
    with pytest.raises(InvalidRequest):
        twin.get("tmp/here/x")


def test_one_name_has_one_inode_after_a_lost_race(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("a", b"1")
    with pytest.raises(AlreadyExists):
        storage.put_if_absent("a", b"2")
    assert (tmp_path / "a").stat().st_nlink == 1
    assert list((tmp_path / TEMP).iterdir()) == []


def test_folders_that_a_disk_cannot_hold_are_no_outage(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for ask in (storage.list, storage.list_folder, partial(storage.list_new, known=frozenset())):
        with pytest.raises(InvalidRequest, match="too long"):
            ask("x" * 300)


@pytest.mark.parametrize(
    ("link", "target"), [("loop", "."), ("deep/loop", ".."), ("deep/up", "../.."), ("self", "self")]
)
def test_links_in_a_circle_are_named_once(tmp_path: Path, link: str, target: str) -> None:
    root = tmp_path / "root"
    storage = LocalStorage(root)
    storage.put("deep/a", b"1")
    (root / link).symlink_to(target)
    with pytest.raises(InvalidRequest) as caught:
        storage.list()
    assert link.rpartition("/")[2] in caught.value.what
    assert len(caught.value.what) < 300 + len(str(tmp_path))


def test_links_to_folders_beside_are_followed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "root")
    storage.put("a/file", b"1")
    (tmp_path / "root" / "b").symlink_to("a")
    assert [info.path for info in storage.list()] == ["a/file", "b/file"]


def test_many_deletions_wait_for_the_disk_once_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    for name in ("a/1", "a/2", "b/c/1", "b/c/2", "b/d/1"):
        storage.put(name, b"x")
    synced: list[tuple[str, list[str]]] = []

    def sync(folder: Path) -> None:
        synced.append((str(folder.relative_to(tmp_path)), [info.path for info in storage.list()]))

    monkeypatch.setattr(disk, "sync_folder", sync)
    storage.delete_all(["a/1", "b/c/1", "gone/1", "b/c/2", "b/d/1"])
    assert sorted(folder for folder, _ in synced) == [".", "a"]
    assert all(left == ["a/2"] for _, left in synced)


@pytest.mark.parametrize("put", PUTS)
def test_a_put_waits_for_its_folders_then_for_the_body_and_last_for_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[LocalStorage, str, bytes], None]
) -> None:
    root = tmp_path.resolve() / "trips"
    file = root / "a/b"
    syncs: list[tuple[Path, bool]] = []  # the path of each sync, and whether the file exists

    def sync(descriptor: int) -> None:
        syncs.append((Path(f"/proc/self/fd/{descriptor}").readlink(), file.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    put(LocalStorage(str(root)), "a/b", b"body")
    assert syncs[-1] == (file.parent, True)
    assert [exists for _, exists in syncs].count(True) == 1
    assert [path.parent for path, _ in syncs].count(root / TEMP) == 1
    # A folder is a name in the folder above it.
    assert {tmp_path.resolve(), root, root / ".hoodie"} <= {path for path, _ in syncs}

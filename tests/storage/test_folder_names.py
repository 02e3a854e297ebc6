"""Goal: an unchanged folder of a local disk is not read again, and no change is missed. Real disk, real times, stepped clock."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hudi_ops.storage.folder_names import FolderNames, Names, Now, Stamp
from hudi_ops.storage.local import LocalStorage

SECOND_NS = 1_000_000_000
NOTHING = Names((), frozenset())


def mounts_of(folder: Path, kind: str, numbers: str | None = None) -> str:
    device = folder.stat().st_dev
    numbers = numbers or f"{os.major(device)}:{os.minor(device)}"
    return f"36 35 {numbers} / {folder} rw,relatime shared:1 - {kind} /dev/disk rw\n"


class Disk:
    """A folder `root/t` whose readings are counted, a clock that is ahead of its times, and a table of mounts."""

    def __init__(self, work: Path, kind: str = "ext4", ahead_ns: int = 10 * SECOND_NS) -> None:
        self.root = work / "root"
        self.folder = self.root / "t"
        self.folder.mkdir(parents=True)
        self.table = work / "mounts"
        self.table.write_text(mounts_of(self.root, kind))
        self.ahead_ns = ahead_ns
        self.readings = 0
        self.names = FolderNames(self.root, mounts=self.table, clock=self.now, read=self.read)

    def now(self) -> Now:
        wall_ns = time.time_ns() + self.ahead_ns
        return Now(wall_ns, wall_ns - time.monotonic_ns())

    def read(self, place: str) -> list[str]:
        self.readings += 1
        return os.listdir(place)  # noqa: PTH208

    def look(self, *known: str, folder: str = "t") -> tuple[set[str], set[str]]:
        found = self.names.beside(folder, frozenset(known))
        return set(found.fresh), set(found.gone)

    def put(self, name: str) -> None:
        (self.folder / name).touch()

    def is_read_again(self) -> bool:
        before = self.readings
        self.look()
        return self.readings > before


def test_an_unchanged_folder_is_read_once(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.put("a")
    disk.put("b")
    known = frozenset({"a", "x"})
    assert [disk.names.beside("t", known) for _ in range(3)] == [Names(("b",), frozenset({"x"}))] * 3
    assert disk.look() == ({"a", "b"}, set())
    assert disk.look("a", "b") == (set(), set())
    assert disk.look("b", "y") == ({"a"}, {"y"})
    assert disk.look("a", "x") == ({"b"}, {"x"})
    assert disk.readings == 1


def test_a_new_a_removed_and_a_renamed_name_are_seen(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.put("a")
    assert disk.look("a") == (set(), set())
    disk.put("b")
    assert disk.look("a") == ({"b"}, set())
    (disk.folder / "a").unlink()
    assert disk.look("a", "b") == (set(), {"a"})
    (disk.folder / "b").rename(disk.folder / "c")
    assert disk.look("b") == ({"c"}, {"b"})
    (disk.folder / "d").hardlink_to(disk.folder / "c")
    (disk.folder / "e").symlink_to("c")
    assert disk.look("c") == ({"d", "e"}, set())


def test_a_file_of_another_process_is_seen(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    for name in ("a", "b"):
        subprocess.run([sys.executable, "-c", f"open({str(disk.folder / name)!r}, 'w')"], check=True)
        assert name in disk.look()[0]


def test_times_set_back_do_not_hide_a_change(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    before = disk.folder.stat()
    os.utime(disk.folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert disk.look() == (set(), set())
    disk.put("a")
    os.utime(disk.folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert disk.folder.stat().st_mtime_ns == before.st_mtime_ns
    assert disk.look() == ({"a"}, set())


def test_a_folder_that_changed_just_now_is_read_each_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path, ahead_ns=-10 * SECOND_NS)
    disk.look()
    assert [disk.is_read_again() for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(
    ("modified_ns", "changed_ns", "settled_ns"),
    [
        (5 * SECOND_NS + 1, 5 * SECOND_NS + 1, 5 * SECOND_NS + 1_000_001),
        (5 * SECOND_NS, 5 * SECOND_NS, 7 * SECOND_NS),  # perhaps rounded down
        (1, 5 * SECOND_NS + 1, 5 * SECOND_NS + 1_000_001),
        (9 * SECOND_NS, 5 * SECOND_NS + 1, 9 * SECOND_NS + 1_000_000),
    ],
)
def test_a_stamp_settles_once_the_clock_has_passed_it(modified_ns: int, changed_ns: int, settled_ns: int) -> None:
    stamp = Stamp(1, 2, modified_ns, changed_ns)
    assert not stamp.is_settled(settled_ns - 1)
    assert stamp.is_settled(settled_ns)
    assert not stamp.is_settled(0)


def test_a_folder_is_read_again_after_the_clock_was_set_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.look()
    assert not disk.is_read_again()
    disk.ahead_ns -= 5 * SECOND_NS
    assert disk.is_read_again()
    assert not disk.is_read_again()


def test_a_folder_with_a_time_in_the_future_is_read_each_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    ahead = time.time_ns() + 3600 * SECOND_NS
    os.utime(disk.folder, ns=(ahead, ahead))
    disk.look()
    assert disk.is_read_again()


def test_every_name_of_a_busy_folder_is_seen_at_once(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    names = FolderNames(disk.root)  # the machine's own clock and mounts
    known: frozenset[str] = frozenset()
    for number in range(300):
        disk.put(f"{number}")
        fresh, gone = names.beside("t", known)
        assert (fresh, gone) == ((f"{number}",), frozenset())
        known |= {*fresh}
        assert names.beside("t", known) == NOTHING


def test_another_folder_under_the_name_is_read(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.put("a")
    disk.look()
    disk.folder.rename(disk.root / "old")
    disk.folder.mkdir()
    assert disk.look("a") == (set(), {"a"})
    assert disk.look("a", folder="old") == (set(), set())


def test_a_folder_that_comes_and_goes(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    assert disk.look("a", folder="u") == (set(), {"a"})
    (disk.root / "u").mkdir()
    (disk.root / "u/a").touch()
    assert disk.look("a", folder="u") == (set(), set())
    (disk.root / "u/a").unlink()
    (disk.root / "u").rmdir()
    assert disk.look("a", folder="u") == (set(), {"a"})
    (disk.root / "u").touch()
    assert disk.look("a", folder="u") == (set(), {"a"})


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "smb3", "fuse.sshfs", "virtiofs", "9p", "ocfs2", "unheard-of"])
def test_file_systems_that_may_be_shared_are_read_each_time(tmp_path: Path, kind: str) -> None:
    disk = Disk(tmp_path, kind)
    disk.look()
    assert [disk.is_read_again() for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("kind", ["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs"])
def test_local_file_systems_are_read_once(tmp_path: Path, kind: str) -> None:
    disk = Disk(tmp_path, kind)
    disk.look()
    assert not disk.is_read_again()


def test_a_system_that_does_not_tell_its_mounts_is_read_each_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.table.unlink()
    disk.look()
    assert disk.is_read_again()
    disk.table.write_text("something else\n")
    assert disk.is_read_again()


def test_the_mount_nearest_to_the_root_decides(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    own, above = mounts_of(disk.root, "nfs4"), mounts_of(tmp_path, "ext4")
    for table, is_read in {
        above: False,
        f"{own}{above}": True,
        f"{above}{own}": True,
        f"{own}{own.replace('nfs4', 'ext4')}": False,  # mounted over the other
        f"{own.replace('nfs4', 'ext4')}{own}": True,
        f"{above}{own.replace(' / ', ' / ', 1).replace(str(disk.root), f'{disk.root}2')}": False,
        mounts_of(disk.root, "ext4", numbers="7:7"): True,
        mounts_of(disk.root, "btrfs", numbers="7:7"): False,
    }.items():
        disk.table.write_text(table)
        disk.names = FolderNames(disk.root, mounts=disk.table, clock=disk.now, read=disk.read)
        disk.look()
        assert disk.is_read_again() is is_read, table


def test_a_mount_point_with_a_blank_is_understood(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "a b")
    disk.table.write_text(mounts_of(tmp_path, "nfs4") + mounts_of(disk.root, "ext4").replace("a b", r"a\040b"))
    disk.look()
    assert not disk.is_read_again()


def test_a_link_to_another_file_system_is_read_each_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    (disk.root / "far").symlink_to("/proc")
    for _ in range(2):
        before = disk.readings
        disk.look(folder="far")
        assert disk.readings == before + 1


def test_a_storage_reads_an_unchanged_folder_once_and_pickles_without_its_names(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put("t/a", b"1")
    (tmp_path / "t/b").symlink_to("c")
    known = frozenset({"a"})
    for _ in range(2):
        assert storage.list_new("t", known).files == ()
    (tmp_path / "c").write_bytes(b"22")
    (tmp_path / "t/c").write_bytes(b"22")
    assert [(info.name, info.size_bytes) for info in storage.list_new("t", known).files] == [("b", 2), ("c", 2)]
    again = pickle.loads(pickle.dumps(storage))
    assert again.list_new("t", known) == storage.list_new("t", known)
    assert len(pickle.dumps(again)) == len(pickle.dumps(LocalStorage(tmp_path)))

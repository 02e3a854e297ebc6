"""Cache the names in local folders; read a folder again only if it may have changed.

The invariant: a cached answer is used only if a new reading of the folder would return the same names. Every new, removed or
renamed name sets the folder's change time (ctime) by the kernel's coarse clock, and no program can set that time itself. A reading
first reads this clock, then the folder's times, then its names. If the clock is later than the change time, any change during or
after the reading gets a later change time. So as long as device, inode, modification and change time are the same, no name has
changed. A folder that changed within the same tick of the clock is read each time, as git does with files as young as its index.

The cache is not used on network disks, which answer from caches of their own, on FUSE, and on any other file system that is not
known to be local: there every call reads the folder. An answer from before the clock was set back is not used either.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hudi_ops.storage import disk

LOCAL_TYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs"})
"""File systems that set the times of their folders on this machine."""

FOLDERS_KEPT_MAX = 256
"""Largest number of folders whose names are remembered; the one asked for longest ago is forgotten first."""

_PASSED_NS = 1_000_000
"""Time in ns by which the clock must have passed a stamp. The clock advances in steps of 1 to 10 ms."""
_PASSED_SECONDS_NS = 2_000_000_000
"""The same for a file system that stores whole seconds, such as ext3."""

_MOUNTS = Path("/proc/self/mountinfo")
_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, which stamps files. It may lag behind the precise clock by a tick."""


class Stamp(NamedTuple):
    """Facts of a folder that change whenever its names change."""

    device: int
    inode: int
    modified_ns: int
    changed_ns: int

    def is_settled(self, now_ns: int) -> bool:
        """Return whether every later change of the folder will give it another stamp.

        A time in whole seconds may come from a file system that stores no fractions.
        """
        step_ns = _PASSED_NS if self.changed_ns % 1_000_000_000 else _PASSED_SECONDS_NS
        return now_ns - max(self.modified_ns, self.changed_ns) >= step_ns


class Now(NamedTuple):
    """Time by the clock that stamps files, and the wall clock's offset from the monotonic one."""

    stamping_ns: int
    offset_ns: int


class Names(NamedTuple):
    """Names in a folder that a caller did not know, and known names that the folder lacks."""

    fresh: tuple[str, ...]
    gone: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Cached result of a reading, relative to the names that its caller knew.

    Attributes:
        stamp: stamp of the folder before it was read.
        offset_ns: offset of the wall clock from the monotonic clock at that time.
    """

    stamp: Stamp
    offset_ns: int
    known: frozenset[str]
    names: Names


class FolderNames:
    """Names in the folders below a root; safe between threads.

    Args:
        root: folder to which the other folders are relative.
        mounts: file with the table of mounted file systems, in Linux's form.
        clock: returns the time by the clock that stamps files.
        read: lists a folder.
    """

    def __init__(
        self,
        root: Path,
        *,
        mounts: Path = _MOUNTS,
        clock: Callable[[], Now] | None = None,
        read: Callable[[str], list[str]] = os.listdir,
    ) -> None:
        self._root = str(root)
        self._mounts = mounts
        self._clock = clock or _now
        self._read = read
        self._kept: dict[str, _Kept] = {}
        self._local: dict[tuple[int, int], bool] = {}

    def beside(self, folder: str, known: frozenset[str]) -> Names:
        """Return how the names in a folder differ from those known.

        A folder that is absent has no names.

        Raises:
            OSError: the disk's own.
        """
        place = f"{self._root}/{folder}"
        now = self._clock()
        stamp = _stamp_of(place)
        kept = self._kept.pop(folder, None)
        if kept is None or kept.stamp != stamp or now.offset_ns < kept.offset_ns - _PASSED_NS // 2:
            names = _beside(self._listed(place), known)
            if stamp is None or not stamp.is_settled(now.stamping_ns) or not self._is_local(stamp):
                return names
            kept = _Kept(stamp, now.offset_ns, known, names)
        elif kept.known is not known:
            fresh, gone = kept.names
            listed = (kept.known - gone if gone else kept.known).union(fresh)
            kept = _Kept(kept.stamp, kept.offset_ns, known, Names(tuple(listed - known), known - listed))
        self._kept[folder] = kept
        # Copy the keys: other threads may list other folders at the same time.
        for forgotten in list(self._kept)[:-FOLDERS_KEPT_MAX]:
            self._kept.pop(forgotten, None)
        return kept.names

    def _listed(self, place: str) -> list[str]:
        try:
            return self._read(place)
        except OSError as error:
            if error.errno in disk.ABSENT:
                return []
            raise

    def _is_local(self, stamp: Stamp) -> bool:
        """Return whether a folder is on the root's file system, and it sets times on this machine."""
        try:
            found = os.stat(self._root)  # noqa: PTH116
            root = found.st_dev, found.st_ino
            if root not in self._local:
                self._local = {root: _type_of(self._mounts, os.path.realpath(self._root), found.st_dev) in LOCAL_TYPES}
        except (OSError, ValueError):
            return False
        return stamp.device == found.st_dev and self._local.get(root, False)


def _beside(listed: list[str], known: frozenset[str]) -> Names:
    names = frozenset(listed)
    fresh = names - known
    is_whole = len(names) == len(known) + len(fresh)
    return Names(tuple(fresh), frozenset() if is_whole else known - names)


def _now() -> Now:
    is_known = sys.platform == "linux"
    return Now(time.clock_gettime_ns(_COARSE_CLOCK) if is_known else 0, time.time_ns() - time.monotonic_ns())


def _stamp_of(place: str) -> Stamp | None:
    try:
        found = os.stat(place)  # noqa: PTH116
    except OSError:
        return None  # the reading of the folder raises the error
    return Stamp(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _type_of(mounts: Path, place: str, device: int) -> str:
    """Return the type of the file system of a folder; empty when the table does not say.

    Raises:
        OSError: this system has no such table.
        ValueError: the table has another form.
    """
    found, longest = "", -1
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        about, _, source = line.partition(" - ")
        numbers, _, point = about.split(" ")[2:5]
        folder = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point).rstrip("/")
        if len(folder) >= longest and (place == folder or place.startswith(f"{folder}/")):
            kind, major_minor = source.split(" ")[0], f"{os.major(device)}:{os.minor(device)}"
            # Folders of btrfs have the device numbers of their subvolumes. On other file systems another number means that the
            # table does not describe this place.
            found, longest = kind if numbers == major_minor or kind == "btrfs" else "", len(folder)
    return found

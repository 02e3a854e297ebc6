"""Cache the files of a partition folder from one listing to the next.

A copy-on-write group that is not cleaned has a file for each commit, and each commit lists its folder. A file of a completed
write does not change any more: it is taken from the last listing as long as the folder contains its name. Files of all other
instants are examined again, since a writer may still be writing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from weakref import WeakKeyDictionary

from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.file_group import DataFile

FOLDERS_KEPT_MAX = 256
"""Largest number of partition folders that are remembered; the one listed longest ago is forgotten first."""

_path_of = attrgetter("path")


class KnownFiles:
    """Files of one folder that do not change any more, in the order in which they were found.

    Files are only added, and by one listing at a time. Once a file is gone, a new object replaces this one.
    """

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self.files: list[DataFile] = []
        self.names: frozenset[str] = frozenset()
        self.first: dict[str, int] = {}
        """Position in `files` of the first file of each instant."""
        self.add(list(files))

    def add(self, files: Sequence[DataFile]) -> None:
        """Add files that were not there."""
        if files:
            for at, file in enumerate(files, len(self.files)):
                self.first.setdefault(file.instant, at)
            self.files += files
            self.names = self.names.union([file.name for file in files])


@dataclass(frozen=True)
class Listed:
    """One listing of a folder: `count` files of `known`, and others that may still change."""

    known: KnownFiles
    count: int
    changing: tuple[DataFile, ...] = ()

    def files(self) -> list[DataFile]:
        """Return all files of the listing by path."""
        return sorted([*self.known.files[: self.count], *self.changing], key=_path_of)


_known: WeakKeyDictionary[Storage, dict[str, KnownFiles]] = WeakKeyDictionary()
"""Known files by storage and partition path."""


def data_file(partition_path: str, info: FileInfo) -> DataFile | None:
    """Return the data file of a listed name; None for any other file of a partition."""
    name = parse_data_file(info.name)
    if name is None:
        return None
    return DataFile(partition_path, info.path, name.file_id, name.instant, info.size_bytes, name.is_log)


def listed_files(storage: Storage, partition_path: str, timeline: Timeline) -> list[DataFile]:
    """Return the data files of a folder by path; `timeline` must be read before this call."""
    return list_again(storage, partition_path, timeline).files()


def list_again(storage: Storage, partition_path: str, timeline: Timeline) -> Listed:
    """List the data files of a folder; `timeline` must be read before this call."""
    kept = _known.setdefault(storage, {})
    # Removed during the listing: another thread that lists the same folder now starts with no known files.
    known = kept.pop(partition_path, None) or KnownFiles()
    news = storage.list_new(partition_path, known.names)
    fresh = [file for info in news.files if (file := data_file(partition_path, info)) is not None]
    if news.gone:
        known = KnownFiles(file for file in known.files if file.name not in news.gone)
    settled = [file for file in fresh if _is_settled(file, timeline)]
    known.add(settled)
    kept[partition_path] = known
    # A copy of the names: other threads may list other folders at the same time.
    for forgotten in list(kept)[:-FOLDERS_KEPT_MAX]:
        kept.pop(forgotten, None)
    names = {file.name for file in settled}
    changing = tuple(file for file in fresh if file.name not in names)
    return Listed(known, len(known.files), changing)


def _is_settled(file: DataFile, timeline: Timeline) -> bool:
    """Return whether a file does not change any more, since its writer has completed.

    In layout 1 no file counts as settled: writers append to log files, whose names hold the instant of the base file. In layout 2
    a log file with the instant of a resize in its name does not count either.
    """
    if timeline.layout == 1:
        return False
    writer = timeline.find(file.instant)
    return writer is not None and writer.is_completed and (not file.is_log or writer.kind == "deltacommit")

"""Files of a partition folder, kept from one listing to the next.

A copy-on-write group that is not cleaned has a file for each commit, and each commit lists its folder. A file that a completed
write made does not change any more: it is taken from the last listing as long as its name is there. Files of all other instants are
looked at again, since a writer may still be filling them.
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
"""Partition folders that are remembered; of more, those that were listed longest ago are forgotten."""

_path_of = attrgetter("path")


class KnownFiles:
    """Files of one folder that do not change any more, in the order in which they were found.

    Files are only added, by the one listing at a time that holds it. Once a file is gone, another object takes its place.
    """

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self.files: list[DataFile] = []
        self.names: frozenset[str] = frozenset()
        self.first: dict[str, int] = {}
        """Place of the first file of each instant."""
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
        """Return all of them by path."""
        return sorted([*self.known.files[: self.count], *self.changing], key=_path_of)


_known: WeakKeyDictionary[Storage, dict[str, KnownFiles]] = WeakKeyDictionary()
"""By storage and partition path. What is forgotten is looked at again."""


def data_file(partition_path: str, info: FileInfo) -> DataFile | None:
    """Return the data file of a listed name; None for any other file of a partition."""
    name = parse_data_file(info.name)
    if name is None:
        return None
    return DataFile(partition_path, info.path, name.file_id, name.instant, info.size_bytes, name.is_log)


def listed_files(storage: Storage, partition_path: str, timeline: Timeline) -> list[DataFile]:
    """List the data files of a folder by path; `timeline` was read before."""
    return list_again(storage, partition_path, timeline).files()


def list_again(storage: Storage, partition_path: str, timeline: Timeline) -> Listed:
    """List the data files of a folder; `timeline` was read before."""
    kept = _known.setdefault(storage, {})
    # Taken out: another thread that lists the folder meanwhile begins anew.
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

    Log files of layout 1 are appended to, and carry the instant of their base file; in layout 2 those of a resize do so.
    """
    if timeline.layout == 1:
        return False
    writer = timeline.find(file.instant)
    return writer is not None and writer.is_completed and (not file.is_log or writer.kind == "deltacommit")

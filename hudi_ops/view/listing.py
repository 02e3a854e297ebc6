"""List files on storage; `metadata.reader.listing` lists by the metadata table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from hudi_ops.engine.local import LocalEngine
from hudi_ops.formats import partition_metadata
from hudi_ops.storage.protocol import Folder, Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.known_files import data_file, listed_files

Keep: TypeAlias = Callable[[Sequence[str]], Sequence[bool]]
"""Returns for each folder path of a table whether the folder may hold wanted rows, at any depth."""


@dataclass(frozen=True)
class Walked:
    """Result of one walk: data files by partition path, and the folders that were left out."""

    files: dict[str, list[DataFile]]
    skipped: tuple[str, ...] = ()


class Listing(Protocol):
    """Listing of base and log files by partition path, visible or not."""

    source: Literal["storage", "metadata"]
    """Source of the listing: the folders on storage, or the metadata table."""

    def files(self, partitions: Sequence[str]) -> dict[str, list[DataFile]]:
        """Return the files of some partitions, sorted by path; an absent partition has none."""
        ...

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """Return all partitions with their files.

        Args:
            keep: returns which partitions may hold wanted rows; the others are left out. None: all partitions are wanted.
            may_prune_folders: call `keep` also for folders above partitions, and do not list the folders that it rejects.
        """
        ...


class StorageListing:
    """Listing of folders; a partition has a `.hoodie_partition_metadata` (docs/format.md §1.1).

    Args:
        engine: lists folders in parallel, since a listing mostly waits for storage.
        timeline: must be read before the listing. Files that its completed writes made and that were listed before are not examined
            again. None: every file is examined.
    """

    source: Literal["storage", "metadata"] = "storage"

    def __init__(
        self,
        storage: Storage,
        *,
        is_partitioned: bool,
        engine: LocalEngine | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self._storage = storage
        self._timeline = timeline
        self._is_partitioned = is_partitioned
        self._engine = engine or LocalEngine()

    def files(self, partitions: Sequence[str]) -> dict[str, list[DataFile]]:
        """Return base and log files by sorted partition path; a missing folder has none."""
        if self._timeline is not None:
            timeline = self._timeline
            listed = self._engine.map(lambda path: listed_files(self._storage, path, timeline), list(partitions))
            return dict(zip(partitions, listed, strict=True))
        folders = self._engine.map(self._storage.list_folder, list(partitions))
        return {path: _data_files(path, folder) for path, folder in zip(partitions, folders, strict=True)}

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """List all partitions with base and log files; folders of one depth are listed in parallel."""
        if not self._is_partitioned:
            return Walked(self.files([""]))
        files: dict[str, list[DataFile]] = {}
        skipped: list[str] = []
        level = [""]
        while level:
            below: list[str] = []
            for path, folder in zip(level, self._engine.map(self._storage.list_folder, level), strict=True):
                if path and any(info.name.startswith(partition_metadata.FILE_NAME) for info in folder.files):
                    files[path] = _data_files(path, folder)
                below += _below(path, folder)
            level = below
            if keep is not None and may_prune_folders and level:
                wanted = keep(level)
                skipped += [path for path, is_wanted in zip(level, wanted, strict=True) if not is_wanted]
                level = [path for path, is_wanted in zip(level, wanted, strict=True) if is_wanted]
        partitions = sorted(files)
        wanted = keep(partitions) if keep is not None and partitions else [True] * len(partitions)
        kept = {path: files[path] for path, is_wanted in zip(partitions, wanted, strict=True) if is_wanted}
        return Walked(kept, tuple(sorted({*skipped, *(set(partitions) - set(kept))})))


def _below(path: str, folder: Folder) -> list[str]:
    # A folder that begins with a dot may be a partition: other readers look into it too (docs/format.md §6.6).
    return [f"{path}/{name}" if path else name for name in folder.folders if path or name != ".hoodie"]


def _data_files(partition_path: str, folder: Folder) -> list[DataFile]:
    return [file for info in folder.files if (file := data_file(partition_path, info)) is not None]

"""List files on storage; `metadata.reader.listing` lists by the metadata table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Internal
from hudi_ops.formats import partition_metadata
from hudi_ops.storage.protocol import Folder, Storage
from hudi_ops.view.columns.files import FileColumns

Source = Literal["storage", "metadata", "view"]
"""Source of a listing: the folders on storage, the metadata table, or the view that this process keeps."""

Keep: TypeAlias = Callable[[Sequence[str]], Sequence[bool]]
"""Returns for each folder path of a table whether the folder may hold wanted rows, at any depth."""


FOLDERS_MAX = 64
"""Folders of a local disk that a read lists rather than read the metadata table: about 0.1 ms each."""


def is_near(uri: str) -> bool:
    """Return whether a storage answers in less time than a thread takes to start."""
    return uri.startswith(("file:", "memory:"))


@dataclass(frozen=True)
class Walked:
    """Result of one walk: data files by partition path, and the folders that were left out."""

    files: FileColumns
    skipped: tuple[str, ...] = ()


class Listing(Protocol):
    """Listing of base and log files by partition path, visible or not."""

    source: Source
    """Source of the listing."""

    @property
    def is_whole(self) -> bool:
        """Whether all partitions cost no more than some, so that indexes are asked later."""
        ...

    def files(self, partitions: Sequence[str]) -> FileColumns:
        """Return the files of some partitions; an absent partition has none."""
        ...

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """Return all partitions with their files.

        Args:
            keep: returns which partitions may hold wanted rows; the others are left out. None: all partitions are wanted.
            may_prune_folders: call `keep` also for folders above partitions, and do not list the folders that it rejects.
        """
        ...


class StorageListing:
    """Listing of folders; a partition has a `.hoodie_partition_metadata` (docs/format §1.1).

    Args:
        engine: lists folders in parallel, since a listing mostly waits for storage.
    """

    source: Source = "storage"
    is_whole = False

    def __init__(
        self,
        storage: Storage,
        *,
        is_partitioned: bool,
        engine: LocalEngine | None = None,
    ) -> None:
        self._storage = storage
        self._is_partitioned = is_partitioned
        self._engine = engine or LocalEngine()

    def files(self, partitions: Sequence[str]) -> FileColumns:
        """Return base and log files by partition path; a missing folder has none."""
        paths = sorted(partitions)
        return _columns(dict(zip(paths, self._engine.map(self._storage.list_folder, paths), strict=True)))

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """List all partitions with base and log files; folders of one depth are listed in parallel.

        Raises:
            Internal: never.
        """
        walked = self.walk_few(keep, None, may_prune_folders=may_prune_folders)
        if walked is None:
            raise Internal("A listing without a limit ended before it was whole", found=self._storage.uri)
        return walked

    def walk_few(self, keep: Keep | None, folders_max: int | None, *, may_prune_folders: bool = False) -> Walked | None:
        """Do what `walk` does, or return None once more than `folders_max` folders would be listed."""
        if not self._is_partitioned:
            return Walked(self.files([""]))
        folders: dict[str, Folder] = {}
        skipped: list[str] = []
        level = [""]
        count = 0
        while level:
            count += len(level)
            if folders_max is not None and count > folders_max:
                return None
            below: list[str] = []
            for path, folder in zip(level, self._engine.map(self._storage.list_folder, level), strict=True):
                if path and any(info.name.startswith(partition_metadata.FILE_NAME) for info in folder.files):
                    folders[path] = folder
                below += _below(path, folder)
            level = below
            if keep is not None and may_prune_folders and level:
                wanted = keep(level)
                skipped += [path for path, is_wanted in zip(level, wanted, strict=True) if not is_wanted]
                level = [path for path, is_wanted in zip(level, wanted, strict=True) if is_wanted]
        partitions = sorted(folders)
        wanted = keep(partitions) if keep is not None and partitions else [True] * len(partitions)
        kept = {path: folders[path] for path, is_wanted in zip(partitions, wanted, strict=True) if is_wanted}
        return Walked(_columns(kept), tuple(sorted({*skipped, *(set(partitions) - set(kept))})))


class WalkedListing:
    """Listing of few folders, which have been listed."""

    source: Source = "storage"
    is_whole = True

    def __init__(self, walked: Walked) -> None:
        self._walked = walked

    @classmethod
    def of(
        cls,
        storage: Storage,
        keep: Keep | None,
        is_partitioned: bool,
        may_prune_folders: bool,
        *,
        may_be_far: bool = False,
    ) -> WalkedListing | None:
        """List the folders that `keep` leaves; None if they are many, or too far.

        Too far is all but a local disk, unless they `may_be_far`.
        """
        is_local = storage.uri.startswith("file:")
        if not is_local and not may_be_far:
            return None
        engine = LocalEngine(1) if is_local else None
        listing = StorageListing(storage, is_partitioned=is_partitioned, engine=engine)
        walked = listing.walk_few(keep, FOLDERS_MAX, may_prune_folders=may_prune_folders)
        return cls(walked) if walked is not None else None

    def files(self, partitions: Sequence[str]) -> FileColumns:
        """Return the files of some partitions; an absent partition has none."""
        return self._walked.files.of_partitions(partitions)

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """Return what was listed, without the partitions that `keep` leaves out.

        `may_prune_folders` has no effect.
        """
        paths = self._walked.files.partitions
        if keep is None or not paths:
            return self._walked
        kept = tuple(compress(paths, keep(paths)))
        return Walked(self.files(kept), tuple(sorted({*self._walked.skipped, *(set(paths) - set(kept))})))


def _below(path: str, folder: Folder) -> list[str]:
    # A folder that begins with a dot may be a partition: other readers look into it too (docs/format §6.6).
    return [f"{path}/{name}" if path else name for name in folder.folders if path or name != ".hoodie"]


def _columns(folders: Mapping[str, Folder]) -> FileColumns:
    """Return the data files of listed folders, which are sorted by path."""
    names = [info.name for folder in folders.values() for info in folder.files]
    sizes = [info.size_bytes for folder in folders.values() for info in folder.files]
    counts = np.array([len(folder.files) for folder in folders.values()], np.int64)
    return FileColumns.of(list(folders), counts, pa.array(names, pa.string()), pa.array(sizes, pa.int64()))

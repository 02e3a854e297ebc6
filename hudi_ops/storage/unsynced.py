"""Files and folders of a local disk that were changed and are synced together."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, runtime_checkable

from hudi_ops.errors import OutcomeUnknown
from hudi_ops.storage import disk
from hudi_ops.storage.protocol import Bytes, Storage


@runtime_checkable
class SyncsTogether(Protocol):
    """Storage that makes a group of puts durable for less than the sum of single ones."""

    def synced_together(self) -> AbstractContextManager[Storage]:
        """Yield a storage whose puts are durable once the context has ended without an error."""
        ...


def synced_together(storage: Storage) -> AbstractContextManager[Storage]:
    """Return a context whose storage makes its puts durable at the latest when the context ends.

    Until then a power cut may leave a name without its body, or take the name away. A killed process still leaves whole bodies.
    So the context is only for files that nothing relies on before it ends, such as the data files of an undecided attempt. The
    content of a file that is created under a name which others may know is durable before they see the name.
    """
    return storage.synced_together() if isinstance(storage, SyncsTogether) else nullcontext(storage)


class Unsynced:
    """Files and folders to sync, in the order of their changes."""

    def __init__(self) -> None:
        self._files: dict[Path, None] = {}
        self._folders: dict[Path, None] = {}

    def add_file(self, file: Path) -> None:
        """Note a file whose content is new."""
        self._files[file] = None

    def add_folder(self, folder: Path) -> None:
        """Note a folder in which a name is new."""
        self._folders[folder] = None

    def creates_empty(self, file: Path, body: Bytes) -> bool:
        """Create a file for an empty body, unless its name exists; return whether it did.

        It is whole from the start, and needs no temp file.
        """
        if memoryview(body).nbytes or not disk.create_empty(file, self.add_folder):
            return False
        self.add_folder(file.parent)
        return True

    def sync(self) -> None:
        """Wait until the disk has contents and names.

        The first sync makes the journal write what all of them wait for, so the others cost little.

        Raises:
            OutcomeUnknown: the disk did not confirm one of them.
        """
        for sync, places in ((disk.sync_file, self._files), (disk.sync_folder, self._folders)):
            for place in places:
                try:
                    sync(place)
                except FileNotFoundError:
                    continue  # deleted since by another process, which made that durable
                except OSError as error:
                    raise OutcomeUnknown(
                        f"{place} has its name, but the disk did not confirm it: {error.strerror}",
                        next_step="delete nothing; run the same call again, which resolves it",
                    ) from error

"""Staging area of a distributed write: files that its tasks put and one commit ingests.

An area is a folder `.hoodie/.temp/staged.<id>`. In `.hoodie/.temp` Apache Hudi only reads folders that are named after an instant.
A write that ends deletes its area. The area of a killed driver is deleted by `recover` and by the next writes. If the owner is a
process on their own machine, they delete the area only after that process has ended. Otherwise they delete it once its newest file
is old; tasks and commit renew the owner's note while rows arrive.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.markers import FOLDER
from hudi_ops.context import Ids, Owner, TableContext
from hudi_ops.errors import NotFound, Unavailable
from hudi_ops.storage.protocol import Bytes, Storage

logger = logging.getLogger(__name__)

STAGED_AGE_MS = 3 * 24 * 3600 * 1000
"""Age of the newest staged file, in ms, from which an area counts as abandoned if its owner cannot be checked."""

REFRESH_S = 3600.0
"""Seconds between two renewals of the owner's note by one task."""

T = TypeVar("T")

_PREFIX = "staged."
_OWNER = "owner.json"


@dataclass(frozen=True)
class StagingArea:
    """Folder for the files of one write.

    `owner` is the process that drives the write; None: unknown. `refresh_s` is the time between two renewals of its note.
    """

    storage: Storage
    folder: str
    owner: Owner | None = None
    refresh_s: float = REFRESH_S

    @classmethod
    def new(cls, storage: Storage, ids: Ids, owner: Owner | None) -> StagingArea:
        """Return an area of a new name; the first file creates it."""
        return cls(storage, f"{FOLDER}/{_PREFIX}{ids.new_id()}", owner)

    def put(self, name: str, body: Bytes) -> str:
        """Put a file, after the note that names the owner; return its path."""
        if self.owner is not None and self.storage.head(self._note) is None:
            self._renew()
        path = f"{self.folder}/{name}"
        self.storage.put(path, body)
        return path

    def renewed(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield the rows, and renew the owner's note meanwhile.

        Otherwise other machines would consider the area of a slow write abandoned.
        """
        clock = SystemClock()
        renewed_s = clock.monotonic_s()
        for batch in rows:
            if clock.monotonic_s() - renewed_s >= self.refresh_s:
                self._renew()
                renewed_s = clock.monotonic_s()
            yield batch

    @property
    def _note(self) -> str:
        return f"{self.folder}/{_OWNER}"

    def _renew(self) -> None:
        self.storage.put(self._note, json.dumps(asdict(self.owner) if self.owner is not None else None).encode())

    def clear(self) -> None:
        """Delete all files of the area, the owner's note last."""
        _delete(self.storage, self.folder)


def sweep_staging(ctx: TableContext, temp_folders: Iterable[str]) -> list[str]:
    """Delete the areas that dead writes left; return their folders.

    `temp_folders` are the names of the folders below `.hoodie/.temp`.
    """
    folders = [f"{FOLDER}/{name}" for name in temp_folders if name.startswith(_PREFIX)]
    swept = []
    for folder in folders:
        try:
            if _is_left(ctx, folder):
                _delete(ctx.storage, folder)
                swept.append(folder)
                logger.warning("%s held rows that an ended job staged and never committed: deleted", folder)
        except Unavailable as error:
            # For example an area of another user. No write depends on its deletion.
            logger.warning("the staging area %s stays: %s", folder, error)
    return swept


def _is_left(ctx: TableContext, folder: str) -> bool:
    owner = _owner_of(ctx.storage, folder)
    if owner is not None and owner.can_be_judged():
        return owner.is_gone()
    changed_ms = [info.modified_ms for info in ctx.storage.list(folder)]
    return bool(changed_ms) and ctx.clock.now_ms() - max(changed_ms) > STAGED_AGE_MS


def _owner_of(storage: Storage, folder: str) -> Owner | None:
    try:
        return Owner(**json.loads(storage.get(f"{folder}/{_OWNER}")))
    except (NotFound, ValueError, TypeError):
        return None


def _delete(storage: Storage, folder: str) -> None:
    paths = [info.path for info in storage.list(folder)]
    storage.delete_all(sorted(paths, key=lambda path: path.endswith(f"/{_OWNER}")))

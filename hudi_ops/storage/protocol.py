"""Storage contract: bytes under a path relative to one root. It knows nothing of tables.

`tests/storage` tests these rules over every backend:
1. `put` and `put_if_absent` write the whole body or nothing; after they return it is durable and visible to `get` and `list`.
2. `put_if_absent` raises `AlreadyExists` or `OutcomeUnknown`. Neither says who owns the name: only `storage.claim` interprets it.
3. Listings are sorted by path and are *not* a snapshot: names may appear and vanish while one is made.
4. `delete` of nothing succeeds. There is no rename, no append, no lock, no compare-and-swap above this line.

Paths use `/`, never begin with it, and never contain `..`. Directories do not exist: an empty one is never listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

Bytes: TypeAlias = bytes | bytearray | memoryview | pa.Buffer


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Stored file: path below the root, size in bytes, last change in ms since 1970 UTC."""

    path: str
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        """Last segment of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Folder:
    """Content directly under a prefix: files by path, and names of folders with files."""

    files: tuple[FileInfo, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewFiles:
    """New files of a folder, by path, and the names that a caller knew and that are gone."""

    files: tuple[FileInfo, ...]
    gone: frozenset[str]


def new_files(folder: Folder, known: frozenset[str]) -> NewFiles:
    """Return how a listed folder differs from the known file names."""
    fresh = tuple(info for info in folder.files if info.name not in known)
    return NewFiles(fresh, known.difference(info.name for info in folder.files))


class Storage(Protocol):
    """Bytes under paths relative to `uri`; implementations are safe between threads."""

    @property
    def uri(self) -> str:
        """Absolute URI of the root without a trailing slash, such as `memory://trips`."""
        ...

    def get(self, path: str) -> bytes:
        """Return the whole content.

        Raises:
            NotFound: nothing under that path.
            Unavailable: the backend did not answer after bounded retries.
        """
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; errors as in `get`, later reads raise `OSError`."""
        ...

    def head(self, path: str) -> FileInfo | None:
        """Return size and change time, or None when there is no file."""
        ...

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """Return the files under the folder `prefix`, at any depth, sorted by path."""
        ...

    def list_folder(self, prefix: str = "") -> Folder:
        """Return the files and folders directly under the folder `prefix`; both sorted."""
        ...

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """Return how the files directly under the folder `prefix` differ from the known names.

        Files with known names are not examined, so the cost in Python depends only on the number of new files.
        """
        ...

    def put(self, path: str, body: Bytes) -> None:
        """Create or replace a file.

        Raises:
            Unavailable: not written.
            OutcomeUnknown: written or not.
        """
        ...

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """Create a file, unless the name exists.

        Raises:
            AlreadyExists: the name exists; it may be this very body, put by a retried request.
            Unavailable: not written.
            OutcomeUnknown: written or not.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file; deleting nothing succeeds."""
        ...

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """Delete files, in one request where the backend supports it.

        Args:
            paths: missing files are passed.
            ordered: delete one file after another, so that all later files exist as long as an earlier one does.

        Raises:
            Unavailable: some of them may still exist.
        """
        ...

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Remove files that killed puts left, if the backend has any; return their number."""
        ...

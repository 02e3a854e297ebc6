"""The storage contract: bytes under a path relative to one root. It knows nothing of tables.

In words, and tested over every backend by `tests/storage`:

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
    """One stored file: path relative to the root, size in bytes, time of the last change in ms since 1970 UTC."""

    path: str
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        """Last segment of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies directly under a prefix: files by path, and the names of the folders that hold further files."""

    files: tuple[FileInfo, ...]
    folders: tuple[str, ...]


class Storage(Protocol):
    """Bytes under paths relative to `uri`. Implementations are safe to use from several threads."""

    @property
    def uri(self) -> str:
        """Absolute URI of the root, without a trailing slash: `file:///data/trips`, `memory://trips`."""
        ...

    def get(self, path: str) -> bytes:
        """Whole content.

        Raises:
            NotFound: nothing under that path.
            Unavailable: the backend did not answer after bounded retries.
        """
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Random access for Parquet readers; same errors as `get`. Later reads are Arrow's own and raise `OSError`."""
        ...

    def head(self, path: str) -> FileInfo | None:
        """Size and change time, or None when nothing lies there."""
        ...

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """Every file under the folder `prefix`, at any depth, sorted by path; empty when there is none."""
        ...

    def list_folder(self, prefix: str = "") -> Folder:
        """Files and folders directly under the folder `prefix`; both sorted."""
        ...

    def put(self, path: str, body: Bytes) -> None:
        """Create or replace.

        Raises:
            Unavailable: not written.
            OutcomeUnknown: written or not.
        """
        ...

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """Create, unless something lies there.

        Raises:
            AlreadyExists: something lies there; it may be this very body, put by a retried request.
            Unavailable: not written.
            OutcomeUnknown: written or not.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove; removing nothing succeeds."""
        ...

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove several, in that order where they are removed one by one; in one request where the backend can.

        Raises:
            Unavailable: some of them may still be there.
        """
        ...

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Remove what killed puts of this backend left aside; returns how many. Backends without such halves do nothing."""
        ...

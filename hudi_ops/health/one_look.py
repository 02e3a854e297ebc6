"""Read each file and folder of a table once, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from hudi_ops.errors import Internal, NotFound
from hudi_ops.storage.protocol import Bytes, FileInfo, Folder, NewFiles, Storage, new_files

T = TypeVar("T")


class OneLook:
    """Storage that remembers what it read, so that all checks of a verdict see one state.

    Data files are not remembered. A change is an error of this program.
    """

    def __init__(self, storage: Storage) -> None:
        self.behind = storage
        self._seen: dict[tuple[str, str], Any] = {}

    @property
    def uri(self) -> str:
        """Absolute URI of the root."""
        return self.behind.uri

    def get(self, path: str) -> bytes:
        """Return the whole content.

        Raises:
            NotFound: nothing under that path.
        """
        found: bytes | None = self._once("get", path, lambda: self._get(path))
        if found is None:
            raise NotFound(f"{path} does not exist", table=self.uri)
        return found

    def _get(self, path: str) -> bytes | None:
        try:
            return self.behind.get(path)
        except NotFound:
            return None

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        return self.behind.open_input(path)

    def head(self, path: str) -> FileInfo | None:
        """Return size and change time, or None when there is no file."""
        folder = self._seen.get(("list_folder", path.rpartition("/")[0]))
        if folder is not None:
            return next((info for info in folder.files if info.path == path), None)
        return self._once("head", path, lambda: self.behind.head(path))

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """Return the files under a folder, at any depth."""
        return self._once("list", prefix, lambda: self.behind.list(prefix))

    def list_folder(self, prefix: str = "") -> Folder:
        """Return the files and folders directly under a folder."""
        return self._once("list_folder", prefix, lambda: self.behind.list_folder(prefix))

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """Return how the files directly under a folder differ from the known names."""
        return new_files(self.list_folder(prefix), known)

    def put(self, path: str, body: Bytes) -> None:
        """Refuse."""
        self._refuse(path)

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """Refuse."""
        self._refuse(path)

    def delete(self, path: str) -> None:
        """Refuse."""
        self._refuse(path)

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """Refuse, unless there is nothing to delete."""
        for path in paths:
            self._refuse(path)

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Refuse."""
        self._refuse("")
        return 0

    def _once(self, call: str, path: str, read: Callable[[], T]) -> T:
        key = (call, path.strip("/"))
        if not key[1].startswith(".hoodie") and call == "get":
            return read()
        if key not in self._seen:
            self._seen[key] = read()
        found: T = self._seen[key]
        return found

    def _refuse(self, path: str) -> None:
        raise Internal(f"a look at the health of a table would have changed {path}", table=self.uri)

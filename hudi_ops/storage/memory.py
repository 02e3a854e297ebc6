"""Storage in memory, for simulations, crash tests and examples.

Names are kept sorted, so a listing is a slice: simulated protocols list far more often than they create files.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from hudi_ops.clock import Clock
from hudi_ops.errors import AlreadyExists, NotFound
from hudi_ops.storage.paths import check_folder, check_path
from hudi_ops.storage.protocol import Bytes, FileInfo, Folder, NewFiles, new_files

_AFTER_SLASH = chr(ord("/") + 1)


class MemoryStorage:
    """Files of one process, safe between its threads.

    Like an object store, it has no folders: files `a` and `a/b` may both exist. `clock` gives the change times; without a clock a
    change time is the number of the write, from 0, so equal runs give equal times.
    """

    def __init__(self, name: str = "memory", clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock
        self._writes = 0
        self._names: list[str] = []
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryStorage({self._name!r}, {len(self._files)} files)"

    @property
    def uri(self) -> str:
        """`memory://` and the name."""
        return f"memory://{self._name}"

    def get(self, path: str) -> bytes:
        """Return the whole content.

        Raises:
            NotFound: nothing under that path.
        """
        held = self._files.get(check_path(path))
        if held is None:
            raise NotFound(f"no file under {path}", path=path)
        return held[0]

    def open_input(self, path: str) -> pa.NativeFile:
        """Open the present content for random access; same errors as `get`."""
        return pa.BufferReader(self.get(path))

    def head(self, path: str) -> FileInfo | None:
        """Return size and change time, or None when there is no file."""
        held = self._files.get(check_path(path))
        return None if held is None else FileInfo(path, len(held[0]), held[1])

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """Return every file under the folder, at any depth, sorted by path."""
        with self._lock:
            return [self._info(path) for path in self._names[slice(*self._bounds(check_folder(prefix)))]]

    def list_folder(self, prefix: str = "") -> Folder:
        """Return the files and folders directly under the folder; both sorted."""
        with self._lock:
            files, folders = [], []
            for path, rest in self._children(check_folder(prefix)):
                name, slash, _ = rest.partition("/")
                if slash:
                    folders.append(name)
                else:
                    files.append(self._info(path))
        # Folders come in the order of "name/" ("a-b/" before "a/"), so their names are sorted again.
        return Folder(tuple(files), tuple(sorted(folders)))

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        """Return how the files directly under the folder differ from the known names."""
        return new_files(self.list_folder(prefix), known)

    def put(self, path: str, body: Bytes) -> None:
        """Create or replace a file."""
        held = bytes(memoryview(body))
        with self._lock:
            self._write(check_path(path), held)

    def put_if_absent(self, path: str, body: Bytes) -> None:
        """Create a file, unless the name exists.

        Raises:
            AlreadyExists: the name exists.
        """
        held = bytes(memoryview(body))
        with self._lock:
            if check_path(path) in self._files:
                raise AlreadyExists(f"{path} exists in {self.uri}")
            self._write(path, held)

    def delete(self, path: str) -> None:
        """Delete a file; deleting nothing succeeds."""
        with self._lock:
            if self._files.pop(check_path(path), None) is not None:
                del self._names[bisect_left(self._names, path)]

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """Delete files, always in this order."""
        for path in paths:
            self.delete(path)

    def sweep_temp(self, older_than_ms: int, now_ms: int) -> int:
        """Remove nothing: a put is one step here."""
        return 0

    def copy(self, clock: Clock | None = None) -> MemoryStorage:
        """Return a copy of the present state, as a crash at this point would leave it.

        Change times are kept; `clock` gives later ones; None: this storage's clock.
        """
        twin = MemoryStorage(self._name, clock or self._clock)
        with self._lock:
            twin._writes, twin._names, twin._files = self._writes, self._names.copy(), self._files.copy()
        return twin

    def dump(self, folder: Path | str) -> Path:
        """Write every file below a local folder, for readers that know only disks.

        Returns the folder. Not durable and not atomic: to inspect a state, not to keep it.
        """
        with self._lock:
            files = self._files.copy()
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        for path, (body, _) in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        return root

    def _write(self, path: str, body: bytes) -> None:
        if path not in self._files:
            insort(self._names, path)
        self._files[path] = (body, self._clock.now_ms() if self._clock else self._writes)
        self._writes += 1

    def _info(self, path: str) -> FileInfo:
        body, modified_ms = self._files[path]
        return FileInfo(path, len(body), modified_ms)

    def _bounds(self, prefix: str) -> tuple[int, int]:
        if not prefix:
            return 0, len(self._names)
        return bisect_left(self._names, f"{prefix}/"), bisect_left(self._names, prefix + _AFTER_SLASH)

    def _children(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield (path, path within the folder) of its files, and of one file of each subfolder."""
        at, end = self._bounds(prefix)
        skip = len(prefix) + 1 if prefix else 0
        while at < end:
            path = self._names[at]
            slash = path.find("/", skip)
            yield path, path[skip:]
            at = at + 1 if slash < 0 else bisect_left(self._names, path[:slash] + _AFTER_SLASH, at, end)

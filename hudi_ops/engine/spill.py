"""Chunks between two steps: in memory up to a bound, then in one temporary file.

The file is unlinked before its first byte, so the system deletes it even if the process is killed: nothing has to be swept. It
grows by rounds: each appends, key by key, all chunks that were held, as one Arrow IPC stream (lz4) for each key and schema.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from hudi_ops.engine.memory import release_memory
from hudi_ops.engine.protocol import Chunk
from hudi_ops.errors import Unavailable

Place: TypeAlias = tuple[int, int]
"""Position of a chunk among those of its key: number of the input, number in its task's result."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class _Stream:
    """IPC stream in the file: its bytes, and position and batch count of each chunk."""

    offset: int
    length: int
    chunks: tuple[tuple[Place, int], ...]


class ChunkStore:
    """Chunks by key; `add` may be called from several threads, `read` once sealed.

    Chunks beyond `memory_bytes` go to disk; once some did, all do. `folder` None: the system's one (`TMPDIR`). `holds` names
    the rows in errors.
    """

    def __init__(
        self, memory_bytes: int, folder: str | os.PathLike[str] | None = None, *, holds: str = "incoming rows"
    ) -> None:
        self._memory_bytes, self._holds = memory_bytes, holds
        self._folder = folder
        self._lock = threading.Lock()
        self._held: dict[str, list[tuple[Place, pa.Table]]] = {}
        self._held_bytes = 0
        self._streams: dict[str, list[_Stream]] = {}
        self._sink: pa.NativeFile | None = None
        self._file: pa.NativeFile | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of chunks in memory."""
        return self._held_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes written to disk so far."""
        return self._sink.tell() if self._sink is not None else 0

    def add(self, place: Place, chunks: Sequence[Chunk], size_bytes: int | None = None) -> None:
        """Keep chunks; `size_bytes` are their Arrow bytes, None: they are added up.

        The thread that exceeds the limit writes them to disk while the others wait: this bounds all threads.

        Raises:
            Unavailable: the disk did not accept them.
        """
        if size_bytes is None:
            size_bytes = sum(chunk.rows.nbytes for chunk in chunks)
        with self._lock:
            for chunk in chunks:
                self._held.setdefault(chunk.key, []).append((place, chunk.rows))
            self._held_bytes += size_bytes
            if self._held_bytes > self._memory_bytes:
                self._spill()

    def seal(self) -> None:
        """End adding, and write the last chunks.

        Raises:
            Unavailable: the disk did not accept the last ones.
        """
        with self._lock:
            if self._sink is not None and self._held:
                self._spill()
            if self._sink is not None:
                with self._failing("written"):
                    self._sink.flush()

    def read(self, key: str) -> list[pa.Table]:
        """Return the chunks of a key, in their order.

        Raises:
            Unavailable: the disk did not deliver them.
        """
        found = list(self._held.get(key, ()))
        for stream in self._streams.get(key, ()):
            with self._failing("read"):
                found += self._read(stream)
        return [rows for _, rows in sorted(found, key=lambda chunk: chunk[0])]

    def stream(self, key: str) -> Iterator[pa.Table]:
        """Yield the chunks of a key one at a time, in the order in which one thread added them.

        Raises:
            Unavailable: the disk did not deliver them.
        """
        with self._failing("read"):
            for stream in self._streams.get(key, ()):
                yield from (rows for _, rows in self._read(stream))
        yield from (rows for _, rows in self._held.get(key, ()))

    def close(self) -> None:
        """Release memory and disk."""
        self._held.clear()
        for file in (self._sink, self._file):
            if file is not None:
                try:
                    file.close()
                except OSError:
                    continue  # a full disk refuses the last bytes of a file that is not needed any more
        self._sink = self._file = None

    def _spill(self) -> None:
        held, self._held, self._held_bytes = self._held, {}, 0
        with self._failing("written"):
            sink = self._sink or self._open()
            for key in sorted(held):
                for schema, chunks in _by_schema(held.pop(key)):
                    self._streams.setdefault(key, []).append(_write(sink, schema, chunks))
        # The held chunks were in the arenas of many threads, which would keep the memory.
        release_memory()

    def _open(self) -> pa.NativeFile:
        number, path = tempfile.mkstemp(prefix=f"hudi-ops-{os.getpid()}-", suffix=".arrow", dir=self._folder)
        try:
            os.close(number)
            self._sink = pa.OSFile(path, "wb")
            self._file = pa.OSFile(path, "rb")
        finally:
            Path(path).unlink()
        return self._sink

    def _read(self, stream: _Stream) -> Iterator[tuple[Place, pa.Table]]:
        if self._file is None:
            return
        with pa.ipc.open_stream(self._file.get_stream(stream.offset, stream.length)) as reader:
            for place, count in stream.chunks:
                yield place, pa.Table.from_batches([reader.read_next_batch() for _ in range(count)], reader.schema)

    @contextmanager
    def _failing(self, done: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowInvalid) as error:
            # Asking Python for its folder fails if none is writable, as on a full disk.
            folder = self._folder or tempfile.tempdir or "of the system for temporary files"
            raise Unavailable(
                f"{self._holds} that exceed {self._memory_bytes} bytes could not be {done} in the folder {folder}: "
                f"{error}",
                expected="room for them on that disk, compressed",
                next_step="make room there; or set TMPDIR, or the engine's spill_folder, to a larger disk. "
                "The table was not touched",
                folder=folder,
            ) from error


def _by_schema(chunks: list[tuple[Place, pa.Table]]) -> list[tuple[pa.Schema, list[tuple[Place, pa.Table]]]]:
    groups: list[tuple[pa.Schema, list[tuple[Place, pa.Table]]]] = []
    for place, rows in chunks:
        for schema, members in groups:
            if schema.equals(rows.schema):
                members.append((place, rows))
                break
        else:
            groups.append((rows.schema, [(place, rows)]))
    return groups


def _write(sink: pa.NativeFile, schema: pa.Schema, chunks: Sequence[tuple[Place, pa.Table]]) -> _Stream:
    offset, index = sink.tell(), []
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        for place, rows in chunks:
            batches = rows.to_batches()
            for batch in batches:
                writer.write_batch(batch)
            index.append((place, len(batches)))
    return _Stream(offset, sink.tell() - offset, tuple(index))

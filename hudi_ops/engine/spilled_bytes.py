"""Bytes of an unfinished file in an unnamed temporary file, never left behind."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self

import pyarrow as pa

from hudi_ops.errors import Internal, Unavailable


class SpilledBytes:
    """Sink written once and then read as one buffer; as a context manager it releases the disk.

    `folder` of the file; None: the system's one for temporary files (`TMPDIR`).
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._sink: pa.NativeFile | None = None

    def __enter__(self) -> Self:
        try:
            self._file = tempfile.TemporaryFile(prefix="hudi-ops-", suffix=".parquet", dir=self._folder)
        except OSError as error:
            raise self.failure(error) from error
        self._sink = pa.PythonFile(self._file, "w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The map is released with the last buffer over it; the file's disk space with both.
        self._map = self._sink = None
        if self._file is not None:
            self._file.close()
        self._file = None

    @property
    def sink(self) -> pa.NativeFile:
        """Sink to write to; its errors are Arrow's own (`OSError`).

        Raises:
            Internal: outside of the context.
        """
        if self._sink is None:
            raise Internal("bytes were to be spilled to a file that is not open")
        return self._sink

    def change_end(self, change: Callable[[IO[bytes]], None]) -> None:
        """Change the end of the written bytes.

        It is called before they are read; nothing is written to the sink afterwards.

        Raises:
            OSError: the disk did not accept it.
            Internal: outside of the context.
        """
        if self._file is None:
            raise Internal("spilled bytes were to be changed while their file was not open")
        self._file.flush()
        change(self._file)

    def buffer(self) -> pa.Buffer:
        """Return all written bytes, mapped into memory and not read into it.

        Raises:
            Unavailable: the disk did not accept the last bytes.
            Internal: outside of the context.
        """
        if self._file is None:
            raise Internal("spilled bytes were requested while their file was not open")
        try:
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise self.failure(error) from error
        return pa.py_buffer(self._map)

    @property
    def view(self) -> memoryview:
        """The bytes of `buffer`, for a storage that gives mapped pages back while it writes them.

        Raises:
            Internal: before `buffer`.
        """
        if self._map is None:
            raise Internal("a view of spilled bytes was requested before they were mapped")
        return memoryview(self._map)

    def failure(self, error: OSError) -> Unavailable:
        """Return the error for a disk that did not accept the bytes; it names the folder."""
        folder = self._folder or tempfile.tempdir or "of the system for temporary files"
        return Unavailable(
            f"a base file that exceeds its limit of memory could not be written in the folder {folder}: {error}",
            expected="room for it on that disk, compressed",
            next_step="make room there; or set TMPDIR, or the engine's spill_folder, to a larger disk. Nothing was committed",
            folder=folder,
        )

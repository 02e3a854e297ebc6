"""Write a view to a file, and open the file memory-mapped.

A file has five Arrow streams, a description as JSON, and an end of 16 bytes: the length of the description, the CRC-32 of
everything before the end, and a mark. It is written once, and never changed.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import ROWS, FileColumns, offsets_of
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.partitions import is_below_table

VERSION = 1
"""Version of the format; a file of another version is not used."""

BATCH_ROWS = 1 << 16
"""Rows of a record batch: what is copied at a time when a file is written."""

_END = struct.Struct("<QI4s")
_MARK = b"HOPV"
_PARTITIONS = pa.schema([("path", pa.string()), ("files", pa.int64())])
_REPLACED = pa.schema([("path", pa.string()), ("file_id", pa.string()), ("by", pa.string())])


class UnusableFile(Exception):
    """A file that holds no view that may be used; says why."""


@dataclass(frozen=True)
class MappedFile:
    """Place of a mapped file in memory.

    Attributes:
        start: address of the first byte.
        length_bytes: size of the file.
        rows: number of data files in it.
    """

    start: int
    length_bytes: int
    rows: int

    def overlay_bytes(self, files: FileColumns) -> int:
        """Return the bytes of later columns that lie on the heap."""
        return sum(chunk.nbytes for chunk in files.chunks if not self.holds(chunk))

    def holds(self, chunk: pa.RecordBatch) -> bool:
        """Return whether columns lie in the file."""
        values = chunk.column("name").buffers()[2]
        return values is None or self.start <= values.address < self.start + self.length_bytes


@dataclass(frozen=True)
class StoredView:
    """View of a file; its columns are mapped, and take no memory of the heap.

    Attributes:
        view: as of the timeline when it was written.
        digest: names the state of the table; see `state_digest`.
        file: where it is mapped.
    """

    view: View
    digest: str
    file: MappedFile


def write_view(path: str, view: View, digest: str) -> None:
    """Write a view to a file that exists and is empty.

    Raises:
        OSError: the disk is full, or similar.
    """
    body: dict[str, tuple[pa.Schema, Iterable[pa.RecordBatch]]] = {
        "files": (ROWS, view.files.batches(BATCH_ROWS)),
        "partitions": (_PARTITIONS, [_partitions(view.files)]),
        "ahead": (ROWS, view.ahead.batches(BATCH_ROWS)),
        "ahead partitions": (_PARTITIONS, [_partitions(view.ahead)]),
        "replaced": (_REPLACED, [_replaced(view)]),
    }
    with pa.OSFile(path, "wb") as sink:
        bounds = [0]
        for schema, batches in body.values():
            with pa.ipc.new_stream(sink, schema) as stream:
                for rows in batches:
                    stream.write_batch(rows)
            sink.write(bytes(-sink.tell() % 64))  # mapped columns are aligned
            bounds.append(sink.tell())
        said = {
            "version": VERSION,
            "digest": digest,
            "sections": dict(zip(body, pairwise(bounds), strict=True)),
            "config": view.config.raw,
            "timeline": {"folder": view.timeline.folder, "layout": view.timeline.layout},
            "instants": [_instant_as_list(one) for one in view.timeline],
        }
        text = json.dumps(said, separators=(",", ":")).encode()
        sink.write(text)
    with open(path, "r+b") as out:
        with mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            checksum = zlib.crc32(mapped)
        out.seek(0, os.SEEK_END)
        out.write(_END.pack(len(text), checksum, _MARK))


def open_view(path: str, commits: CommitReader) -> StoredView:
    """Open the view in a file; its pages are read as they are needed.

    Args:
        path: of the file, which may be removed afterwards.
        commits: reads commits for the view.

    Raises:
        UnusableFile: it is no whole file of this format, or another user could have changed it.
        OSError: it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        _refuse_others(found, stat.S_ISREG, "file")
        if found.st_size < _END.size:
            raise UnusableFile("it was cut")
        whole = pa.py_buffer(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(fd)
    end = whole.size - _END.size
    length, checksum, mark = _END.unpack(whole.slice(end).to_pybytes())
    if mark != _MARK or length > end:
        raise UnusableFile("it was cut, or is no file of a view")
    if zlib.crc32(memoryview(whole)[:end]) != checksum:
        raise UnusableFile("its checksum does not match: bytes were changed")
    try:
        said = json.loads(whole.slice(end - length, length).to_pybytes())
        if said["version"] != VERSION:
            raise UnusableFile(f"it has format {said['version']}, not {VERSION}")
        view = _view_of(whole, said, commits)
        digest = str(said["digest"])
    except UnusableFile:
        raise
    except Exception as error:  # damaged bytes may raise any error; the view is built anew
        raise UnusableFile(f"its content is not that of a view: {type(error).__name__}: {error}") from error
    return StoredView(view, digest, MappedFile(whole.address, whole.size, view.files.count))


def check_folder(folder: Path) -> None:
    """Refuse a folder that another user could change.

    Raises:
        UnusableFile: another user owns it, or may write to it, or it is a link.
        OSError: it cannot be looked at.
    """
    _refuse_others(folder.lstat(), stat.S_ISDIR, "folder")


def _refuse_others(found: os.stat_result, is_kind: Any, kind: str) -> None:
    if not is_kind(found.st_mode):
        raise UnusableFile(f"it is no {kind}")
    if found.st_uid != os.geteuid():
        raise UnusableFile(f"another user owns the {kind}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnusableFile(f"other users may write to the {kind}")


def _view_of(whole: pa.Buffer, said: dict[str, Any], commits: CommitReader) -> View:
    def batches(section: str, schema: pa.Schema) -> list[pa.RecordBatch]:
        low, high = said["sections"][section]
        with pa.ipc.open_stream(pa.BufferReader(whole.slice(low, high - low))) as stream:
            if stream.schema != schema:
                raise ValueError(f"{section} has other columns")
            return list(stream)

    config = TableConfig.from_properties(said["config"])
    instants = tuple(_instant_of(one) for one in said["instants"])
    timeline = Timeline(said["timeline"]["folder"], said["timeline"]["layout"], instants)
    replaced = pa.Table.from_batches(batches("replaced", _REPLACED), _REPLACED).to_pydict()
    groups = zip(replaced["path"], replaced["file_id"], strict=True)
    return View(
        config,
        timeline,
        commits,
        _files_of(batches("files", ROWS), batches("partitions", _PARTITIONS)[0]),
        dict(zip(groups, replaced["by"], strict=True)),
        _files_of(batches("ahead", ROWS), batches("ahead partitions", _PARTITIONS)[0]),
    )


def _files_of(chunks: list[pa.RecordBatch], partitions: pa.RecordBatch) -> FileColumns:
    """Return files with their partitions.

    Raises:
        ValueError: they do not fit each other, or a name leads to another folder.
    """
    paths = tuple(partitions["path"].to_pylist())
    offsets = offsets_of(partitions["files"].to_numpy())
    if offsets[-1] != sum(chunk.num_rows for chunk in chunks) or list(paths) != sorted(set(paths)):
        raise ValueError("partitions do not fit the files")
    if not all(map(is_below_table, paths)):
        raise ValueError("a partition lies outside of the table")
    for chunk in chunks:
        chunk.validate(full=True)
        names = chunk["name"]
        if names.null_count or b"/" in _text_of(names):
            raise ValueError("a file lies outside of its partition")
    return FileColumns(paths, offsets, tuple(chunks), is_mapped=True)


def _text_of(values: pa.StringArray) -> bytes:
    """Return the bytes of all values, one after another."""
    _, offsets, text = values.buffers()
    if offsets is None or text is None or not len(values):
        return b""
    bounds = np.frombuffer(offsets, np.int32)
    low, high = int(bounds[values.offset]), int(bounds[values.offset + len(values)])
    return bytes(text.slice(low, high - low))


def _partitions(files: FileColumns) -> pa.RecordBatch:
    counts = pa.array(np.diff(files.offsets), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(files.partitions, pa.string()), counts], schema=_PARTITIONS)


def _replaced(view: View) -> pa.RecordBatch:
    columns = list(zip(*((path, file_id, by) for (path, file_id), by in view.replaced.items()), strict=True))
    arrays = [pa.array(values, pa.string()) for values in columns or ((), (), ())]
    return pa.RecordBatch.from_arrays(arrays, schema=_REPLACED)


def _instant_as_list(one: Instant) -> list[Any]:
    return [one.time, one.action, one.state.name, one.completion_time, one.file_name, [s.name for s in one.states]]


def _instant_of(said: list[Any]) -> Instant:
    time, action, state, completion_time, file_name, states = said
    return Instant(time, action, State[state], completion_time, file_name, frozenset(State[name] for name in states))

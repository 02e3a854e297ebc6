"""New data files of an attempt, put in groups: all markers, then all files.

The invariants hold for each group: a marker is durable before its data file exists, and marker, file and folders are durable when
`put_files` returns. Syncs of a group cost less than those of its files one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from hudi_ops.concurrency.markers import put_marker
from hudi_ops.engine.stopping import check_stop
from hudi_ops.files.names import data_path
from hudi_ops.formats import partition_metadata
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.storage.unsynced import synced_together
from hudi_ops.timeline.names import ms_of_instant

GROUPED_FROM = 9
"""Files of an attempt from which they are put in groups: few files gain nothing, and each task then sees its own file put."""

GROUP_FILES = 64
GROUP_BYTES = 8 << 20
"""Bytes of files from which a group is put. Each thread holds less than this, and the file that reaches it."""


@dataclass(frozen=True)
class NewFile:
    """Data file to put.

    Attributes:
        replaces: an older slice of its group exists, as the marker says.
        may_be_first: the partition may lack its metadata file, which is put before the file.
    """

    path: str
    body: pa.Buffer
    replaces: bool = False
    may_be_first: bool = False


class FilePuts:
    """Put the files of one attempt's tasks in groups; safe between threads.

    A file that was added need not exist until `flush` has returned.
    """

    def __init__(self, storage: Storage, instant: str) -> None:
        self._storage, self._instant = storage, instant
        self._lock = Lock()
        self._held: list[NewFile] = []

    def add(self, file: NewFile) -> None:
        """Add a file, and put the group that it completes; raise as `put_files` does."""
        with self._lock:
            self._held.append(file)
            is_full = len(self._held) >= GROUP_FILES or sum(held.body.size for held in self._held) >= GROUP_BYTES
            group = self._taken() if is_full else []
        if group:
            put_files(self._storage, self._instant, group)

    def flush(self) -> None:
        """Put the files that are left; raise as `put_files` does."""
        with self._lock:
            group = self._taken()
        if group:
            put_files(self._storage, self._instant, group)

    def _taken(self) -> list[NewFile]:
        group, self._held = self._held, []
        return group


def put_files(storage: Storage, instant: str, files: Sequence[NewFile]) -> None:
    """Put markers, durably, then the files; with a new partition, its metadata file before them.

    Raises:
        Cancelled: the task was stopped; some files are not there.
        Unavailable: a file was not written.
        OutcomeUnknown: a file was written or not.
    """
    check_stop()
    # A single file gains nothing from it: its name then appears once its content is durable.
    begin_group = synced_together if len(files) > 1 else nullcontext
    with begin_group(storage) as together:
        for file in files:
            put_marker(together, instant, file.path, replaces=file.replaces)
    with begin_group(storage) as together:
        for file in files:
            if file.may_be_first:
                _ensure_partition(together, instant, file.path.rpartition("/")[0])
            check_stop()
            together.put(file.path, file.body)


def _ensure_partition(storage: Storage, instant: str, partition_path: str) -> None:
    """Put a partition's metadata file, unless it has one."""
    path = data_path(partition_path, partition_metadata.FILE_NAME)
    if storage.head(path) is None:
        depth = len(partition_path.split("/")) if partition_path else 0
        # Another group of the partition may be first: any writer's file will do.
        ensure(storage, path, partition_metadata.dumps(instant, depth, ms_of_instant(instant)))

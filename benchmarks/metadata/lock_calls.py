"""The storage calls of each holding of the lock during an index build that has much to catch up.

The build and another writer are in one process. After the last look of the build before its announcement the writer commits many
times: these commits lack the indexes, and catch-up adds them. While the build waits for the lock, the writer commits a few times
more: as if writers before it in the line got the lock first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness.rows import ORDERING
from benchmarks.harness.storage_calls import CountingStorage
from benchmarks.metadata.busy_tables import INDEXES
from benchmarks.metadata.watched import Section, WatchedLock
from hudi_ops import Table
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.storage.open import open_storage
from hudi_ops.timeline.builds.checkpoint import FOLDER, BuildCheckpoint

METADATA = ".hoodie/metadata/"


class BuildStorage(CountingStorage):
    """The storage of a build; `looked` is called once, after the last look before the announcement."""

    def __init__(self, inner: Any, looked: Callable[[], None]) -> None:
        super().__init__(inner)
        self._looked = looked
        self._has_looked = False

    def put(self, path: str, body: bytes) -> None:
        """Create or replace a file: the first checkpoint that names what the build covers ends its last look."""
        self.__getattr__("put")(path, body)
        if path.startswith(FOLDER) and not self._has_looked and BuildCheckpoint.model_validate_json(body).looked_at:
            self._has_looked = True
            self._looked()


def sections(table: Path, rows: pa.Table, missing: int, line: int) -> Sequence[Section]:
    """Build beside commits of one row each, and return what was called in each holding of the build's lock.

    Args:
        table: with a metadata table that has `files` alone.
        rows: known rows, of which the writer updates one after the other.
        missing: commits between the last look and the announcement.
        line: commits while the build waits for the lock, each time.
    """
    inner = open_storage(str(table))
    locks = in_process_lock(inner.uri)
    writer = Table(TableContext(storage=open_storage(str(table)), locks=locks))
    place = rows.schema.get_field_index(ORDERING)
    done = 0

    def commit(times: int) -> None:
        nonlocal done
        for _ in range(times):
            done += 1
            row = rows.slice(done % rows.num_rows, 1)
            writer.ingest(row.set_column(place, ORDERING, pa.array([row[ORDERING][0].as_py() + done])), engine="local")

    storage = BuildStorage(inner, lambda: commit(missing))
    lock = WatchedLock(locks, storage, lambda purpose: commit(line))
    built = Table(TableContext(storage=storage, locks=lock)).indexing.run(partitions=INDEXES, engine="local")
    assert {*INDEXES} <= {*built.partitions}
    assert done == missing + line * len(lock.sections), "the writer did not commit when it was to"
    return lock.sections


def of_metadata(section: Section) -> int:
    """How many of the calls were for the metadata table."""
    return sum(METADATA in path for _, path in section.calls)

"""Writers that try once, for the tests of conflicts: processes, one that stopped in the middle, and what is there afterwards."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Cancel
from tests.fault_plans import DiesBefore
from tests.protocol.crash_table import visible
from tests.tables import NOW_MS, TIMELINE, rows, table_of

P0 = rows(("k0", "p0", 100, 5, None))
P0_TOO = rows(("k0", "p0", 200, 6, None))
P1 = rows(("k1", "p1", 101, 5, None))
AT_DATA = "put:part="


def process(storage: Storage, actor: str, at_ms: int = NOW_MS, **conflicts: object) -> Table:
    """A table in a process of its own."""
    settings = ConflictSettings(**conflicts)
    return table_of(storage, ManualClock(at_ms, tick_ms=1), actor, conflicts=settings)


def once(table: Table, data: pa.Table, operation: str = "upsert") -> str:
    """One attempt; returns its instant."""
    return str(
        ingest(table._session, Batch(parse_operation(operation), rows=data), table.context.engine, "", 0.0).instant
    )


def paused(
    storage: MemoryStorage, data: pa.Table, at: str = AT_DATA, at_ms: int = NOW_MS, actor: str = "paused"
) -> str:
    """A writer that stopped in the middle and may still wake up: its lease has not expired. Returns its instant."""
    with contextlib.suppress(Crash):
        once(process(FaultyStorage(storage, DiesBefore(f"^{at}")), actor, at_ms), data)
    return max(i.name[:17] for i in storage.list(TIMELINE) if i.name.endswith(".commit.requested"))


def now(storage: MemoryStorage) -> dict[str, int]:
    return visible(storage, ManualClock(NOW_MS + 60_000))


def cancels(storage: MemoryStorage) -> int:
    log = load_log(storage, None)
    assert log is not None
    return sum(isinstance(entry, Cancel) for _, entry in log.since(-1))

"""Crash one ingest at every storage operation; every reader then sees the old or the new rows, and running it again completes it.

Method (as SQLite's): count the operations of an undisturbed run, then run once per operation and kind of crash upon a copy of
the same table. After each crash a reader opens what is left; then, once the dead writer's lease has expired, another process runs
the same ingest, after which the rows are the new ones and no file is left that no completed instant accounts for.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.lease import EXPIRY_MS
from hudi_ops.services.create import Definition, create_table
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.commit_log import POINTER_KEY, load_log
from hudi_ops.timeline.entries import Complete
from hudi_ops.timeline.state import CommitReader, StateLoader
from hudi_ops.services.ledger import pointers

SCHEMA = pa.schema([
    pa.field("id", pa.string()),
    pa.field("part", pa.string()),
    pa.field("value", pa.int64()),
    pa.field("ts", pa.int64()),
    pa.field("_hoodie_is_deleted", pa.bool_()),
])  # fmt: skip
START_MS = 1_900_000_000_000


def rows(*values: tuple[str, str, int, int, bool | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in values], schema=SCHEMA)


FIRST = rows(*[(f"k{i}", f"p{i % 2}", i, 1, None) for i in range(8)])
# Updates, a delete, a late row that loses, an insert, and a new partition.
SECOND = rows(
    ("k0", "p0", 100, 2, None), ("k1", "p1", 0, 0, None), ("k2", "p0", 2, 2, True),
    ("n1", "p1", 7, 2, None), ("n2", "p2", 8, 2, None),
)  # fmt: skip
OLD = {f"k{i}": i for i in range(8)}
NEW = {**OLD, "k0": 100, "n1": 7, "n2": 8}
del NEW["k2"]


def visible(storage: MemoryStorage, clock: ManualClock) -> dict[str, int]:
    table = Table(simulated_context(storage, clock, "reader")).read(["id", "value"])
    assert len(set(table["id"].to_pylist())) == table.num_rows
    return dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    pq.write_table(FIRST, folder / "1.parquet")
    return folder


@pytest.fixture
def base(source: Path) -> MemoryStorage:
    clock = ManualClock(START_MS)
    storage = MemoryStorage("crash", clock)
    table = Table(simulated_context(storage, clock, "creator"))
    create_table(table._session, Definition("crash", SCHEMA, ("id",), ("part",), "ts", buckets=2))
    table.ingest_folder(str(source))
    pq.write_table(SECOND, source / "2.parquet")
    assert visible(storage, clock) == OLD
    return storage


def unaccounted(storage: MemoryStorage) -> list[str]:
    """Files that no completed instant, slot or property accounts for."""
    commits = CommitReader(storage)
    state = StateLoader(storage, commits).load()
    log = load_log(storage, None)
    assert log is not None
    known = {".hoodie/hoodie.properties"}
    writes = [commits.metadata(state.timeline, one) for one in state.timeline.completed_writes]
    known |= {stat.path for one in writes for stat in one.stats}
    newest = commits.newest_with(state.timeline, POINTER_KEY)
    known |= set(itertools.chain.from_iterable(pointers(one.extra).values() for one in writes))
    known |= {entry.payload for _, entry in log.since(-1) if isinstance(entry, Complete)}
    assert newest is not None
    assert not state.timeline.pending, f"pending after recovery: {[str(one) for one in state.timeline.pending]}"
    return [
        info.path
        for info in storage.list()
        if info.path not in known
        and not info.path.startswith((f"{state.timeline.folder}/", ".hoodie/.commit_log/0"))
        and info.name != ".hoodie_partition_metadata"
    ]


def crash_points(base: MemoryStorage, source: Path, fault: Fault) -> int:
    number = 0
    for number in itertools.count(1):
        clock = ManualClock(START_MS + 60_000)
        storage = base.copy()
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        writer = Table(simulated_context(faulty, clock, "writer"))
        try:
            writer.ingest_folder(str(source))
        except Crash:
            pass
        point = faulty.fired[0] if faulty.fired else "undisturbed"
        seen = visible(storage.copy(), clock)
        assert seen in (OLD, NEW), f"{point}: a reader saw {seen}"
        clock.advance_ms(EXPIRY_MS + 1_000)
        again = Table(simulated_context(storage, clock, "second writer"))
        result = again.ingest_folder(str(source))
        assert visible(storage, clock) == NEW, point
        # What a reader saw stays: an ingest that had become visible is not done twice.
        assert (result.instant is None) == (seen == NEW) or seen == OLD, f"{point}: {result}"
        assert unaccounted(storage) == [], point
        if not faulty.fired:
            return number - 1
    return number


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_crash_at_every_storage_operation(base: MemoryStorage, source: Path, fault: Fault) -> None:
    points = crash_points(base, source, fault)
    print(f"crash points of one ingest, {fault.name}: {points}")
    assert points >= 60

"""Crash an ingest that changes the columns at every storage operation: columns and rows are seen changed together or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import NEW, OLD, SCHEMA, SECOND, START_MS, make_base, unaccounted, visible
from tests.protocol.sweep import visited

ADDED = ("note", pa.string())


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_columns_and_rows_change_together(tmp_path: Path, fault: Fault) -> None:
    source = tmp_path / "source"
    base = make_base(source)
    pq.write_table(SECOND.append_column(ADDED[0], pa.array(["new"] * SECOND.num_rows)), source / "2.parquet")
    outcomes = ((OLD, SCHEMA), (NEW, pa.schema([*SCHEMA, ADDED])))

    def seen(storage: MemoryStorage, clock: ManualClock) -> tuple[dict[str, int], pa.Schema]:
        return visible(storage, clock), Table(simulated_context(storage, clock, "reader")).schema

    rehearsal = FaultyStorage(base.copy())
    Table(simulated_context(rehearsal, ManualClock(START_MS + 60_000), "writer")).ingest_folder(
        str(source), evolve=True
    )
    assert rehearsal.operations > 42
    for number in visited(rehearsal.history, fault):
        clock, storage = ManualClock(START_MS + 60_000), base.copy()
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        with contextlib.suppress(Crash):
            Table(simulated_context(faulty, clock, "writer")).ingest_folder(str(source), evolve=True)
        assert seen(storage.copy(), clock) in outcomes, faulty.fired
        clock.advance_ms(EXPIRY_MS + 1_000)
        Table(simulated_context(storage, clock, "second")).ingest_folder(str(source), evolve=True)
        assert seen(storage, clock) == outcomes[1], faulty.fired
        notes = Table(simulated_context(storage, clock, "reader")).read(["id", "note"], where="note IS NOT NULL")
        assert sorted(notes["id"].to_pylist()) == ["k0", "n1", "n2"]
        assert unaccounted(storage) == [], faulty.fired
        assert verify_table(storage, deep=True, clock=clock).findings == (), faulty.fired
        assert faulty.fired

"""Crash an ingest that changes the columns at every storage operation: columns and rows are seen changed together or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from tests.protocol.crash_table import NEW, OLD, SECOND, assert_whole, make_base, visible
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import SCHEMA, table_of

ADDED = ("note", pa.string())


@pytest.mark.parametrize("fault", CRASHES)
def test_columns_and_rows_change_together(tmp_path: Path, fault: Fault) -> None:
    source = tmp_path / "source"
    base = make_base(source)
    pq.write_table(SECOND.append_column(ADDED[0], pa.array(["new"] * SECOND.num_rows)), source / "2.parquet")
    outcomes = ((OLD, SCHEMA), (NEW, pa.schema([*SCHEMA, ADDED])))

    def seen(storage: MemoryStorage, clock: ManualClock) -> tuple[dict[str, int], pa.Schema]:
        return visible(storage, clock), table_of(storage, clock, "reader").schema

    def run(storage, clock):
        return table_of(storage, clock, "writer").ingest_folder(str(source), evolve=True)

    for left in fault_sweep(base, run, fault, "an ingest that changes columns", points=43):
        assert seen(left.storage.copy(), left.clock) in outcomes, left.story
        Table(left.resume()).ingest_folder(str(source), evolve=True)
        assert seen(left.storage, left.clock) == outcomes[1], left.story
        reader = table_of(left.storage, left.clock, "reader")
        assert sorted(reader.read(["id"], where="note IS NOT NULL")["id"].to_pylist()) == ["k0", "n1", "n2"]
        assert_whole(left.storage, left.clock, NEW, left.story)

"""Crash an ingest that takes a corrected file again at every storage operation: run again, it has taken the file exactly once."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import NEW, OLD, SECOND, START_MS, make_base, unaccounted, visible
from tests.protocol.sweep import visited


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_corrected_file_is_taken_exactly_once(tmp_path: Path, fault: Fault) -> None:
    source = tmp_path / "source"
    base = make_base(source, None)
    pq.write_table(SECOND, source / "1.parquet")
    os.utime(source / "1.parquet", (1_700_000_000, 1_700_000_000))
    rehearsal = FaultyStorage(base.copy())
    first = Table(simulated_context(rehearsal, ManualClock(START_MS + 60_000), "writer"))
    assert first.ingest_folder(str(source), retake=["1.parquet"]).files == 1
    assert rehearsal.operations > 42
    for number in visited(rehearsal.history, fault):
        clock, storage = ManualClock(START_MS + 60_000), base.copy()
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        with contextlib.suppress(Crash):
            Table(simulated_context(faulty, clock, "writer")).ingest_folder(str(source), retake=["1.parquet"])
        assert (seen := visible(storage.copy(), clock)) in (OLD, NEW), faulty.fired
        clock.advance_ms(EXPIRY_MS + 1_000)
        second = Table(simulated_context(storage, clock, "second"))
        done = second.ingest_folder(str(source), retake=["1.parquet"]).instant is not None
        assert visible(storage, clock) == NEW, faulty.fired
        assert seen == OLD or not done, f"{faulty.fired}: taken twice"
        ledgers = [json.loads(storage.get(info.path)) for info in storage.list(".hoodie/.ingest")]
        assert max(len(ledger.get("retaken", {}).get("1.parquet", [])) for ledger in ledgers) == 1, faulty.fired
        assert unaccounted(storage) == [], faulty.fired
        assert verify_table(storage, deep=True, clock=clock).findings == (), faulty.fired
        assert faulty.fired

"""Crash an ingest that takes a corrected file again at every storage operation: run again, it has taken the file exactly once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_ops.table.table import Table
from hudi_ops.testing.faults import Fault
from tests.protocol.crash_table import NEW, OLD, SECOND, assert_whole, make_base, visible
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import table_of


@pytest.mark.parametrize("fault", CRASHES)
def test_a_corrected_file_is_taken_exactly_once(tmp_path: Path, fault: Fault) -> None:
    source = tmp_path / "source"
    base = make_base(source, None)
    pq.write_table(SECOND, source / "1.parquet")
    os.utime(source / "1.parquet", (1_700_000_000, 1_700_000_000))

    def run(storage, clock):
        assert table_of(storage, clock, "writer").ingest_folder(str(source), retake=["1.parquet"]).files

    for left in fault_sweep(base, run, fault, "an ingest that takes a file again", points=43):
        assert (seen := visible(left.storage.copy(), left.clock)) in (OLD, NEW), left.story
        done = Table(left.resume()).ingest_folder(str(source), retake=["1.parquet"]).instant is not None
        assert seen == OLD or not done, f"{left.story}: taken twice"
        ledgers = [json.loads(left.storage.get(info.path)) for info in left.storage.list(".hoodie/.ingest")]
        assert max(len(ledger.get("retaken", {}).get("1.parquet", [])) for ledger in ledgers) == 1, left.story
        assert_whole(left.storage, left.clock, NEW, left.story)

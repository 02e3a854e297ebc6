"""A writer is killed with SIGKILL in the middle of an ingest: the next run sees that its process is gone, and finishes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.table.table import Table
from tests.protocol.crash_table import unaccounted

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
WRITER = """
import sys, threading
from hudi_ops.storage.local import LocalStorage
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.table.table import Table

class StopsAt(LocalStorage):
    def put(self, path, body):
        stops = sys.argv[4] in path
        if not stops or sys.argv[3] == "after":
            super().put(path, body)
        if stops:
            print("stopped", flush=True)
            threading.Event().wait()

storage = StopsAt(sys.argv[1])
Table(TableContext(storage=storage, locks=in_process_lock(storage.uri))).ingest_folder(sys.argv[2])
"""


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("point", [".parquet", "/payload/"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_next_run_takes_over_at_once(tmp_path: Path, when: str, point: str) -> None:
    root, source = tmp_path / "t", tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "value": [10, 20]}, schema=SCHEMA), source / "1.parquet")
    table = Table.create(str(root), name="t", record_key=["id"], schema=SCHEMA)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), str(source), when, point], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "stopped\n"
        # While it lives it is left alone, and nothing of it is visible.
        assert table.read().num_rows == 0
        writer.send_signal(signal.SIGKILL)
    started_s = time.monotonic()
    result = table.ingest_folder(str(source))
    assert result.inserted == 2
    assert time.monotonic() - started_s < 60, "the dead writer's lease was waited for"
    assert table.read(["id"])["id"].to_pylist() == [1, 2]
    assert unaccounted(table.context.storage) == []

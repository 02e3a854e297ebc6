"""A writer stands still (SIGSTOP) until its lease has run out; another one rolls it back; then it goes on, and must not harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, lease_path, list_leases
from hudi_ops.context import Owner
from hudi_ops.errors import Cancelled
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import unaccounted
from tests.signals import freeze, thaw

DEADLINE_S = 180.0
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
WRITER = """
import sys
from hudi_ops.cli.main import main
from hudi_ops.storage.local import LocalStorage

put, is_told = LocalStorage.put, []

def stops(self, path, body):
    at, when = sys.argv[3:]
    stops = at in path and not is_told
    if not stops or when == "after":
        put(self, path, body)
    if stops:
        is_told.append(path)
        print("stopped", file=sys.stderr, flush=True)
        sys.stdin.readline()
        if when == "before":
            put(self, path, body)

LocalStorage.put = stops
sys.exit(main(["ingest", sys.argv[1], "--source", sys.argv[2], "--json"]))
"""


def rows(ids: list[int], value: int) -> pa.Table:
    return pa.table({"id": ids, "value": [value] * len(ids)}, schema=SCHEMA)


def run_out(root: Path, instant: str) -> None:
    """Two minutes later, as far as the lease goes."""
    lease = root / lease_path(instant)
    said = json.loads(lease.read_text())
    times = {key: said[key] - 2 * EXPIRY_MS for key in ("beaten_ms", "expires_ms")}
    lease.write_text(json.dumps(said | times))
    os.utime(lease, ns=(time.time_ns() - 2 * EXPIRY_MS * 1_000_000,) * 2)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", [".parquet", "/payload/"])
def test_a_writer_that_stood_still_too_long_stops_itself(tmp_path: Path, point: str, when: str) -> None:
    root, source = tmp_path / "t", tmp_path / "source"
    source.mkdir()
    table = Table.create(str(root), name="t", record_key=["id"], schema=SCHEMA)
    table.ingest(rows([1, 2, 3], 1))
    pq.write_table(rows([1, 2, 9], 666), source / "1.parquet")
    command = [sys.executable, "-c", WRITER, str(root), str(source), point, when]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stderr is not None
        while "stopped" not in writer.stderr.readline():
            assert writer.poll() is None
        freeze(writer.pid)
        (instant,) = list_leases(table.context.storage)
        if point == ".parquet":  # from its payload on it holds the lock of its process, and no other one, all the same
            table.ingest(rows([3], 2))
            assert list_leases(table.context.storage) == [instant], "it was left alone while its lease was good"
        run_out(root, instant)
        mine = Table.open(str(root)).ingest(rows([2], 3))
        assert mine.instant is not None
        thaw(writer.pid)
        said, log = writer.communicate("go on\n", timeout=DEADLINE_S)
    error = json.loads(said)
    assert (writer.returncode, error["error"]) == (Cancelled.exit_code, "Cancelled"), log
    assert error["instant"] == instant
    assert error["taken_by"] == str(Owner.of_this_process())
    assert str(Owner.of_this_process()) in error["message"]
    expected = {1: 1, 2: 3, 3: 2 if point == ".parquet" else 1}
    found = table.read(["id", "value"])
    assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == expected
    assert unaccounted(table.context.storage) == []
    assert list_leases(table.context.storage) == []
    report = verify_table(table.context.storage, deep=True)
    assert not report.findings, report
    again = table.ingest_folder(str(source))
    assert (again.updated, again.inserted) == (2, 1), "its source was not taken"

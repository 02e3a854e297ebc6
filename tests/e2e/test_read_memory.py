"""A stream over a table holds a few batches, never the table, nor one of its row groups.

Method: a child process streams a table that is much larger as Arrow than what it may take; its peak of resident memory is
measured by the system. With HUDI_OPS_SOAK the table has 5 GB and the process 2 GiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.table.table import Table

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
TEXT_BYTES = 1000
FILES, ROWS_A_FILE = (10, 510_000) if SOAK else (5, 150_000)
GROWTH_MAX_BYTES = 1 << 30 if SOAK else 400 << 20
PEAK_MAX_BYTES = 2 << 30

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("text", pa.string())])
CHILD = """
import json, re, sys
from pathlib import Path
from hudi_ops.engine.local import LocalEngine
from hudi_ops.table.table import Table

def peak():
    # Not getrusage: that begins with the peak of the process that was forked.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

scan = Table.open(sys.argv[1], engine=LocalEngine(threads=2)).scan()
scan.explain()
start, rows, size = peak(), 0, 0
if sys.argv[2] == "batches":
    for batch in scan.to_batches():
        rows, size = rows + batch.num_rows, size + batch.nbytes
elif sys.argv[2] == "parquet":
    from hudi_ops.cli.rows.row_files import write_parquet
    rows = write_parquet(scan, Path(sys.argv[3]), lambda progress: None)
    size = -1
else:
    import duckdb
    ((rows, size),) = scan.to_duckdb().aggregate("count(*), sum(length(text))").fetchall()
print(json.dumps({"start": start, "peak": peak(), "rows": rows, "size": size}))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of one row group in each partition."""
    path = tmp_path_factory.mktemp("large") / "t"
    table = Table.create(str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"])
    for number in range(FILES):
        first = number * ROWS_A_FILE
        text = pa.array(f"{at:010d}" * (TEXT_BYTES // 10) for at in range(first, first + ROWS_A_FILE))
        ids = pa.array(range(first, first + ROWS_A_FILE), pa.int64())
        table.ingest(pa.table([ids, pa.repeat(pa.scalar(number, pa.int32()), ROWS_A_FILE), text], schema=SCHEMA))
    return path


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("way", ["batches", "parquet", "duckdb"])
def test_a_stream_holds_a_few_batches(large: Path, tmp_path: Path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(large), way, str(tmp_path / "out.parquet")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(way, {name: value >> 20 for name, value in found.items()})
    assert found["rows"] == FILES * ROWS_A_FILE
    assert found["size"] == -1 or found["size"] >= found["rows"] * TEXT_BYTES
    assert FILES * ROWS_A_FILE * TEXT_BYTES > 1.5 * GROWTH_MAX_BYTES
    assert found["peak"] < PEAK_MAX_BYTES
    assert found["peak"] - found["start"] < GROWTH_MAX_BYTES

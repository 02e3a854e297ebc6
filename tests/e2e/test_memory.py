"""An ingest larger than memory: a process of its own, whose peak the system measured, writes more rows than it may hold.

Three sources: a Parquet file, CSV by its text, and a stream that is made while it is read. `HUDI_OPS_SOAK=1`: 5 GB of Arrow in a
process of 2 GiB, with what a container of that size would set by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

MIB = 1 << 20
ROWS_A_BATCH = 100_000

CHILD = """
import json, re, sys
import pyarrow as pa
from hudi_ops.engine.local import LocalEngine
from hudi_ops.table.table import Table
from tests.e2e.test_memory import batches

root, source, count, memory_bytes, buckets = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
schema = next(batches(1)).schema
table = Table.create(root, name="t", record_key=["id"], schema=schema, ordering="ts", buckets=buckets,
                     engine=LocalEngine(threads=2, memory_bytes=memory_bytes))
result = table.ingest(batches(count)) if source == "stream" else table.ingest_folder(source)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
ts = table.read(["ts"])["ts"]
print(json.dumps({"peak_mib": peak, "inserted": result.inserted, "rows": len(ts), "sum": pa.compute.sum(ts).as_py()}))
"""


def batches(count: int):
    """Record batches of 285 bytes a row, the same each time."""
    rng = np.random.default_rng(1)
    words = pa.array([rng.bytes(60).hex() for _ in range(500)])
    for number in range(count):
        ids = np.arange(number * ROWS_A_BATCH, (number + 1) * ROWS_A_BATCH)
        yield pa.record_batch({
            "id": pa.array(np.char.mod("%016d", ids)),
            "a": words.take(pa.array(rng.integers(0, 500, ROWS_A_BATCH))),
            "b": words.take(pa.array(rng.integers(0, 500, ROWS_A_BATCH))),
            "x": rng.random(ROWS_A_BATCH),
            "ts": ids,
        })


def write_source(kind: str, folder: Path, count: int) -> int:
    """Writes the batches as one file, and returns their bytes as Arrow."""
    folder.mkdir()
    schema, size_bytes = next(batches(1)).schema, 0
    writer = (
        pq.ParquetWriter(folder / "0.parquet", schema, compression="zstd")
        if kind == "parquet"
        else pacsv.CSVWriter(folder / "0.csv", schema)
    )
    with writer:
        for batch in batches(count):
            writer.write_batch(batch, **({"row_group_size": ROWS_A_BATCH} if kind == "parquet" else {}))
            size_bytes += batch.nbytes
    return size_bytes


def ingest_in_a_process(tmp_path: Path, source: str, count: int, memory_bytes: int, buckets: int) -> dict[str, int]:
    import json

    arguments = [str(tmp_path / "t"), source, *map(str, (count, memory_bytes, buckets))]
    spill = tmp_path / "spill"
    spill.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        env={**os.environ, "TMPDIR": str(spill), "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert list(spill.iterdir()) == []
    told: dict[str, int] = json.loads(done.stdout)
    rows = count * ROWS_A_BATCH
    assert (told["inserted"], told["rows"], told["sum"]) == (rows, rows, rows * (rows - 1) // 2)
    return told


# source, record batches, bytes that the engine may hold, bound of the process in MiB
CASES = [(kind, 30, 64 * MIB, 640) for kind in ("parquet", "csv", "stream")]
SOAK = [("parquet", 200, 512 * MIB, 2048)] if os.environ.get("HUDI_OPS_SOAK") else []


@pytest.mark.rotate(shares=3)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "count", "memory_bytes", "bound_mib"), [*CASES, *SOAK])
def test_more_rows_than_memory(tmp_path: Path, kind: str, count: int, memory_bytes: int, bound_mib: int) -> None:
    size_bytes = write_source(kind, tmp_path / "in", count) if kind != "stream" else count * next(batches(1)).nbytes
    source = str(tmp_path / "in") if kind != "stream" else "stream"
    told = ingest_in_a_process(tmp_path, source, count, memory_bytes, 32)
    print(f"{kind}: {size_bytes // MIB} MiB of Arrow, peak {told['peak_mib']} MiB")
    assert size_bytes > 1.15 * bound_mib * MIB
    assert told["peak_mib"] < bound_mib

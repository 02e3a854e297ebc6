"""Sources and slices that expand stay within `memory_bytes`: a process of its own grows by 1.5 times the limit and 64 MiB.

The rows of each source and slice are larger than the bound once decoded. The rows that are written are known by construction.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.table.table import Table

MIB = 1 << 20
LIMIT_BYTES = 32 * MIB
COMPACTION_LIMIT_BYTES = 64 * MIB
SCHEMA = pa.schema([("id", pa.string()), ("a", pa.string()), ("ts", pa.int64())])
TEXT = "x" * 300
ROWS = 500_000
LARGE_BYTES = LIMIT_BYTES * 2

CHILD = """
import json, re, sys
from pathlib import Path
import pyarrow as pa, pyarrow.acero, pyarrow.csv, pyarrow.json, pyarrow.parquet
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import HudiOpsError
from hudi_ops.table.table import Table

def peak():
    # Not ru_maxrss: it begins with the size of the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

path, call, argument, limit = *sys.argv[1:4], int(sys.argv[4])
table = Table.open(path, engine=LocalEngine(threads=2, memory_bytes=limit))
pa.table({"a": pa.array([1]).to_numpy()}).join(pa.table({"a": [1]}), "a")
start, error = peak(), None
try:
    if call == "compact":
        table.compaction.run(strategy="count", threshold=1, engine="local", memory_bytes=limit)
    else:
        table.ingest_folder(argument, evolve=call == "evolve")
except HudiOpsError as caught:
    error = [type(caught).__name__, str(caught), caught.details]
print(json.dumps({"growth": peak() - start, "error": error}, default=str))
"""


def in_a_process(path: Path, call: str, source: Path | str = "", limit_bytes: int = LIMIT_BYTES) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), call, str(source), str(limit_bytes)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print({"call": call, "source": source, "growth_mib": told["growth"] // MIB})
    assert told["growth"] < limit_bytes * 3 // 2 + 64 * MIB
    return told


def new_table(path: Path, **options: Any) -> Table:
    return Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, ordering="ts", engine=LocalEngine(threads=2), **options
    )


def equal_rows(count: int, ts: int = 1) -> pa.Table:
    columns = [pa.repeat(pa.scalar(value), count) for value in ("7", TEXT)]
    return pa.table([*columns, pa.repeat(pa.scalar(ts, pa.int64()), count)], schema=SCHEMA)


def parquet(folder: Path) -> None:
    with pq.ParquetWriter(folder / "0.parquet", SCHEMA, compression="zstd") as writer:
        writer.write_table(pa.concat_tables([equal_rows(ROWS // 100)] * 100), row_group_size=ROWS)


def csv(folder: Path) -> None:
    with gzip.open(folder / "0.csv.gz", "wb") as file:
        file.write(b"id,a,ts\n")
        for _ in range(100):
            file.write(f"7,{TEXT},1\n".encode() * (ROWS // 100))


def lines(folder: Path) -> None:
    with gzip.open(folder / "0.json.gz", "wb") as file:
        for _ in range(100):
            file.write(f'{{"id":"7","a":"{TEXT}","ts":1}}\n'.encode() * (ROWS // 100))


@pytest.mark.full("starts a process for each case")
@pytest.mark.parametrize(("write", "call"), [(parquet, "ingest"), (csv, "ingest"), (lines, "evolve")])
def test_a_source_that_expands_stays_within_the_limit(tmp_path: Path, write: Any, call: str) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    table = new_table(tmp_path / "t", buckets=4)
    assert in_a_process(tmp_path / "t", call, tmp_path / "in")["error"] is None
    assert table.read(SCHEMA.names) == equal_rows(1)


def large_parquet(folder: Path) -> None:
    rows = pa.table([["1", "2", "3"], [TEXT, "z" * LARGE_BYTES, TEXT], [1, 1, 1]], schema=SCHEMA)
    pq.write_table(rows, folder / "0.parquet", compression="zstd", use_dictionary=False)


def large_csv(folder: Path) -> None:
    (folder / "0.csv").write_text(f"id,a,ts\n1,{TEXT},1\n2,{'z' * LARGE_BYTES},1\n3,{TEXT},1\n")


def large_line(folder: Path) -> None:
    texts = (TEXT, "z" * LARGE_BYTES, TEXT)
    (folder / "0.json").write_text("".join(f'{{"id":"{n}","a":"{text}","ts":1}}\n' for n, text in enumerate(texts)))


@pytest.mark.full("starts a process for each case")
@pytest.mark.parametrize(
    ("write", "call"),
    [(large_parquet, "ingest"), (large_csv, "ingest"), (large_line, "evolve")],
)
def test_a_value_above_the_limit_is_named_before_it_is_decoded(tmp_path: Path, write: Any, call: str) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    table = new_table(tmp_path / "t", buckets=4)
    name, text, details = in_a_process(tmp_path / "t", call, tmp_path / "in")["error"]
    assert name == "InvalidRequest"
    assert (details["file"].rpartition("/")[2][:2], details["field"], details["row"]) == ("0.", "a", 1)
    assert "memory_bytes" in text
    assert "key" not in text
    assert table.read().num_rows == 0


@pytest.mark.full("starts a process")
def test_a_damaged_compressed_source_is_named_within_the_limit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    csv(tmp_path / "in")
    file = tmp_path / "in" / "0.csv.gz"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    new_table(tmp_path / "t", buckets=4)
    name, text, _ = in_a_process(tmp_path / "t", "ingest", tmp_path / "in")["error"]
    assert name == "InvalidRequest"
    assert "0.csv.gz" in text


@pytest.mark.full("starts a process")
def test_a_slice_with_many_log_entries_is_compacted_within_the_limit(tmp_path: Path) -> None:
    count = 500_000
    table = new_table(tmp_path / "t", buckets=1, table_type="mor")

    def rows(first: int, ts: int) -> pa.Table:
        ids = pa.array(np.char.mod("%032d", np.arange(first, first + count)))
        return pa.table([ids, pa.repeat(pa.scalar(TEXT[:100]), count), np.full(count, ts)], schema=SCHEMA)

    table.ingest(rows(0, 1), "bulk_insert")
    table.ingest(rows(count // 2, 2))
    assert in_a_process(tmp_path / "t", "compact", limit_bytes=COMPACTION_LIMIT_BYTES)["error"] is None
    found = table.read(SCHEMA.names).sort_by("id")
    assert found == pa.concat_tables([rows(0, 1).slice(0, count // 2), rows(count // 2, 2)])

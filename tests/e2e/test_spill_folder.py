"""A merge that exceeds its memory uses the engine's spill folder alone: full, or shared by two processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.table.table import Table

MIB = 1 << 20
LIMIT_BYTES = 8 * MIB
ROWS = 60_000
SCHEMA = pa.schema([("id", pa.string()), ("a", pa.string()), ("ts", pa.int64())])

CHILD = """
import json, resource, sys, tempfile
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import HudiOpsError
from hudi_ops.table.table import Table

path, folder, limit, *sizes = *sys.argv[1:3], *map(int, sys.argv[3:])
tempfile.tempdir = "/nowhere"
table = Table.open(path, engine=LocalEngine(threads=2, memory_bytes=limit, spill_folder=folder))
told = []
for size in sizes:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        done = table.compaction.run(strategy="count", threshold=1, engine="local", memory_bytes=limit)
        told.append(["", str(done.streamed), ""])
    except HudiOpsError as error:
        told.append([type(error).__name__, str(error), str(error.details.get("folder"))])
print(json.dumps(told))
"""


def compact(path: Path, folder: Path, *sizes: int) -> subprocess.Popen[str]:
    """Start a process that compacts once for each size to which files may grow; -1: any size."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, (path, folder, LIMIT_BYTES, *sizes))],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )


def told_by(process: subprocess.Popen[str]) -> list[list[str]]:
    answer, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    told: list[list[str]] = json.loads(answer)
    return told


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A table of one slice whose keys and texts do not compress, and the rows that it shows."""
    path = tmp_path_factory.mktemp("merged") / "t"
    engine = LocalEngine(threads=2)
    options = {"record_key": ["id"], "schema": SCHEMA, "ordering": "ts", "buckets": 1, "table_type": "mor"}
    table = Table.create(str(path), name="t", engine=engine, **options)
    rng = np.random.default_rng(1)
    texts = pa.array([rng.bytes(256).hex() for _ in range(ROWS)])
    rows = pa.table([pa.array([rng.bytes(16).hex() for _ in range(ROWS)]), texts, np.full(ROWS, 1)], schema=SCHEMA)
    table.ingest(rows)
    newer = rows.slice(0, ROWS // 2).set_column(2, SCHEMA.field("ts"), pa.array(np.full(ROWS // 2, 2)))
    table.ingest(newer)
    return path, pa.concat_tables([newer, rows.slice(ROWS // 2)]).sort_by("id")


@pytest.mark.full("starts a process")
def test_a_folder_that_fills_during_a_merge_is_named_and_the_next_run_succeeds(
    tmp_path: Path, merged: tuple[Path, Any]
) -> None:
    path, folder = tmp_path / "t", tmp_path / "spill"
    shutil.copytree(merged[0], path)
    folder.mkdir()
    before = sorted(path.rglob("*.parquet"))
    keys, file = told_by(compact(path, folder, MIB // 2, 10 * MIB))
    assert (keys[0], keys[2], file[0], file[2]) == ("Unavailable", str(folder), "Unavailable", str(folder))
    assert "keys of a slice" in keys[1]
    assert "base file" in file[1]
    assert (sorted(path.rglob("*.parquet")), list(folder.iterdir())) == (before, [])
    assert told_by(compact(path, folder, -1)) == [["", "1", ""]]
    assert Table.open(str(path)).read(SCHEMA.names).sort_by("id") == merged[1]


@pytest.mark.full("starts two processes")
def test_two_processes_share_a_folder(tmp_path: Path, merged: tuple[Path, Any]) -> None:
    paths, folder = [tmp_path / "a", tmp_path / "b"], tmp_path / "spill"
    folder.mkdir()
    for path in paths:
        shutil.copytree(merged[0], path)
    processes = [compact(path, folder, -1) for path in paths]
    assert [told_by(process) for process in processes] == [[["", "1", ""]]] * 2
    assert list(folder.iterdir()) == []
    for path in paths:
        assert Table.open(str(path)).read(SCHEMA.names).sort_by("id") == merged[1]

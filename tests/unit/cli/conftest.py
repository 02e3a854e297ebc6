"""A folder with a `tables.yaml`, a table made from it, and the command line called in this process or as a program."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.cli.main import main

TABLES = """
tables:
  trips:
    path: tables/trips
    record_key: [id]
    partition_by: [city]
    ordering: ts
    buckets: 2
    source: landing
  riders:
    path: tables/riders
    record_key: [id]
"""

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("city", pa.string()),
    ("ts", pa.int64()),
    ("fare", pa.float64()),
    ("day", pa.date32()),
    ("paid", pa.decimal128(9, 2)),
    ("token", pa.binary()),
    ("tags", pa.map_(pa.string(), pa.int64())),
])


@dataclass(frozen=True)
class Answer:
    """How a call ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line of the standard output, which must be the only one."""
        (line,) = self.out.splitlines()
        value = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert isinstance(value, dict)
        return value


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: `tables.yaml` and an empty `landing`."""
    (tmp_path / "tables.yaml").write_text(TABLES)
    (tmp_path / "landing").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)
    return tmp_path


@pytest.fixture
def call(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Call `hudi-ops` in this process."""

    def called(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return called


@pytest.fixture
def program(home: Path) -> Callable[..., Answer]:
    """Run the installed `hudi-ops` as a user does."""
    executable = Path(sys.executable).parent / "hudi-ops"

    def ran(*arguments: object) -> Answer:
        done = subprocess.run(
            [str(executable), *map(str, arguments)],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "COLUMNS": "100"},
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return ran


@pytest.fixture
def rows() -> Callable[..., pa.Table]:
    """Trips by id, each in the city that follows the `@`; other columns have values of their own."""

    def made(*names: str, ts: int = 1) -> pa.Table:
        ids, cities = zip(*(name.split("@") for name in names), strict=True)
        count = len(names)
        values = [ids, cities, [ts] * count, [1.5] * count, [0] * count, [None] * count, [b"\x00\xff"] * count]
        columns = [pa.array(list(value), field.type) for value, field in zip(values, SCHEMA, strict=False)]
        return pa.table([*columns, pa.array([[("a", 1)]] * count, SCHEMA.field("tags").type)], schema=SCHEMA)

    return made


@pytest.fixture
def trips(home: Path, call: Callable[..., Answer], rows: Callable[..., pa.Table]) -> Path:
    """The table `trips` with three rows, taken from `landing/first.parquet`."""
    pq.write_table(rows("a@Oslo", "b@Oslo", "c@Rome"), home / "landing" / "first.parquet")
    assert call("create", "trips", "--like", home / "landing" / "first.parquet").code == 0
    assert call("ingest", "trips").code == 0
    return home / "tables" / "trips"


def tree_of(folder: Path) -> dict[str, str]:
    """Every file and folder below, hidden ones included, with a digest of the bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def tree() -> Callable[[Path], dict[str, str]]:
    """What lies below a folder, to the byte."""
    return tree_of

"""Rows of TPC-H `lineitem` and streams of its changes, as Parquet files, and the table that they make by DuckDB."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

KEY = ("l_orderkey", "l_linenumber")
PARTITION = "l_shipmode"
ORDERING = "version"
SHARE = 100
"""A stream changes one row in `SHARE`, and adds one key for each `10 * SHARE` rows."""

Digest = tuple[int, int, int]
"""Number of rows, and sum and exclusive or of their hashes."""


@dataclass(frozen=True)
class Streams:
    """Files of a run.

    Attributes:
        base: files of the first load.
        upserts: one file for each upsert, in order.
    """

    base: Sequence[Path]
    upserts: Sequence[Path]

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(file.stat().st_size for file in (*self.base, *self.upserts))


def make_streams(folder: Path, scale: float, upserts: int, memory: str) -> Streams:
    """Make the files.

    Args:
        folder: emptied first.
        scale: TPC-H's scale factor; 1 has 6 million rows.
        upserts: number of streams.
        memory: limit of DuckDB, as it reads it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = Path(sys.executable).with_name("tpchgen-cli")
    parts = max(1, round(scale * 2))
    told = ["--tables=lineitem", f"--output-dir={folder}", f"--parts={parts}", "--no-progress"]
    subprocess.run([command, "parquet", "-s", str(scale), *told], check=True, capture_output=True)
    base = sorted((folder / "lineitem").glob("*.parquet"))
    if len(base) != parts:
        raise RuntimeError(f"tpchgen-cli made {len(base)} files of lineitem in {folder}, {parts} were expected")
    files = [folder / f"upsert-{number:02d}.parquet" for number in range(1, upserts + 1)]
    with _connected(folder, memory) as duck:
        # One scan chooses the rows of all streams: it decodes every column, since it finds one row in a hundred.
        duck.execute(
            f"CREATE TABLE chosen AS SELECT *, unnest(list_filter(range(1, {upserts + 1}), "
            f"lambda n: {_hash('n')} % {SHARE} = 0 OR {_hash('n')} % {10 * SHARE} = 1)) AS stream FROM {_lineitem(folder)}"
        )
        for number, file in enumerate(files, 1):
            duck.execute(f"COPY ({_stream(number)}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
    return Streams(base, files)


def expected(folder: Path, streams: Streams, memory: str) -> Digest:
    """Return the digest of the table that loads and upserts make, by DuckDB."""
    with _connected(folder, memory) as duck:
        changed = f"read_parquet({[str(file) for file in streams.upserts]})"
        keys = ", ".join(KEY)
        duck.execute(
            f"CREATE TABLE newest AS SELECT * FROM {changed} "
            f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {ORDERING} DESC) = 1"
        )
        rows = f"SELECT *, 0::BIGINT AS {ORDERING} FROM {_lineitem(folder)} ANTI JOIN newest USING ({keys})"
        return _digest(duck, f"({rows} UNION ALL BY NAME SELECT * FROM newest)", _names(duck))


def found(folder: Path, rows: pa.RecordBatchReader, memory: str) -> Digest:
    """Return the digest of rows as a table gives them."""
    with _connected(folder, memory) as duck:
        names = sorted(rows.schema.names)
        duck.register("found", rows)
        return _digest(duck, "found", names)


def _connected(folder: Path, memory: str) -> duckdb.DuckDBPyConnection:
    told: dict[str, Any] = {"memory_limit": memory, "temp_directory": str(folder / "duckdb"), "threads": 2}
    return duckdb.connect(config=told | {"preserve_insertion_order": False})


def _lineitem(folder: Path) -> str:
    return f"read_parquet('{folder / 'lineitem'}/*.parquet')"


def _hash(stream: str) -> str:
    return f"hash({', '.join(KEY)}, {stream})"


def _stream(number: int) -> str:
    """Return the query of a stream: changed rows, a part of which earlier streams changed, and new keys."""
    names = f"* EXCLUDE stream, {_hash('stream')} AS chance, {number}::BIGINT AS {ORDERING}"
    rows = f"(SELECT {names} FROM chosen WHERE stream = {number})"
    changed = (
        "l_quantity + 1 AS l_quantity, "
        f"(l_comment || ' ' || repeat('v{number} ', (l_linenumber % 5)::INT)) AS l_comment"
    )
    return (
        f"SELECT * EXCLUDE chance REPLACE ({changed}) FROM {rows} WHERE chance % {SHARE} = 0 UNION ALL "
        f"SELECT * EXCLUDE chance REPLACE (l_orderkey + {number} * 1000000000000 AS l_orderkey) "
        f"FROM {rows} WHERE chance % {10 * SHARE} = 1"
    )


def _names(duck: duckdb.DuckDBPyConnection) -> list[str]:
    return sorted(row[0] for row in duck.execute("DESCRIBE newest").fetchall())


def _digest(duck: duckdb.DuckDBPyConnection, rows: str, names: Sequence[str]) -> Digest:
    each = f"hash({', '.join(names)})"
    row = duck.execute(f"SELECT count(*), sum({each}::HUGEINT), bit_xor({each}) FROM {rows}").fetchone()
    if row is None or row[1] is None:
        return 0, 0, 0
    return int(row[0]), int(row[1]), int(row[2])

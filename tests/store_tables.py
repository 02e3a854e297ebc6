"""Write the tables that later releases must read: `python -m tests.store_tables` packs them into tests/fixtures/stored-tables.

An archive is never written again: a change of a stored form adds archives, named by the commit that wrote them. Each holds a
table with the kinds of files that this library alone stores, and `rows.json` with its rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops import Table

FOLDER = Path(__file__).parent / "fixtures" / "stored-tables"
COLUMNS = ["id", "city", "fare", "at"]


def rows(ids: range, at: int) -> pa.Table:
    """Return a row for each id, in two partitions."""
    cities = ["Oslo" if number % 2 else "Rome" for number in ids]
    fares = [float(number + at) for number in ids]
    return pa.table({"id": [f"k{number:02d}" for number in ids], "city": cities, "fare": fares, "at": [at] * len(ids)})


DEFINITION = {"record_key": "id", "partition_by": "city", "ordering": "at", "schema": rows(range(1), 1).schema}


def copy_on_write(folder: Path, landing: Path) -> Table:
    """Make a table with indexes, a ledger of a folder, a cancelled and a pending clustering, and a savepoint."""
    table = Table.create(folder, name="rides", table_type="cow", buckets=2, **DEFINITION)
    pq.write_table(rows(range(20), 1), landing / "one.parquet")
    table.ingest_folder(str(landing))
    pq.write_table(rows(range(5, 25), 2), landing / "two.parquet")
    table.ingest_folder(str(landing))
    table.indexing.run(partitions=["column_stats", "record_index"])
    table.savepoints.create()
    table.cancel(table.clustering.plan(sort_by="fare").instant)
    table.ingest(rows(range(3), 3))
    table.clustering.plan(sort_by="fare")
    return table


def merge_on_read(folder: Path, landing: Path) -> Table:
    """Make a table with hash rings, log files, a completed resize, a hold and a pending compaction."""
    table = Table.create(
        folder, name="rings", table_type="mor", bucket_engine="consistent", buckets=2, buckets_max=8, **DEFINITION
    )
    table.ingest(rows(range(30), 1))
    table.ingest(rows(range(10, 30), 2))
    table.compaction.run(strategy="count", threshold=1)
    table.resize.run(split_bytes=1_000, merge_bytes=0)
    written = table.ingest(rows(range(20, 40), 3)).instant
    table.holds.take(written, seconds=3600, owner="store_tables")
    table.compaction.plan(strategy="count", threshold=1)
    return table


KINDS = {"cow": copy_on_write, "mor": merge_on_read}


def main() -> int:
    """Write an archive of each kind, named by the commit that is checked out; returns the exit code."""
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    FOLDER.mkdir(exist_ok=True)
    for kind, make in KINDS.items():
        with tempfile.TemporaryDirectory() as place:
            folder, landing = Path(place) / kind, Path(place) / "landing"
            landing.mkdir()
            found = make(folder, landing).read(COLUMNS).sort_by("id").to_pylist()
            with zipfile.ZipFile(FOLDER / f"{kind}-{commit}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("rows.json", json.dumps(found))
                for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                    archive.write(file, f"table/{file.relative_to(folder)}")
        print(f"wrote {kind}-{commit}.zip")
    return 0


if __name__ == "__main__":
    sys.exit(main())

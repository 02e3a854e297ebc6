"""Reads with and without what the metadata table lets a reader leave out.

`python -m benchmarks.metadata.skipping`: a table of a million rows in 8 partitions of 16 files, written in the order of `ts`, so
that each file holds a short span of it; its metadata table has the three default partitions and a record index. `storage` lists
folders and opens every file of the partitions that are left, whose footers then say which row groups can be passed over; `metadata`
asks the metadata table first. Rows of both must be the same.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import machine
from benchmarks.harness.places import RESULTS
from benchmarks.harness.rows import BASE_TS, ORDERING, PARTITION, PARTITIONS, RECORD_KEY, SEED, make_keys, make_rows
from benchmarks.harness.storage_calls import CountingStorage
from benchmarks.metadata.in_turn import measured, publish, table_of
from hudi_ops import Table
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.context import TableContext

CHOICES = ("metadata", "storage")
_COLUMNS = [RECORD_KEY, ORDERING, "fare"]
_DAY_MS = 86_400_000
_TITLES = ["rows", "files opened", "files whose rows are read", "by which index", "storage calls"]
_ABOUT = "Local disk, warm page cache, three columns. Each read opens the table anew."


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table.

    Returns:
        0; 1 when a read gave other rows with the metadata table than without it.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata.skipping", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--commits", type=int, default=16, help="in which they are written: files of each partition")
    parser.add_argument("--runs", type=int, default=7, help="counted rounds")
    parser.add_argument("--work", type=Path, default=RESULTS / "work-metadata-skipping", help="scratch folder, emptied")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the runs and the report go")
    options = parser.parse_args(arguments)
    shutil.rmtree(options.work, ignore_errors=True)
    table = options.work / "table"
    rows = _rows(options.rows)
    _make(table, rows, options.commits)
    runs, told = [], {}
    for case, where in _conditions(rows).items():
        found = {one: _read(table, where, one).sort_by(RECORD_KEY) for one in CHOICES}
        if not found["metadata"].equals(found["storage"]) or not found["storage"].num_rows:
            print(f"{case}: the metadata table changes what is read", file=sys.stderr)
            return 1
        runs += measured(case, {one: partial(_read, table, where, one) for one in CHOICES}, options.runs)
        for one in CHOICES:
            told[case, one] = _told(table, where, one)
    shutil.rmtree(options.work, ignore_errors=True)
    facts = {**machine.machine(), "rows": f"{options.rows:,}", "files": f"{options.commits * len(PARTITIONS)}"}
    lines = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    text = f"# Reads\n\n{_ABOUT}\n\n{lines}\n\n{table_of(runs, told, _TITLES, 'metadata')}\n"
    publish("skipping", text, runs, options.results)
    return 0


def _rows(count: int) -> pa.Table:
    """Rows whose partition is the day of `ts`."""
    rng = np.random.default_rng(SEED)
    rows = make_rows(rng, count, make_keys(rng, count), BASE_TS).sort_by(ORDERING)
    days = (rows[ORDERING].to_numpy() - BASE_TS) // _DAY_MS
    partitions = pa.array(PARTITIONS, pa.string()).take(pa.array(np.clip(days, 0, len(PARTITIONS) - 1)))
    return rows.set_column(rows.schema.get_field_index(PARTITION), PARTITION, partitions)


def _make(path: Path, rows: pa.Table, commits: int) -> None:
    made = Table.create(
        str(path),
        name="trips",
        record_key=[RECORD_KEY],
        schema=rows.schema,
        partition_by=[PARTITION],
        ordering=ORDERING,
        index="record_index",
        file_sizes=FileSizes(small_bytes=0),
    )
    days = [rows.filter(pc.equal(rows[PARTITION], day)) for day in PARTITIONS]
    for number in range(commits):
        # The next span of every day.
        parts = []
        for day in days:
            first, last = (day.num_rows * at // commits for at in (number, number + 1))
            parts.append(day.slice(first, last - first))
        # Not in bulk: where a key lies is asked of the record index only while every write looked for its keys.
        made.ingest(pa.concat_tables(parts), "insert", engine="local")


def _conditions(rows: pa.Table) -> dict[str, str]:
    key, ts = rows[RECORD_KEY][rows.num_rows // 3].as_py(), rows[ORDERING][rows.num_rows // 3].as_py()
    day = BASE_TS + 3 * _DAY_MS
    return {
        "key": f"{RECORD_KEY} = '{key}'",
        "minute": f"{ORDERING} between {ts} and {ts + 60_000}",
        "day": f"{ORDERING} >= {day} and {ORDERING} < {day + _DAY_MS}",
        "everything": "fare >= 0",
    }


def _read(table: Path, where: str, listing: str) -> pa.Table:
    return Table.open(str(table)).read(_COLUMNS, where, listing=listing)


def _told(table: Path, where: str, listing: str) -> list[str]:
    opened = Table.open(str(table))
    counting = CountingStorage(opened.context.storage)
    rows = Table(TableContext(storage=counting, locks=opened.context.locks)).read(_COLUMNS, where, listing=listing)
    scan = opened.scan(_COLUMNS, where, listing=listing)
    explained = scan.explain()
    by = {
        "partition_stats": explained.partitions_skipped_by_statistics,
        "column_stats": explained.groups_skipped_by_statistics,
        "record_index": explained.groups_skipped_by_record_index + explained.partitions_skipped_by_record_index,
    }
    said = ", ".join(f"{name} {count}" for name, count in by.items() if count)
    return [
        f"{rows.num_rows:,}",
        str(len(scan.tasks)),
        str(explained.files_read),
        said,
        str(sum(counting.calls.values())),
    ]


if __name__ == "__main__":
    sys.exit(main())

"""Tables for builds beside writers: a metadata table with `files` alone, and rows for one writer after the other."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness.rows import (
    BASE_TS,
    ORDERING,
    PARTITION,
    PARTITIONS,
    RECORD_KEY,
    SEED,
    SPAN,
    make_keys,
    make_rows,
)
from benchmarks.metadata import checks
from hudi_ops import Table
from hudi_ops.verify import verify_table

BUCKETS = 2
"""Of each partition: 16 file groups in all."""
INDEXES = ("record_index", "column_stats")


def base_rows(count: int) -> pa.Table:
    """Rows of the table before a build."""
    rng = np.random.default_rng(SEED)
    return make_rows(rng, count, make_keys(rng, count), BASE_TS)


def make_base(path: Path, rows: pa.Table, table_type: str) -> None:
    """Make the table that runs begin from; no service runs by itself."""
    made = Table.create(
        str(path),
        name="trips",
        record_key=[RECORD_KEY],
        schema=rows.schema,
        partition_by=[PARTITION],
        ordering=ORDERING,
        table_type=table_type,
        buckets=BUCKETS,
        metadata=False,
        clean={"automatic": False},
        archive={"automatic": False},
    )
    made.ingest(rows, "bulk_insert", engine="local")
    made.indexing.run(partitions=["files"], engine="local")
    made.close()


def restore(prepared: Path, table: Path) -> None:
    """Put a prepared table in place."""
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(prepared, table)


def batch(rows: pa.Table, partition: str, updates: int, inserts: int, number: int) -> pa.Table:
    """Newer rows of one partition: of some known keys, and of new ones."""
    rng = np.random.default_rng([SEED, number])
    known = rows.filter(pc.equal(rows[PARTITION], partition))
    chosen = rng.choice(known.num_rows, min(updates, known.num_rows), replace=False)
    keys = pa.concat_arrays([known[RECORD_KEY].take(pa.array(chosen)).combine_chunks(), make_keys(rng, inserts)])
    made = make_rows(rng, len(keys), keys, BASE_TS + (number + 1) * SPAN)
    return made.set_column(made.schema.get_field_index(PARTITION), PARTITION, [pa.array([partition] * len(keys))])


def put_batches(folder: Path, rows: pa.Table, count: int, updates: int, inserts: int) -> list[str]:
    """Write `count` batches, each for the next partition; return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"batch-{number}.parquet" for number in range(count)]
    for number, file in enumerate(files):
        pq.write_table(batch(rows, PARTITIONS[number % len(PARTITIONS)], updates, inserts, number), file)
    return [str(file) for file in files]


def is_right(table: Path, indexes: tuple[str, ...] = INDEXES) -> bool:
    """Whether the indexes are listed, and equal the table's files."""
    storage = Table.open(str(table)).context.storage
    return checks.is_built(table, indexes) and verify_table(storage, index=True).errors == ()


def add_places(parser: argparse.ArgumentParser, name: str, results: Path) -> None:
    """Add the options that say where tables, runs and the report go."""
    parser.add_argument("--work", type=Path, default=results / f"work-metadata-{name}", help="scratch folder, emptied")
    parser.add_argument("--results", type=Path, default=results, help="where the runs and the report go")

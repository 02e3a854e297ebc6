"""One run in a process of its own: load, upserts, and services after every few of them; a JSON line a step on stdout.

A run that was killed goes on with `--first`, the number of the step that it did not complete.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tpch.streams import KEY, ORDERING, PARTITION
from hudi_ops import Table
from hudi_ops.engine.local import LocalEngine

EVERY = 5
"""Upserts between two runs of the services."""

THREADS = 2
"""Tasks of a service at a time, which share the memory limit."""

RETAINED = 3
"""Commits whose files a clean keeps."""


def main() -> None:
    """Run the steps; the table stays where it was made."""
    options = _options()
    first = pq.read_schema(options.upserts[0])
    schema = pa.schema([field.with_nullable(True) for field in first])
    table = Table.create(
        options.table,
        name="lineitem",
        schema=schema,
        record_key=KEY,
        partition_by=[PARTITION],
        ordering=ORDERING,
        table_type="mor",
        buckets=options.buckets,
        clean={"automatic": False},
        archive={"automatic": False},
        engine=LocalEngine(THREADS, memory_bytes=options.memory_bytes, spill_folder=str(options.spill)),
    )
    for number, (name, step) in enumerate(_steps(table, options, schema)):
        if number < options.first:
            continue
        _say({"begins": number, "step": name})
        begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
        step()
        spent = {"wall_s": time.perf_counter() - begun_s, "cpu_s": time.process_time() - begun_cpu_s}
        _say({"ended": number, "step": name} | {key: round(value, 2) for key, value in spent.items()})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--base", type=Path, nargs="+", required=True)
    parser.add_argument("--upserts", type=Path, nargs="+", required=True)
    parser.add_argument("--buckets", type=int, required=True)
    parser.add_argument("--memory-bytes", type=int, required=True)
    parser.add_argument("--spill", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    return parser.parse_args()


def _steps(table: Table, options: argparse.Namespace, schema: pa.Schema) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "load", lambda: table.ingest(_with_version(options.base, schema), "insert")
    for number, file in enumerate(options.upserts, 1):
        yield "upsert", lambda file=file: table.ingest_file(file)
        if number % EVERY == 0:
            yield "compact", lambda: table.compaction.run(memory_bytes=options.memory_bytes // THREADS, resume=True)
            yield "clean", lambda: table.clean.run(retain=RETAINED)
            yield "archive", lambda: table.archive.run(keep_min=4, keep_max=6)


def _with_version(files: list[Path], schema: pa.Schema) -> pa.RecordBatchReader:
    """Return the rows of the first load, whose files have no version."""

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(64 * 1024):
                version = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
                rows = pa.table([*batch.columns, version], names=[*batch.schema.names, ORDERING])
                yield from rows.select(schema.names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _say(said: dict[str, Any]) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()

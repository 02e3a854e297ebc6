"""One case in a process of its own: commits of one row into one open table, and what each hundred cost; JSON lines on stdout."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa

from hudi_ops import Table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])
WARM = 10
RELOADS = 50
LOADS = 400
FEW = 50
SETTLED_S = 0.2
"""Time without a write before a table is loaded: a folder that changed just now is read again by each load."""


def cpu_ms(work: Callable[[], object], times: int = 1) -> float:
    """CPU milliseconds of this process for one call, on average."""
    before = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - before) * 1000 / times


def median_cpu_ms(work: Callable[[], object], times: int) -> float:
    """CPU milliseconds of this process for one call: the median of some calls."""
    return median(cpu_ms(work) for _ in range(times))


def main() -> None:
    """Run it; the table is left where it was made."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--type", choices=("cow", "mor"), required=True)
    parser.add_argument("--metadata", action="store_true")
    parser.add_argument("--commits", type=int, required=True)
    parser.add_argument("--part", type=int, required=True, help="commits of one measurement")
    options = parser.parse_args()
    table = Table.create(
        options.table,
        name="growth",
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=options.type,
        metadata=options.metadata,
        clean={"automatic": False},
        archive={"automatic": False},
    )
    count = 0

    def commit() -> None:
        nonlocal count
        table.ingest(pa.table({"id": ["k"], "part": ["p"], "value": [count], "ts": [count]}, schema=SCHEMA))
        count += 1

    for _ in range(WARM):
        commit()
    parts: list[float] = []
    loads: dict[int, float] = {}
    colds: dict[int, float] = {}
    while count < WARM + options.commits:
        spent = 0.0
        for _ in range(options.part):
            spent += cpu_ms(commit)
            if count in {min(FEW, options.part), WARM + options.commits}:
                time.sleep(SETTLED_S)
                loads[count] = median_cpu_ms(table._session.loader.load, LOADS)
                colds[count] = cpu_ms(lambda: Table.open(options.table)._session.loader.load(), 5)
        parts.append(spent / options.part)
    timeline = options.table / ".hoodie" / "timeline"
    found = table.read(["value"])["value"].to_pylist()
    print(
        json.dumps({
            "parts": [round(part, 3) for part in parts],
            "load_ms": {at: round(ms, 3) for at, ms in loads.items()},
            "cold_ms": {at: round(ms, 3) for at, ms in colds.items()},
            "names": len(list(os.scandir(timeline))),
            "listing_ms": round(cpu_ms(lambda: [entry.name for entry in os.scandir(timeline)], RELOADS), 3),
            "correct": found == [count - 1],
        })
    )


if __name__ == "__main__":
    main()

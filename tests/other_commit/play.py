"""One side of the game: does what it is told with the `hudi_ops` that PYTHONPATH names, through its public API only.

A command is a line of JSON on stdin, `[name, arguments…]`; the answer is a line of JSON on stdout. Must run with the code of both
commits, so it uses names that have not changed since the first of them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa

import hudi_ops
from hudi_ops import Table
from hudi_ops.verify import verify_table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])


def create(path: str, kind: str, index: str, metadata: bool) -> None:
    """Create an empty table."""
    Table.create(
        path,
        name="other",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        ordering="ts",
        table_type=kind,
        index=index,
        buckets=2 if index == "bucket" else 1,
        metadata=metadata,
    )


def write(path: str, operation: str, rows: list[dict[str, Any]]) -> None:
    """Write rows by an operation."""
    Table.open(path).ingest(pa.Table.from_pylist(rows, schema=SCHEMA), operation=operation)


def compact(path: str) -> bool:
    """Plan a compaction and execute it, if there is anything to compact."""
    return Table.open(path).compaction.run().instant is not None


def plan(path: str) -> bool:
    """Leave a planned compaction for the other side."""
    return Table.open(path).compaction.plan().instant is not None


def execute(path: str) -> bool:
    """Execute the compaction that the other side planned."""
    return Table.open(path).compaction.execute().instant is not None


def build(path: str, partitions: list[str]) -> None:
    """Build partitions of the metadata table."""
    Table.open(path).indexing.run(partitions=partitions)


def read(path: str) -> dict[str, Any]:
    """Return the rows by key, the number of rows changed since the beginning, and what `verify` finds."""
    table = Table.open(path)
    rows = table.read(["id", "value"]).to_pylist()
    found = verify_table(table.context.storage, deep=True, index=True).findings
    changes = table.changes(columns=["id"]).to_arrow().num_rows
    return {
        "rows": {row["id"]: row["value"] for row in rows},
        "count": len(rows),
        "changes": changes,
        "findings": list(map(str, found)),
    }


COMMANDS = {command.__name__: command for command in (create, write, compact, plan, execute, build, read)}


def main() -> None:
    """Answer commands until stdin ends."""
    print(json.dumps(hudi_ops.__file__), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(COMMANDS[name](*arguments)), flush=True)


if __name__ == "__main__":
    main()

"""Create, ingest, read, compact and verify a merge-on-read table; the last line is what came of it."""

import json
import shutil
from pathlib import Path

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.verify.invariants import verify_table

schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
table = Table.create("trips", name="trips", record_key=["id"], table_type="mor", schema=schema)
for fare in (1.5, 2.5, 9.5):
    table.ingest(pa.Table.from_pylist([{"id": number, "city": "Oslo", "fare": fare} for number in (1, 2, 3)], schema))


def log_files_read() -> int:
    """Return how many log files a read merges."""
    merged = table.read(["fare"])["fare"].to_pylist()
    only_base = table.read(["fare"], query="read_optimized")["fare"].to_pylist()
    assert merged == [9.5, 9.5, 9.5]
    return 0 if only_base == merged else len(list(Path("trips").glob(".*.log.*")))


before = log_files_read()
table.compaction.run(threshold=1)
report = verify_table(table.context.storage)
print(
    json.dumps({
        "rows": table.read().num_rows,
        "fare": table.read(["fare"])["fare"][0].as_py(),
        "log_files": [before, log_files_read()],
        "java": shutil.which("java"),
        "errors": len(report.errors),
    })
)

"""Tables on disk whose readers merge many log files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.table.table import Table

SCHEMA = "id string, part string, v long, ts long"


def batch(low: int, high: int, version: int = 1, parts: int = 1) -> pa.Table:
    """Rows with the keys from `low` below `high`, dealt to partitions p0, p1 …."""
    numbers = range(low, high)
    return pa.table({
        "id": [f"k{number}" for number in numbers],
        "part": [f"p{number % parts}" for number in numbers],
        "v": pa.array([number * version for number in numbers], pa.int64()),
        "ts": pa.array([version] * len(numbers), pa.int64()),
    })


def table_at(path: Path, **keywords: Any) -> Table:
    """A new table in a folder, by default without a metadata table."""
    given = {"record_key": "id", "partition_by": "part", "ordering": "ts", "metadata": False, **keywords}
    return Table.create(path, name=path.name, schema=SCHEMA, **given)


def read_cost_missed(tmp_path: Path) -> str:
    """A table whose slices have eleven log files, of many more bytes than their base files."""
    table = table_at(tmp_path / "logged", table_type="mor", index="bucket", buckets=2)
    for version in range(1, 13):
        table.ingest(batch(0, 40, version))
    return str(tmp_path / "logged")

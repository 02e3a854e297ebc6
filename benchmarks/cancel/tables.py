"""Merge-on-read tables of this benchmark: keys, partitions, one value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.table.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])


def rows(partitions: Sequence[str], value: int, each: int = 1) -> pa.Table:
    """Return `each` rows in each partition."""
    count = len(partitions) * each
    ids = pa.array([f"k{number}" for number in range(each)] * len(partitions), pa.string())
    parts = pa.array([part for part in partitions for _ in range(each)], pa.string())
    return pa.table([ids, parts, pa.repeat(pa.scalar(value, pa.int64()), count)], schema=SCHEMA)


def made(path: Path, partitions: Sequence[str], each: int = 1, **keywords: Any) -> Table:
    """Create a table with `each` rows of value 0 in each partition, of one file group."""
    table = Table.create(
        str(path),
        name=path.name,
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        table_type="mor",
        buckets=1,
        metadata=False,
        clean={"automatic": False},
        archive={"automatic": False},
        **keywords,
    )
    table.ingest(rows(partitions, 0, each), engine="local")
    return table

"""Tables of this benchmark, made by hudi_ops: one column of keys, nine others, no partitions or a few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from hudi_ops import Table


def create(path: Path | str, schema: pa.Schema, *, partitioned: bool = False, **keywords: Any) -> Table:
    """An empty merge-on-read table, without upkeep."""
    return Table.create(
        str(path),
        name="trips",
        record_key=[RECORD_KEY],
        schema=schema,
        partition_by=[PARTITION] if partitioned else [],
        ordering=ORDERING,
        table_type="mor",
        clean={"automatic": False},
        archive={"automatic": False},
        **{"metadata": False, **keywords},
    )


def create_ringed(path: Path | str, schema: pa.Schema, buckets: int, **keywords: Any) -> Table:
    """The same with consistent buckets, whose rings may grow without end."""
    return create(path, schema, bucket_engine="consistent", buckets=buckets, buckets_max=65_536, **keywords)

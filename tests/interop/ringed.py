"""Options of Apache Hudi's writers for hash rings, and rows with versions."""

from __future__ import annotations

import pyarrow as pa

from tests.interop.apache_hudi import bucket_options
from tests.tables import VERSIONED as SCHEMA


def ring_options(buckets: int, fields: str = "id") -> dict[str, str]:
    return bucket_options(buckets, fields) | {
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.min.num.buckets": "1",
        "hoodie.bucket.index.max.num.buckets": "16",
        "hoodie.storage.layout.type": "BUCKET",
        "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    }


def rows(first: int, last: int, version: int) -> pa.Table:
    numbers = range(first, last)
    values = [[f"k{n:04d}" for n in numbers], [f"p{n % 2}" for n in numbers], [n * version for n in numbers]]
    return pa.table([*values, [version] * len(numbers)], schema=SCHEMA)


def wanted(*batches: pa.Table) -> pa.Table:
    """The newest row of each key."""
    newest = {row["id"]: row for batch in batches for row in batch.to_pylist()}
    return pa.Table.from_pylist(list(newest.values()), SCHEMA)

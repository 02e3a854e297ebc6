"""Apache Hudi's own writer: its options, alike in all comparisons but for type, index and layout of the table."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.session import PARALLELISM

_KEY_GENERATORS = {True: "SimpleKeyGenerator", False: "NonpartitionedKeyGenerator"}
TABLE_TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
_METADATA_SWITCHES = {
    "files": "hoodie.metadata.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.global.record.level.index.enable",
}


def versions(spark: Any, jar: str) -> dict[str, str]:
    """Bundle, Spark and Java."""
    bundle = re.sub(r"^hudi-|\.jar$", "", Path(jar).name)
    return {
        "apache_hudi": bundle,
        "spark": spark.version,
        "java": spark._jvm.System.getProperty("java.version"),
    }


def write_options(
    operation: str,
    table_type: str,
    *,
    partitioned: bool,
    buckets: int,
    index: str = "BUCKET",
    log_format: str = "",
    metadata: Collection[str] = (),
) -> dict[str, str]:
    """Options of one write; no services run beside it.

    Args:
        operation: Apache Hudi's name of it.
        table_type: `cow` or `mor`.
        partitioned: whether the table has partitions.
        buckets: file groups per partition, with the bucket index.
        index: its index.
        log_format: of the rows in log files; empty: its default, which is Avro.
        metadata: partitions of its metadata table; none: there is no metadata table.
    """
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": RECORD_KEY,
        "hoodie.datasource.write.partitionpath.field": PARTITION if partitioned else "",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{_KEY_GENERATORS[partitioned]}",
        "hoodie.datasource.write.precombine.field": ORDERING,
        "hoodie.datasource.write.table.type": TABLE_TYPES[table_type],
        "hoodie.datasource.write.operation": operation,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": index,
        **{switch: str(name in metadata).lower() for name, switch in _METADATA_SWITCHES.items()},
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": str(PARALLELISM),
        "hoodie.insert.shuffle.parallelism": str(PARALLELISM),
        "hoodie.bulkinsert.shuffle.parallelism": str(PARALLELISM),
    }
    if index == "BUCKET":
        options |= {
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(buckets),
            "hoodie.bucket.index.hash.field": RECORD_KEY,
        }
    if log_format:
        options |= {"hoodie.logfile.data.block.format": log_format}
    return options

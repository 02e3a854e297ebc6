"""Define a table to create, with the columns that it has."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.key_generators import KeyGenerator, TimePartition
from hudi_ops.config.table import IndexKind, TableType
from hudi_ops.metadata.records.partitions import MetadataPartition


@dataclass(frozen=True)
class Definition:
    """Definition of a table to create.

    `time` says how a column becomes a path, for the key generator `timestamp`. `metadata` gives it a metadata table, with the
    partitions that Apache Hudi's tables get by default.
    """

    name: str
    schema: pa.Schema
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: str | None = None
    table_type: TableType = "COPY_ON_WRITE"
    buckets: int = 1
    url_encode: bool = True
    version: int = 9
    key_generator: KeyGenerator = "auto"
    hive_style: bool = True
    meta_fields: bool = True
    time: TimePartition | None = None
    metadata: bool = False
    index: IndexKind = "simple_bucket"

    @property
    def metadata_partitions(self) -> tuple[MetadataPartition, ...]:
        """Return the partitions of its metadata table, in the order of their creation.

        A table without partitions has no statistics of partitions.
        """
        if not self.metadata:
            return ()
        of_partitions, keys = MetadataPartition.PARTITION_STATS, MetadataPartition.RECORD_INDEX
        return (
            MetadataPartition.FILES,
            MetadataPartition.COLUMN_STATS,
            *((keys,) if self.index == keys else ()),
            *((of_partitions,) if self.partition_by else ()),
        )

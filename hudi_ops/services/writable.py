"""Which tables can be written, and why the others cannot: one place, so that every door gives the same answer."""

from __future__ import annotations

from hudi_ops.config.table import WRITABLE_VERSIONS, TableConfig
from hudi_ops.errors import Unsupported


def refuse_unwritable(config: TableConfig) -> None:
    """Refuse tables that need what is not written yet.

    Raises:
        Unsupported: names the feature.
    """
    problem = ""
    if config.version not in WRITABLE_VERSIONS:
        problem = f"its version is {config.version}"
    elif config.table_type != "COPY_ON_WRITE":
        problem = "it is merge-on-read: log files are not written yet"
    elif config.metadata_partitions or config.metadata_partitions_inflight:
        partitions = config.metadata_partitions + config.metadata_partitions_inflight
        problem = f"it has a metadata table ({', '.join(partitions)}), which is not kept yet"
    elif not config.populate_meta_fields:
        problem = "it has no meta columns (hoodie.populate.meta.fields=false)"
    elif config.drop_partition_columns:
        problem = "it drops partition columns from its files"
    elif config.merge_mode == "CUSTOM":
        problem = "it merges rows by a custom class"
    elif len(config.ordering_fields) > 1:
        problem = f"it orders by several fields ({', '.join(config.ordering_fields)})"
    if problem:
        raise Unsupported(
            f"this table cannot be written: {problem}",
            table=config.name,
            expected="a copy-on-write table of version 9 without a metadata table",
            found=problem,
            next_step="write it with Apache Hudi; `hudi-ops read` and `hudi-ops show` work where files allow",
        )

"""Which tables can be written, and why the others cannot: one place, so that every door gives the same answer."""

from __future__ import annotations

from hudi_ops.config.key_generators import WRITABLE_TYPES, time_partition_of
from hudi_ops.config.table import WRITABLE_VERSIONS, TableConfig
from hudi_ops.errors import HudiOpsError, Unsupported


def refuse_unwritable(config: TableConfig) -> None:
    """Refuse tables that need what is not written yet.

    Raises:
        Unsupported: names the feature.
    """
    problem = ""
    if config.version not in WRITABLE_VERSIONS:
        problem = f"its version is {config.version}"
    elif config.metadata_partitions or config.metadata_partitions_inflight:
        partitions = config.metadata_partitions + config.metadata_partitions_inflight
        problem = f"it has a metadata table ({', '.join(partitions)}), which is not kept yet"
    elif config.drop_partition_columns:
        problem = "it drops partition columns from its files"
    elif config.merge_mode == "CUSTOM":
        problem = "it merges rows by a custom class"
    elif len(config.ordering_fields) > 1:
        problem = f"it orders by several fields ({', '.join(config.ordering_fields)})"
    elif config.key_generator not in WRITABLE_TYPES:
        problem = f"its keys are made by the key generator {config.key_generator}"
    elif config.key_generator == "TIMESTAMP":
        problem = _problem_of_times(config)
    if problem:
        raise Unsupported(
            f"this table cannot be written: {problem}",
            table=config.name,
            expected="a table of version 8 or 9 without a metadata table",
            found=problem,
            next_step="write it with Apache Hudi; `hudi-ops read` and `hudi-ops show` work where files allow",
        )


def _problem_of_times(config: TableConfig) -> str:
    try:
        time_partition_of(config.raw, config.name)
    except HudiOpsError as error:
        return error.what
    return ""

"""Encoding of plans that this library publishes: the reverse of `timeline.content.plans`.

Source: docs/format.md §2.4, §3.2.
"""

from __future__ import annotations

from typing import Any

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import COMPACTION_PLAN, REQUESTED_REPLACE_METADATA
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice, ReplacePlan

COMPACTION_VERSION = 2
"""Version of plans that name files without their folders."""

CLUSTERING_VERSION = 1

_BYTES_PER_MB = 1024 * 1024


def encode_compaction(plan: CompactionPlan) -> bytes:
    """Encode the requested file of a compaction; equal plans give equal bytes."""
    return avro.write_one(
        COMPACTION_PLAN,
        {
            "operations": [_operation(slice_) for slice_ in plan.slices],
            "extraMetadata": dict(sorted(plan.extra.items())),
            "version": COMPACTION_VERSION,
            "strategy": None,
            "preserveHoodieMetadata": False,
            "missingSchedulePartitions": list(plan.unplanned),
        },
    )


def encode_clustering(plan: ReplacePlan) -> bytes:
    """Encode the requested file of a clustering; equal plans give equal bytes."""
    groups: list[dict[str, Any]] = [
        {
            "slices": [_slice_info(slice_) for slice_ in slices],
            "metrics": {},
            "numOutputFileGroups": 1,
            "extraMetadata": None,
            "version": CLUSTERING_VERSION,
        }
        for slices in plan.groups
    ]
    strategy = {
        "strategyClassName": plan.strategy,
        "strategyParams": dict(sorted(plan.strategy_params.items())),
        "version": CLUSTERING_VERSION,
    }
    return avro.write_one(
        REQUESTED_REPLACE_METADATA,
        {
            "operationType": plan.operation,
            "clusteringPlan": {
                "inputGroups": groups,
                "strategy": strategy,
                "extraMetadata": dict(sorted(plan.extra.items())),
                "version": CLUSTERING_VERSION,
                "preserveHoodieMetadata": True,
                "missingSchedulePartitions": [],
            },
            "extraMetadata": {},
            "version": CLUSTERING_VERSION,
        },
    )


def slice_metrics(base_bytes: int | None, log_files: int, log_bytes: int, new_base_bytes: int) -> dict[str, float]:
    """Return the metrics of a slice without which Apache Hudi fails to execute a plan.

    `new_base_bytes` is the expected size of a first base file.
    """
    read_mb = ((base_bytes or 0) + log_bytes) // _BYTES_PER_MB
    write_mb = (new_base_bytes if base_bytes is None else base_bytes) // _BYTES_PER_MB
    return {
        "TOTAL_LOG_FILES": float(log_files),
        "TOTAL_IO_MB": float(read_mb + write_mb),
        "TOTAL_IO_READ_MB": float(read_mb),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_WRITE_MB": float(write_mb),
    }


def _operation(one: PlannedSlice) -> dict[str, Any]:
    return {
        "baseInstantTime": one.base_instant,
        "deltaFilePaths": list(one.log_files),
        "dataFilePath": one.base_file or None,
        "fileId": one.file_id,
        "partitionPath": one.partition_path,
        "metrics": dict(one.metrics),
        "bootstrapFilePath": None,
    }


def _slice_info(one: PlannedSlice) -> dict[str, Any]:
    return {
        "dataFilePath": one.base_file or None,
        "deltaFilePaths": list(one.log_files),
        "fileId": one.file_id,
        "partitionPath": one.partition_path,
        "bootstrapFilePath": None,
        "version": CLUSTERING_VERSION,
    }

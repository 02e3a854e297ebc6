"""Encode plans, savepoints and results of index builds for `timeline.content.plans`.

Source: docs/format §2.4, §3.2, §14.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import INDEX_COMMIT_METADATA, INDEX_PLAN
from hudi_ops.formats.timeline.timeline_schemas import COMPACTION_PLAN, REQUESTED_REPLACE_METADATA, SAVEPOINT_METADATA
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedGroup, PlannedSlice, ReplacePlan, Savepoint

NEW_BASE_BYTES = 120 << 20
"""Expected size of a first base file in Apache Hudi's plans: its default for new files, in bytes."""

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
    """Encode the requested file of a clustering; equal plans give equal bytes.

    The slices have whole URIs: Apache Hudi's executor opens its files there.
    """
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
                "inputGroups": [_group_info(group) for group in plan.groups],
                "strategy": strategy,
                "extraMetadata": dict(sorted(plan.extra.items())),
                "version": CLUSTERING_VERSION,
                "preserveHoodieMetadata": True,
                "missingSchedulePartitions": list(plan.unplanned),
            },
            "extraMetadata": {},
            "version": CLUSTERING_VERSION,
        },
    )


def slice_metrics(
    base_bytes: int | None, log_files: int, log_bytes: int, new_base_bytes: int = NEW_BASE_BYTES
) -> dict[str, float]:
    """Return the metrics of a slice, which Apache Hudi needs to execute a plan.

    `new_base_bytes` is the expected size of a first base file.
    """
    write_bytes = new_base_bytes if base_bytes is None else base_bytes
    return _metrics(log_files, log_bytes, (base_bytes or 0) + log_bytes, write_bytes)


def group_metrics(
    slices: Iterable[tuple[int | None, Sequence[int]]], new_base_bytes: int = NEW_BASE_BYTES
) -> dict[str, float]:
    """Return a plan group's metrics, from the sizes of each slice's base file and log files.

    Bytes are added up before they are cut to MiB. `new_base_bytes` is the expected size of a first base file.
    """
    sizes = list(slices)
    logs = [size for _, slice_logs in sizes for size in slice_logs]
    read_bytes = sum(base or 0 for base, _ in sizes) + sum(logs)
    # A base file without bytes counts as a missing one, as in Apache Hudi.
    return _metrics(len(logs), sum(logs), read_bytes, sum(base or new_base_bytes for base, _ in sizes))


def _metrics(log_files: int, log_bytes: int, read_bytes: int, write_bytes: int) -> dict[str, float]:
    read_mb, write_mb = read_bytes // _BYTES_PER_MB, write_bytes // _BYTES_PER_MB
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


def _group_info(group: PlannedGroup) -> dict[str, Any]:
    return {
        "slices": [_slice_info(slice_) for slice_ in group.slices],
        "metrics": dict(group.metrics),
        "numOutputFileGroups": group.outputs,
        "extraMetadata": dict(group.extra) or None,
        "version": CLUSTERING_VERSION,
    }


def _slice_info(one: PlannedSlice) -> dict[str, Any]:
    return {
        "dataFilePath": one.base_file,
        "deltaFilePaths": list(one.log_files),
        "fileId": one.file_id,
        "partitionPath": one.partition_path,
        "bootstrapFilePath": "",
        "version": CLUSTERING_VERSION,
    }


SAVEPOINT_VERSION = 1


def encode_savepoint(savepoint: Savepoint) -> bytes:
    """Encode the completed file of a savepoint; equal savepoints give equal bytes."""
    return avro.write_one(
        SAVEPOINT_METADATA,
        {
            "savepointedBy": savepoint.made_by,
            "savepointedAt": savepoint.at_ms,
            "comments": savepoint.comments,
            "partitionMetadata": {
                path: {"partitionPath": path, "savepointDataFile": list(names)}
                for path, names in sorted(savepoint.files.items())
            },
            "version": SAVEPOINT_VERSION,
        },
    )


INDEX_VERSION = 1
"""Version of plans, results and their partitions."""


def encode_index_plan(partitions: Mapping[str, str]) -> bytes:
    """Encode the requested file of an index build.

    `partitions` maps each partition of the metadata table to the last completed instant before the first pending one.
    """
    return avro.write_one(INDEX_PLAN, {"version": INDEX_VERSION, "indexPartitionInfos": _infos(partitions)})


def encode_index_result(partitions: Mapping[str, str]) -> bytes:
    """Encode the completed file of an index build; arguments as of `encode_index_plan`."""
    record = {"version": INDEX_VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions)}
    return avro.write_one(INDEX_COMMIT_METADATA, record)


def _infos(partitions: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"version": INDEX_VERSION, "metadataPartitionPath": name, "indexUptoInstant": upto, "extraMetadata": {}}
        for name, upto in partitions.items()
    ]

"""Cleans as Apache Hudi makes them, on tables in memory: files of superseded slices go, and an instant says which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import CLEAN_METADATA, CLEANER_PLAN
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.names import instant_of_ms
from tests.tables import TIMELINE

Told = Literal["deleted", "failed", "planned", "pending"]
"""How a clean names what it removed: as deleted; as failed, since it was gone; only as to be deleted; or in its plan alone."""


def clean(
    storage: Storage, clock: ManualClock, paths: Iterable[str], *, earliest: str = "", told: Told = "deleted"
) -> str:
    """Remove files, and put the clean's instant; returns its request time."""
    gone = sorted(paths)
    by_partition: dict[str, list[str]] = {}
    for path in gone:
        partition, _, name = path.rpartition("/")
        by_partition.setdefault(partition, []).append(name)
    time = instant_of_ms(clock.now_ms())
    policy = "KEEP_LATEST_COMMITS" if earliest else "KEEP_LATEST_FILE_VERSIONS"
    plan = avro.write_one(CLEANER_PLAN, _plan(policy, earliest, by_partition))
    storage.put(f"{TIMELINE}/{time}.clean.requested", plan)
    storage.put(f"{TIMELINE}/{time}.clean.inflight", plan)
    for path in gone:
        storage.delete(path)
    if told != "pending":
        body = avro.write_one(CLEAN_METADATA, _result(policy, earliest, by_partition, told, len(gone)))
        storage.put(f"{TIMELINE}/{time}_{instant_of_ms(clock.now_ms() + 1)}.clean", body)
        clock.advance_ms(2)
    return time


def _plan(policy: str, earliest: str, files: Mapping[str, list[str]]) -> dict[str, object]:
    retained = {"timestamp": earliest, "action": "commit", "state": "COMPLETED"} if earliest else None
    return {
        "earliestInstantToRetain": retained,
        "lastCompletedCommitTimestamp": "",
        "policy": policy,
        "filesToBeDeletedPerPartition": {},
        "version": 2,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": f"file:/table/{partition}/{name}", "isBootstrapBaseFile": False} for name in names]
            for partition, names in files.items()
        },
        "partitionsToBeDeleted": [],
        "extraMetadata": None,
    }


def _result(policy: str, earliest: str, files: Mapping[str, list[str]], told: Told, count: int) -> dict[str, object]:
    return {
        "startCleanTime": "",
        "timeTakenInMillis": 1,
        "totalFilesDeleted": count if told == "deleted" else 0,
        "earliestCommitToRetain": earliest,
        "lastCompletedCommitTimestamp": "",
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "policy": policy,
                "deletePathPatterns": names,
                "successDeleteFiles": names if told == "deleted" else [],
                "failedDeleteFiles": names if told == "failed" else [],
                "isPartitionDeleted": False,
            }
            for partition, names in files.items()
        },
        "version": 2,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": None,
    }

"""Encode plans and results of cleans, as `timeline.content.plans` decodes them.

Source: docs/format §3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import CLEAN_METADATA, CLEANER_PLAN
from hudi_ops.storage.paths import is_path, join
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.plans import CleanPlan, FilesByPartition

CLEAN_VERSION = 2
"""Version of plans with whole paths, and of results with bare file names."""

COMPLETED = "COMPLETED"


@dataclass(frozen=True)
class CleanDone:
    """What an execution of a clean did.

    `deleted` files existed, `gone` files did not; the plan's other files were kept.
    """

    instant: str
    took_ms: int
    deleted: FilesByPartition
    gone: FilesByPartition


def encode_clean_plan(storage: Storage, plan: CleanPlan) -> bytes:
    """Encode the requested file of a clean; equal plans give equal bytes."""
    retained = {"timestamp": plan.earliest_retained, "action": plan.earliest_action, "state": COMPLETED}
    return avro.write_one(
        CLEANER_PLAN,
        {
            "earliestInstantToRetain": retained if plan.earliest_retained else None,
            "lastCompletedCommitTimestamp": plan.last_completed,
            "policy": plan.policy,
            "filesToBeDeletedPerPartition": {},
            "version": CLEAN_VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": planned_path(storage, join(partition, name)), "isBootstrapBaseFile": False}
                    for name in names
                ]
                for partition, names in sorted(plan.files.items())
            },
            "partitionsToBeDeleted": [],
            "extraMetadata": dict(sorted(plan.extra.items())),
        },
    )


def encode_clean_result(plan: CleanPlan, done: CleanDone, extra: dict[str, str]) -> bytes:
    """Encode the completed file of a clean; it names the files removed and those found gone."""
    partitions = sorted({*done.deleted, *done.gone})
    return avro.write_one(
        CLEAN_METADATA,
        {
            "startCleanTime": done.instant,
            "timeTakenInMillis": done.took_ms,
            "totalFilesDeleted": sum(map(len, done.deleted.values())),
            "earliestCommitToRetain": plan.earliest_retained,
            "lastCompletedCommitTimestamp": plan.last_completed,
            "partitionMetadata": {
                partition: {
                    "partitionPath": partition,
                    "policy": plan.policy,
                    "deletePathPatterns": sorted((*done.deleted.get(partition, ()), *done.gone.get(partition, ()))),
                    "successDeleteFiles": sorted(done.deleted.get(partition, ())),
                    "failedDeleteFiles": sorted(done.gone.get(partition, ())),
                    "isPartitionDeleted": False,
                }
                for partition in partitions
            },
            "version": CLEAN_VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": dict(sorted(extra.items())),
        },
    )


def planned_path(storage: Storage, path: str) -> str:
    """Return a path as clean plans of Apache Hudi spell it: `file:/` before a local one.

    On other stores the scheme is left out: one bucket is `s3` to this library and `s3a` to Hadoop, which refuses the other.
    """
    scheme = "file:" if urlsplit(storage.uri).scheme == "file" else ""
    return f"{scheme}{root_path(storage)}/{path}"


def root_path(storage: Storage) -> str:
    """Return the path of the table's root without scheme and host, not percent-encoded."""
    return unquote(urlsplit(storage.uri).path).rstrip("/")


def strange_paths(storage: Storage, plan: CleanPlan, *, is_moved: bool = False) -> list[str]:
    """Return the paths of a plan that name no file of their partition in this table.

    `is_moved`: the table may have been under another path when the clean was planned, so the root's path may differ.
    """
    root = root_path(storage)
    found = []
    for partition, paths in plan.paths.items():
        for path in paths:
            below = path.partition("://")[2].partition("/")[2] if "://" in path else path.removeprefix("file:")
            expected = join(partition, path.rpartition("/")[2])
            is_below = below.strip("/") == f"{root}/{expected}".strip("/") or (
                is_moved and below.endswith(f"/{expected}")
            )
            if not _is_of_table(expected) or ("/" in path and not is_below):
                found.append(path)
    return found


def _is_of_table(path: str) -> bool:
    return is_path(path) and not path.startswith(".hoodie/")

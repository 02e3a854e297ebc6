"""Encode plan and result of a restore, as Apache Hudi writes them (docs/format §3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import RESTORE_METADATA, RESTORE_PLAN
from hudi_ops.timeline.instant import Instant

PLAN_VERSION = 2
RESULT_VERSION = 1


@dataclass(frozen=True)
class Undone:
    """A write that a restore undid; `files` are absolute paths by partition path."""

    instant: Instant
    files: Mapping[str, Sequence[str]]


def encode_restore_plan(savepoint: str, targets: Sequence[Instant]) -> bytes:
    """Encode the requested file of a restore.

    `targets` are the writes to undo, newest completion first.
    """
    return avro.write_one(
        RESTORE_PLAN,
        {
            "instantsToRollback": [_info(target) for target in targets],
            "version": PLAN_VERSION,
            "savepointToRestoreTimestamp": savepoint,
        },
    )


def encode_restore(restore: str, took_ms: int, undone: Sequence[Undone]) -> bytes:
    """Encode the completed file of a restore that took `took_ms` milliseconds."""
    return avro.write_one(
        RESTORE_METADATA,
        {
            "startRestoreTime": restore,
            "timeTakenInMillis": took_ms,
            "instantsToRollback": [one.instant.time for one in undone],
            "hoodieRestoreMetadata": {one.instant.time: [_rollback(restore, one)] for one in undone},
            "version": RESULT_VERSION,
            "restoreInstantInfo": [_info(one.instant) for one in undone],
        },
    )


def _info(instant: Instant) -> dict[str, str]:
    return {"commitTime": instant.time, "action": instant.kind}


def _rollback(restore: str, one: Undone) -> dict[str, object]:
    return {
        "startRollbackTime": restore,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(map(len, one.files.values())),
        "commitsRollback": [one.instant.time],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": list(paths),
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition, paths in one.files.items()
        },
        "version": RESULT_VERSION,
        "instantsRollback": [_info(one.instant)],
    }

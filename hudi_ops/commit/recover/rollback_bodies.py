"""Encode the plan and the metadata of a rollback as Apache Hudi does.

Source: docs/format §8.1, §8.2, §9.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from hudi_ops.files.names import parse_data_file
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.instant import Instant


def child_logs(target: Instant, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of log files under the instant of an aborted resize, by partition path.

    The metadata table lists log files of completed writers, so they must be removed from it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path in paths if target.kind == "replacecommit" else ():
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file(name)
        if parsed is not None and parsed.is_log:
            found[partition] = (*found.get(partition, ()), name)
    return found


def plan_bytes(storage: Storage, target: Instant, paths: Sequence[str]) -> bytes:
    """Encode the requested file of a rollback."""
    return avro.write_one(
        ROLLBACK_PLAN,
        {
            "instantToRollback": {"commitTime": target.time, "action": target.kind},
            "RollbackRequests": [
                {
                    "partitionPath": partition,
                    "fileId": group,
                    "latestBaseInstant": target.time if group else "",
                    "filesToBeDeleted": [absolute_path(storage, path) for path in held],
                    "logBlocksToBeDeleted": {},
                }
                for (partition, group), held in _requests(target, paths).items()
            ],
            "version": 1,
        },
    )


def metadata_bytes(storage: Storage, rollback: str, took_ms: int, target: Instant, paths: Sequence[str]) -> bytes:
    """Encode the completed file of a rollback."""
    by_partition: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_partition.setdefault(path.rpartition("/")[0], []).append(absolute_path(storage, path))
    return avro.write_one(
        ROLLBACK_METADATA,
        {
            "startRollbackTime": rollback,
            "timeTakenInMillis": took_ms,
            "totalFilesDeleted": len(paths),
            "commitsRollback": [target.time],
            "partitionMetadata": {
                partition: {
                    "partitionPath": partition,
                    "successDeleteFiles": held,
                    "failedDeleteFiles": [],
                    "rollbackLogFiles": {},
                    "logFilesFromFailedCommit": {},
                }
                for partition, held in by_partition.items()
            },
            "version": 1,
            "instantsRollback": [{"commitTime": target.time, "action": target.kind}],
        },
    )


def absolute_path(storage: Storage, path: str) -> str:
    """Return a path as in Apache Hudi's plans: absolute, without scheme, not percent-encoded."""
    return f"{unquote(urlsplit(storage.uri).path)}/{path}"


def _requests(target: Instant, paths: Sequence[str]) -> Mapping[tuple[str, str], list[str]]:
    """Group paths by (partition, file group); as in Hudi, the group is "" unless a delta commit."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(paths):
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file(name) if target.kind == "deltacommit" else None
        found.setdefault((partition, parsed.file_id if parsed is not None else ""), []).append(path)
    return found

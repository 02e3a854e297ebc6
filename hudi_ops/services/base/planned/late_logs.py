"""Bring chosen slices up to date with a write that completed while their plan is made.

A log file that completes below the plan's instant and is not in the plan would be hidden by the new files. So it joins the plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from hudi_ops.files.names import parse_data_file
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order

Key = tuple[str, str]
"""Partition path and file id."""

S = TypeVar("S", bound=Slice)


def join_logs(slices: dict[Key, S], other: Instant, metadata: CommitMetadata) -> dict[Key, str]:
    """Add a write's log files to `slices`; return the slices that it rewrote, with the reason."""
    for file in _logs_of(other, metadata):
        key = (file.partition_path, file.file_id)
        if key in slices:
            slices[key] = _with_log(slices[key], file, other)
    why = f"{other.action} {other.time} replaced it while the plan was made"
    return {key: why for key in _rewritten(other, metadata) if key in slices}


def _with_log(slice_: S, file: DataFile, other: Instant) -> S:
    if slice_.base is not None and other.completion_time < slice_.base.instant:
        return slice_  # the writer's clock lags: the file is older than the base file, and no reader sees it
    if any(known.path == file.path for known in slice_.logs):
        return slice_
    return replace(slice_, logs=merge_order((*slice_.logs, file)))


def _logs_of(other: Instant, metadata: CommitMetadata) -> Iterable[DataFile]:
    """Yield the log files that a write put under its own instant.

    Log files of a dual writer of a resize carry the instant of the resize plan.
    """
    for stat in metadata.stats:
        named = parse_data_file(stat.file_name)
        if named is not None and named.is_log and not named.is_cdc and named.instant == other.time:
            yield DataFile(
                stat.partition_path,
                stat.path.lstrip("/"),
                stat.file_id,
                other.time,
                stat.file_size_in_bytes,
                is_log=True,
            )


def _rewritten(other: Instant, metadata: CommitMetadata) -> Iterable[Key]:
    """Yield the file groups that a write gave a new base file or replaced."""
    for stat in metadata.stats:
        named = parse_data_file(stat.file_name)
        if (named is not None and not named.is_log) or other.action in REWRITING_ACTIONS:
            yield stat.partition_path, stat.file_id
    for partition, file_ids in (metadata.replaced or {}).items():
        yield from ((partition, file_id) for file_id in file_ids)

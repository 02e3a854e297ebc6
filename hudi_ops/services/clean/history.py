"""List the committed slices of file groups, old ones included, and what superseded each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hudi_ops.config.table import TableConfig
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.snapshot import TableView

GroupKey: TypeAlias = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True, slots=True)
class PastSlice:
    """A committed slice of a file group.

    Attributes:
        instant: of its base file; of its first log file where it has none.
        files: base file first, then log files.
        superseded: request time of the write that superseded the slice: it made the next base file of the group, or replaced the
            group. Empty: the slice is visible now.
        replaced: request time of the write that replaced the group, or empty.
        age: number of newer slices in the group.
    """

    partition_path: str
    file_id: str
    instant: str
    files: tuple[DataFile, ...]
    superseded: str
    replaced: str
    age: int


def past_slices(
    config: TableConfig, timeline: Timeline, commits: CommitReader, listed: Mapping[str, Sequence[DataFile]]
) -> list[PastSlice]:
    """Return the committed slices of listed files, by partition, file id and instant.

    Files of instants that did not complete, and files that their instant does not name, are in no slice: a rollback deletes these.

    Raises:
        Corrupt: commit metadata, or the history where it tells to which slice a log file belongs, cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    view = TableView(config, timeline, commits, listed)
    bases: dict[GroupKey, list[DataFile]] = {}
    logs: dict[GroupKey, list[DataFile]] = {}
    for file in view.committed_files():
        (logs if file.is_log else bases).setdefault((file.partition_path, file.file_id), []).append(file)
    times = WriterTimes(timeline, config.history_folder, commits.archived)
    found: list[PastSlice] = []
    for key, upon in sorted(_assigned(bases, logs, times).items()):
        found += _of_group(key, upon, view.replaced.get(key, ""))
    return found


def _assigned(
    bases: Mapping[GroupKey, list[DataFile]], logs: Mapping[GroupKey, list[DataFile]], times: WriterTimes
) -> dict[GroupKey, dict[str, list[DataFile]]]:
    """Return the files of each group by their base file's instant, `""` for logs below it."""
    upon: dict[GroupKey, dict[str, list[DataFile]]] = {}
    for key, files in bases.items():
        upon[key] = {}
        for file in sorted(files, key=lambda one: one.instant):
            upon[key].setdefault(file.instant, []).append(file)
    # A log file lies above every base file below its request time; for later base files its completion time decides.
    later = [
        (key, file, base)
        for key, files in logs.items()
        for file in files
        for base in upon.get(key, {})
        if base > file.instant
    ]
    lies = times.lie_upon([(file.instant, base) for _, file, base in later])
    raised: dict[str, str] = {}
    for (_, file, base), is_upon in zip(later, lies, strict=True):
        if is_upon:
            raised[file.path] = max(raised.get(file.path, ""), base)
    for key, files in logs.items():
        starts = sorted(base for base in upon.get(key, {}) if base)
        for file in files:
            at = bisect_right(starts, file.instant)
            below = starts[at - 1] if at else ""
            upon.setdefault(key, {}).setdefault(raised.get(file.path, below), []).append(file)
    return upon


def _of_group(key: GroupKey, upon: Mapping[str, list[DataFile]], replaced: str) -> Iterator[PastSlice]:
    starts = sorted(upon)
    for age, start in enumerate(reversed(starts)):
        following = starts[len(starts) - age] if age else ""
        superseded = min((time for time in (following, replaced) if time), default="")
        files = tuple(sorted(upon[start], key=lambda one: (one.is_log, one.path)))
        yield PastSlice(*key, start or min(file.instant for file in files), files, superseded, replaced, age)

"""Compaction of a metadata table: time, slices, base files and timeline records.

All of it follows from the listing: two processes that see the same metadata table make the same files.

Source: docs/format §14.4, docs/protocol §18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce

from hudi_ops.files.names import base_file_name
from hudi_ops.formats.hfile.reader import write_hfile
from hudi_ops.formats.log.hfile_blocks import encode_empty_init_log
from hudi_ops.metadata.reader.instants import MetadataInstants
from hudi_ops.metadata.reader.merge import compacted, is_order_free, merge
from hudi_ops.metadata.reader.slice_files import WantedRecords, read_records
from hudi_ops.metadata.reader.slices import MetadataSlice, newest_slices
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.records.records import Records, empty
from hudi_ops.metadata.records.schema import commit_schema, record_schema
from hudi_ops.storage.protocol import Folder, Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.plan_bytes import encode_compaction, slice_metrics
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice
from hudi_ops.timeline.log.reserve import free_at_or_below
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from hudi_ops.view.file_group import DataFile

ACTION = "compaction"
OPERATION = "COMPACT"

_FROM_THE_OLDEST = frozenset({MetadataPartition.FILES, MetadataPartition.PARTITION_STATS})
"""Small partitions whose older records matter: a deleted file cancels an older one, a tight range replaces it."""

_DELTA = "deltacommit"


@dataclass(frozen=True, slots=True)
class GroupInput:
    """File group to merge; `number` is its position in the plan."""

    number: int
    partition: str
    slice: MetadataSlice

    @property
    def size_bytes(self) -> int:
        """Size of all its files."""
        base = self.slice.base
        return sum(log.size_bytes for log in self.slice.logs) + (base.size_bytes if base is not None else 0)


@dataclass(frozen=True)
class CompactionInputs:
    """Input of one compaction.

    Attributes:
        groups: those that have log files to merge.
        taken: request and completion times of all instants that had completed below its time.
        before: earlier completed compactions.
    """

    instant: str
    groups: tuple[GroupInput, ...]
    taken: frozenset[tuple[str, str]]
    before: frozenset[str]

    @property
    def completion_time(self) -> str:
        """Completion time, equal for every process that completes it, however often."""
        return completion_of(self.instant)


@dataclass(frozen=True)
class MergedGroup:
    """New base file, and its write statistics."""

    path: str
    body: bytes
    stat: WriteStat


def deltas_since_compaction(own: Timeline) -> int:
    """Return the number of delta commits that no compaction has merged yet."""
    newest = max(compactions(own), default="")
    return sum(instant.kind == _DELTA for instant in own.completed_since(newest))


def compactions(own: Timeline) -> frozenset[str]:
    """Return the times of the completed compactions of a metadata table."""
    return frozenset(instant.time for instant in own.by_kind.get("commit", ()) if instant.is_completed)


def compaction_time(own: Timeline, data: Timeline) -> str:
    """Return the time of the next compaction, or empty when nothing has completed.

    It is the newest completion time that both timelines know (`data` is read after `own`), or the first time below it that no
    instant has. Every later completion is above it, and no instant will ever be requested at that time, since requests rise above
    every time of the data table.
    """
    newest = next((instant.completion_time for instant in own.newest_first if instant.kind == _DELTA), "")
    written = max((instant.completion_time for instant in data), default="")
    if not newest or not written:
        return ""
    requested = frozenset(instant.time for timeline in (own, data) for instant in timeline)
    return free_at_or_below(min(newest, written), requested)


def completion_of(instant: str) -> str:
    """Return a compaction's completion time, which follows from its time: one file."""
    return instant_of_ms(ms_of_instant(instant) + 1)


def taken_below(own: Timeline, instant: str) -> frozenset[tuple[str, str]]:
    """Return request and completion times of completed instants below a time."""
    return frozenset(
        (completed.time, completed.completion_time)
        for completed in own
        if completed.is_completed and completed.completion_time < instant
    )


def inputs_at(instant: str, instants: MetadataInstants, listed: Iterable[tuple[str, Folder]]) -> CompactionInputs:
    """Return the input of a compaction at this time; the data table's timeline was read last."""
    found: list[GroupInput] = []
    for partition, folder in listed:
        for slice_ in newest_slices(partition, folder, instants):
            if slice_.base is not None and slice_.base.instant >= instant:
                continue
            later = instants.lie_upon([(log.instant, instant) for log in slice_.logs])
            logs = tuple(log for log, is_later in zip(slice_.logs, later, strict=True) if not is_later)
            if any(log.size_bytes != _init_bytes() for log in logs):
                found.append(GroupInput(len(found), partition, MetadataSlice(slice_.file_id, slice_.base, logs)))
    return CompactionInputs(instant, tuple(found), taken_below(instants.own, instant), compactions(instants.own))


def merged_group(
    storage: Storage, inputs: CompactionInputs, group: GroupInput, version: int, counts: Callable[[str], bool]
) -> MergedGroup:
    """Read and merge one file group.

    Raises:
        Corrupt: a file does not follow its format.
        Unsupported: a log block of a kind that is not read.
        Unavailable: a file is gone, or the storage did not deliver it.
    """

    def read(file: DataFile) -> list[Records]:
        return read_records(storage, group.partition, file, WantedRecords(), counts, version)

    base = read(group.slice.base)[0] if group.slice.base is not None else empty(group.partition, record_schema(version))
    blocks = [block for log in group.slice.logs for block in read(log)]
    logged = sum(len(block.keys) for block in blocks)
    result = compacted(_merged(base, blocks, version), version=version)
    name = base_file_name(group.slice.file_id, group.number, 0, inputs.instant).replace(".parquet", ".hfile")
    body = write_hfile(result.keys, result.values, schema=result.schema)
    rows = len(result.keys)
    stat = WriteStat(
        file_id=group.slice.file_id,
        path=f"{group.partition}/{name}",
        partition_path=str(group.partition),
        prev_commit=group.slice.base.instant if group.slice.base is not None else "null",
        prev_base_file=group.slice.base.name if group.slice.base is not None else None,
        num_writes=rows,
        num_deletes=sum(len(block.deletes) for block in blocks),
        num_inserts=max(0, rows - len(base.keys)),
        total_write_bytes=len(body),
        file_size_in_bytes=len(body),
        other={
            "totalLogRecords": logged,
            "totalUpdatedRecordsCompacted": logged,
            "totalLogBlocks": len(blocks),
            "totalLogFilesCompacted": len(group.slice.logs),
            "totalLogSizeCompacted": sum(log.size_bytes for log in group.slice.logs),
        },
    )
    return MergedGroup(f"{FOLDER}/{group.partition}/{name}", body, stat)


def commit_bytes(merged: Sequence[MergedGroup], version: int) -> bytes:
    """Encode the completed file of a compaction."""
    stats = tuple(group.stat for group in merged)
    return CommitMetadata(
        operation=OPERATION, stats=stats, extra={"schema": commit_schema(version)}, compacted=True
    ).to_bytes()


def compaction_plan_bytes(inputs: CompactionInputs) -> bytes:
    """Encode the requested file of a compaction."""
    return encode_compaction(CompactionPlan(tuple(_planned(group) for group in inputs.groups)))


@cache
def _init_bytes() -> int:
    """Return the size of a log file that begins a group and is empty."""
    return len(encode_empty_init_log("0" * 17))


def _planned(one: GroupInput) -> PlannedSlice:
    base, logs = one.slice.base, one.slice.logs
    base_bytes = base.size_bytes if base is not None else None
    return PlannedSlice(
        partition_path=str(one.partition),
        file_id=one.slice.file_id,
        base_file=base.name if base is not None else "",
        log_files=tuple(log.name for log in logs),
        # A slice without a base file begins with its first log file, as in Apache Hudi.
        base_instant=base.instant if base is not None else logs[0].instant,
        metrics=slice_metrics(base_bytes, len(logs), sum(log.size_bytes for log in logs)),
    )


def _merged(base: Records, blocks: Sequence[Records], version: int) -> Records:
    def both(older: Records, newer: Records) -> Records:
        return merge(older, newer, version=version)

    is_files = base.partition == MetadataPartition.FILES
    if base.partition in _FROM_THE_OLDEST and not (is_files and is_order_free(blocks, version=version)):
        return reduce(both, blocks, base)
    # A large base file is read and copied once, not once for each block.
    return both(base, reduce(both, blocks)) if blocks else base

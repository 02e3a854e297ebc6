"""Find deltas that were requested later and completed first.

Log records are merged in the order of request times (docs/format §14.4). Apache Hudi's later records of `partition_stats`
replace ours, so ours are put once more, above them. If a later request removed a record of `files` or the record index that our
delta puts, or the reverse, the write must be made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Conflict
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.slice_files import WantedRecords, read_records
from hudi_ops.metadata.records.file_lists import decoded_entries
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition, is_secondary
from hudi_ops.metadata.records.records import Records
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile

_COMPARED = (MetadataPartition.FILES, MetadataPartition.RECORD_INDEX)
"""Partitions whose records merge several writes, as those of secondary indexes do.

The records of a file, or of its filter, come from one write.
"""


def later_deltas(time: str, own: Timeline, state: TableState) -> list[Instant]:
    """Return completed deltas requested after `time`, those of index builds too, oldest first.

    `state` is that of the data table, read after the metadata table's timeline `own`.
    """
    later = takewhile(lambda instant: instant.time > time, reversed(own.instants))
    found = [
        instant
        for instant in later
        if instant.kind == "deltacommit" and instant.is_completed and _tells(instant, state)
    ]
    return found[::-1]


def _tells(instant: Instant, state: TableState) -> bool:
    """Return whether an instant is of the data table, or of an index build.

    Instants above a delta complete at their request time, and only widen ranges.
    """
    return state.timeline.find(instant.time) is not None or instant.time != instant.completion_time


def is_ours(instant: Instant, state: TableState) -> bool:
    """Return whether the commit log decided an instant."""
    return state.log.fate(instant.time) is not None


def refuse_contradicted(
    storage: Storage, made: Mapping[str, Records], time: str, later: Iterable[Instant], version: int
) -> None:
    """Refuse records of a delta that contradict those of later requests.

    Raises:
        Conflict: a later request removed a record that the delta puts, or the reverse.
    """
    for instant in later:
        path = f"{TIMELINE_FOLDER}/{instant.file_name}"
        for stat in CommitMetadata.from_bytes(storage.get(path), path).stats:
            is_compared = stat.partition_path in _COMPARED or is_secondary(stat.partition_path)
            mine = made.get(stat.partition_path) if is_compared else None
            if mine is None:
                continue
            for theirs in _records_of(storage, mine.partition, stat, version):
                if (shared := _contradiction(mine, theirs, path)) is not None:
                    raise Conflict(
                        f"{instant.time} was requested later, completed first, and contradicts {shared!r}",
                        instant=time,
                        expected=f"no key of {mine.partition} that a later request removed, or put",
                        found=f"{instant.time}, completed {instant.completion_time}",
                        next_step="run the same call again: it starts from the present table",
                    )


def _records_of(storage: Storage, partition: str, stat: WriteStat, version: int) -> list[Records]:
    """Return the records of a log file, or none if a compaction has merged them."""
    name = parse_data_file(stat.file_name)
    path = f"{FOLDER}/{stat.path}"
    if name is None or not name.is_log or storage.head(path) is None:
        return []
    file = DataFile(str(partition), path, name.file_id, name.instant, stat.file_size_in_bytes, is_log=True)
    return read_records(storage, partition, file, WantedRecords(), lambda _: True, version)


def _contradiction(mine: Records, theirs: Records, where: str) -> str | None:
    """Return a key that one of two deltas puts and the other removes, or None."""
    for put, taken in ((mine.keys, theirs.deletes), (theirs.keys, mine.deletes)):
        if len(put) and len(taken):
            shared = put.filter(pc.is_in(put, taken))
            if len(shared):
                first: str = shared[0].as_py()
                return first
    if mine.partition != MetadataPartition.FILES:
        return None
    gone, put = (_partitions(side, where) for side in (theirs, mine))
    both = {name for name, is_gone in put.items() if gone.get(name, is_gone) != is_gone}
    return min(both) if both else None


def _partitions(records: Records, where: str) -> dict[str, bool]:
    """Return the listed partitions, and whether each is deleted."""
    at = pc.index(records.keys, pa.scalar(ALL_PARTITIONS_KEY)).as_py()
    if at < 0:
        return {}
    whole = Records(
        records.partition, records.keys.slice(at, 1), records.values.slice(at, 1), records.deletes, records.schema
    )
    return {name: is_gone for name, (_, is_gone) in decoded_entries(whole, where)[ALL_PARTITIONS_KEY].items()}

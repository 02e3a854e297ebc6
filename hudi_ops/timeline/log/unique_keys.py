"""Tell whether each record key of a table lies in one file group alone, by what its writes said of themselves.

A record index holds one place for a key. Where a key lies in two file groups, as after inserts of Apache Hudi, which look for no
keys, whoever asks the index finds one of its rows and whoever lists finds both. So a read asks the index only if nothing has put
keys without looking for them since they were counted. A table of ours begins with a count of zero (docs/protocol.md §18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Log, Pointer
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.state import CommitReader

WRITES_MAX = 32
"""How many writes without a slot are looked at, newest first: a read must not read a whole timeline."""

_LOOKED = frozenset({
    "UPSERT",
    "UPSERT_PREPPED",
    "DELETE",
    "DELETE_PREPPED",
    "DELETE_PARTITION",
    "COMPACT",
    "LOG_COMPACT",
    "CLUSTER",
})
"""Operations that find the keys of their rows first, or bring no new ones."""

_UNCOUNTED = "no count shows that each record key lies in one file group alone"


def may_double(operation: str, *, is_ours: bool) -> bool:
    """Whether an operation may put a key into a second file group; our inserts look for their keys, Apache Hudi's do not.

    Args:
        operation: as commit metadata names it.
        is_ours: a writer of ours did it.
    """
    return operation not in _LOOKED and not (is_ours and operation == "INSERT")


def why_doubtful(commits: CommitReader, timeline: Timeline, counted: Callable[[], Properties | None]) -> str:
    """Say why a record key may lie in more than one file group.

    Args:
        commits: reads the newest writes, down to the first of ours.
        timeline: of the table.
        counted: gives the newest PROPERTIES entry with a count of such keys that the caller knows; None where there is none.

    Returns:
        The reason, for people; empty when each key lies in one file group.
    """
    newest = sorted(timeline.completed_writes, key=lambda one: one.completion_time, reverse=True)
    for one in newest[:WRITES_MAX]:
        metadata = commits.metadata(timeline, one)
        pointer = Pointer.decode(metadata.extra) if metadata is not None else None
        if metadata is None or (pointer is None and not _brings_doubt(metadata)):
            continue
        if pointer is not None and pointer.may_double is False:
            return ""
        return _of_count(counted(), newest, one, metadata.operation)
    return _of_count(counted(), newest) if len(newest) <= WRITES_MAX else _UNCOUNTED


def newest_count(log: Log) -> Properties | None:
    """The newest PROPERTIES entry with a count, of those that were read of a log."""
    entries = [log.properties, *(entry for _, entry in log.since(-1) if isinstance(entry, Properties))]
    return next((one for one in reversed(entries) if one.doubled_keys is not None), None)


def counted_until(timeline: Timeline) -> str:
    """Completion time of the newest write that a count of keys covers, where all completed writes are looked at."""
    return max((one.completion_time for one in timeline.completed_writes), default="")


def _brings_doubt(metadata: CommitMetadata) -> bool:
    """Whether a write of another program may have doubled a key: by which index it looked for its keys is not stored."""
    if metadata.operation.startswith("UPSERT"):
        return any(stat.num_inserts for stat in metadata.stats)
    return bool(metadata.stats) and may_double(metadata.operation, is_ours=False)


def _of_count(
    count: Properties | None, newest: Sequence[Instant], one: Instant | None = None, operation: str = ""
) -> str:
    """Believe a count only while the newest write that it covers is on the timeline: neither archived nor restored away since."""
    is_covered = count is not None and any(write.completion_time == count.counted_until for write in newest)
    if count is None or (newest and not is_covered) or (one is not None and one.completion_time > count.counted_until):
        found = f"{operation} {one.time} may have put keys into a second file group" if one is not None else ""
        return f"{found}, and {_UNCOUNTED} since then" if found else _UNCOUNTED
    return f"{count.doubled_keys} record keys lie in more than one file group" if count.doubled_keys else ""

"""Check by commit metadata that each record key of a table is in only one file group.

A record index holds one location for each key. A key may be in two file groups after inserts of Apache Hudi, which do no look-up.
Then a reader that uses the index finds one of its rows, and a reader that lists finds both. So a read uses the index only if no
write without a look-up has added keys since the doubled keys were counted. A table of this library begins with a count of zero
(docs/protocol §18).
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
"""Most writes without a slot that are examined, newest first: a read must not read a whole timeline."""

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
"""Operations that look up the keys of their rows first, or add no new keys."""

_UNCOUNTED = "no count shows that each record key lies in only one file group"


def may_double(operation: str, *, is_ours: bool) -> bool:
    """Return whether an operation may put a key into a second file group.

    Inserts of this library look up their keys, those of Apache Hudi do not.
    """
    return operation not in _LOOKED and not (is_ours and operation == "INSERT")


def why_doubtful(commits: CommitReader, timeline: Timeline, counted: Callable[[], Properties | None]) -> str:
    """Return why a record key may lie in several file groups, for people; empty if none does.

    `commits` reads the newest writes, down to the first of this library. `counted` returns the newest known PROPERTIES entry with a
    count of such keys, or None.
    """
    newest = timeline.newest_first
    for instant in newest[:WRITES_MAX]:
        metadata = commits.metadata(timeline, instant)
        pointer = Pointer.decode(metadata.extra) if metadata is not None else None
        if metadata is None or (pointer is None and not _brings_doubt(metadata)):
            continue
        if pointer is not None and pointer.may_double is False:
            return ""
        return _of_count(counted(), newest, instant, metadata.operation)
    return _of_count(counted(), newest) if len(newest) <= WRITES_MAX else _UNCOUNTED


def newest_count(log: Log) -> Properties | None:
    """Return the newest PROPERTIES entry with a count in the loaded part of a log, or None."""
    entries = [log.properties, *(entry for _, entry in log.since(-1) if isinstance(entry, Properties))]
    return next((entry for entry in reversed(entries) if entry.doubled_keys is not None), None)


def counted_until(timeline: Timeline) -> str:
    """Return the completion time up to which a count covers all completed writes."""
    return max((instant.completion_time for instant in timeline.completed_writes), default="")


def _brings_doubt(metadata: CommitMetadata) -> bool:
    """Return whether a foreign write may have put a key into a second file group.

    The index that the write used is not stored.
    """
    if metadata.operation.startswith("UPSERT"):
        return any(stat.num_inserts for stat in metadata.stats)
    return bool(metadata.stats) and may_double(metadata.operation, is_ours=False)


def _of_count(
    count: Properties | None, newest: Sequence[Instant], doubtful: Instant | None = None, operation: str = ""
) -> str:
    """Return why a count does not prove that keys are unique, for people; empty if it does.

    A count is valid only while the newest write that it covers is on the timeline.
    """
    is_covered = count is not None and any(write.completion_time == count.counted_until for write in newest)
    if (
        count is None
        or (newest and not is_covered)
        or (doubtful is not None and doubtful.completion_time > count.counted_until)
    ):
        found = (
            f"{operation} {doubtful.time} may have put keys into a second file group" if doubtful is not None else ""
        )
        return f"{found}, and {_UNCOUNTED} since then" if found else _UNCOUNTED
    return f"{count.doubled_keys} record keys lie in more than one file group" if count.doubled_keys else ""

"""Files and log blocks of a metadata table that count, by its data table's timeline.

Source: docs/format §14.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from operator import attrgetter

from hudi_ops.metadata.records.partitions import HISTORY_FOLDER, TIMELINE_FOLDER
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, list_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.writer_times import WriterTimes

INIT_PREFIX = "00000000000000"
"""Prefix of the instants that are numbers rather than times: those at which partitions are first filled."""

_LAYOUT = 2
_time_of = attrgetter("time")
_DELTA = "deltacommit"


def load_metadata_timeline(storage: Storage) -> Timeline:
    """List the metadata table's own active timeline; empty without a metadata table."""
    return list_timeline(storage, TIMELINE_FOLDER, _LAYOUT)


def init_instants(own: Timeline, data: Timeline) -> tuple[str, ...]:
    """Return completed file names of instants that may have filled a partition.

    These are numbers, `indexing` instants, or instants that the data table's timeline does not have. As long as they are the same,
    so is the number of file groups of each partition.
    """
    numbers = (one.time for one in takewhile(lambda one: one.time.startswith(INIT_PREFIX), own))
    indexing = (one.time for one in data.by_kind.get("indexing", ()))
    # Nearly all deltas are of an instant of the data table, or lie above such a delta: few remain.
    times = {*numbers, *indexing, *(own.by_time.keys() - data.by_time.keys() - own.raised)}
    found = (own.find(time, _DELTA) for time in sorted(times))
    return tuple(
        instant.file_name
        for instant in found
        if instant is not None and instant.is_completed and _may_fill(instant, data)
    )


def _may_fill(one: Instant, data: Timeline) -> bool:
    of_data = data.find(one.time)
    return one.time.startswith(INIT_PREFIX) or (not _is_raised(one) and (of_data is None or of_data.kind == "indexing"))


def _is_raised(instant: Instant) -> bool:
    """Return whether an instant is the one above a delta: it completed at its request time."""
    return instant.time == instant.completion_time


def completed_beside(own: Timeline, instant: str, completion_time: str) -> list[Instant]:
    """Return a metadata table's completed instants, except the delta of one instant.

    `completion_time` is that of the delta, and the request time of the instant above it.
    """
    left_out = {instant, completion_time}
    return [completed for completed in own if completed.is_completed and completed.time not in left_out]


@dataclass(frozen=True)
class MetadataInstants:
    """Instants of a metadata table, beside those of its data table.

    Attributes:
        own: the metadata table's timeline, read after `data`.
        data: the data table's.
        archived: completion times of instants that left the metadata table's timeline.
    """

    own: Timeline
    data: Timeline
    archived: ArchivedTimes = field(compare=False, repr=False)

    def is_committed(self, time: str) -> bool:
        """Return whether files of this instant of the metadata table count at all."""
        found = self.own.find(time)
        return found.is_completed if found is not None else bool(self.own.start) and time < self.own.start

    def counts(self, time: str) -> bool:
        """Return whether log blocks of this instant are read: it is not pending in the data table.

        A write that was rolled back counts, as for Apache Hudi: its rollback deletes the log files.
        """
        of_data = self.data.find(time)
        return self.is_committed(time) and (of_data is None or of_data.is_completed)

    def completed_below(self, base: str) -> frozenset[str]:
        """Return request times of instants requested and completed before the instant `base`.

        Their log files do not lie upon the base file of that instant.
        """
        return frozenset(
            one.time
            for one in self.own.instants[: bisect_left(self.own.instants, base, key=_time_of)]
            if one.is_completed and one.completion_time < base and self.own.find(one.time) is one
        )

    def lie_upon(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return whether log files completed at or after the base files of their groups.

        See `WriterTimes.lie_upon`. The log files that begin a partition's groups are empty: for them the history is not read.

        Raises:
            Corrupt: the history of the metadata table is needed and cannot be read.
            Unavailable: the history is rewritten faster than it can be read.
        """
        times = WriterTimes(self.own, HISTORY_FOLDER, self.archived)
        told = iter(times.lie_upon([pair for pair in pairs if not pair[0].startswith(INIT_PREFIX)]))
        return [log >= base if log.startswith(INIT_PREFIX) else next(told) for log, base in pairs]

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Completed writes of the data table that the metadata table lacks; it is then unreliable.

        Writes that completed before its build began are part of it; their request times do not matter.
        """
        begun = self.own.first_completion
        if not begun:
            return ()
        # These are few: all others are on both timelines, and completed on the metadata table's.
        candidates = (self.data.by_time.keys() - self.own.by_time.keys()).union(one.time for one in self.own.pending)
        found = (
            one for time in candidates for one in self.data.by_time.get(time, ()) if one.is_completed and one.is_write
        )
        later = sorted({one.time for one in found if one.completion_time > begun})
        return tuple(time for time in later if not any(own.is_completed for own in self.own.by_time.get(time, ())))

    @cached_property
    def unseen(self) -> tuple[str, ...]:
        """Completed delta commits that the data table's timeline, as read, may lack.

        They began later, belong to the metadata table alone, or were pending and have been merged by a compaction since.
        """
        merged = max((one.time for one in self.own.by_kind.get("commit", ()) if one.is_completed), default="")
        # Deltas above another one only widen ranges, and exclude nothing.
        candidates = self.own.by_time.keys() - self.data.by_time.keys() - self.own.raised
        found = []
        for time in sorted(
            candidates.union(one.time for one in (*self.data.pending, *self.data.by_kind.get("savepoint", ())))
        ):
            instant = self.own.find(time, _DELTA)
            if instant is None or not instant.is_completed or _is_raised(instant):
                continue
            if time.startswith(INIT_PREFIX) or time < self.data.start:
                continue
            of_data = self.data.find(time)
            if of_data is None or (not of_data.is_completed and instant.completion_time < merged):
                found.append(time)
        return tuple(found)

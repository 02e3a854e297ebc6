"""Files and log blocks of a metadata table that count, by its data table's timeline.

Source: docs/format.md §14.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hudi_ops.metadata.records.partitions import HISTORY_FOLDER, TIMELINE_FOLDER
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, list_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.writer_times import WriterTimes

INIT_PREFIX = "00000000000000"
"""Prefix of the instants that are numbers rather than times: those at which partitions are first filled."""

_LAYOUT = 2


def load_metadata_timeline(storage: Storage) -> Timeline:
    """List the metadata table's own active timeline; empty without a metadata table."""
    return list_timeline(storage, TIMELINE_FOLDER, _LAYOUT)


def init_instants(own: Timeline, data: Timeline) -> tuple[str, ...]:
    """Return completed file names of instants that may have filled a partition.

    These are numbers, `indexing` instants, or instants that the data table's timeline does not have. As long as they are the same,
    so is the number of file groups of each partition.
    """
    return tuple(
        instant.file_name
        for instant in own
        if instant.kind == "deltacommit" and instant.is_completed and _may_fill(instant, data)
    )


def _may_fill(one: Instant, data: Timeline) -> bool:
    of_data = data.find(one.time)
    return one.time.startswith(INIT_PREFIX) or (not _is_raised(one) and (of_data is None or of_data.kind == "indexing"))


def _is_raised(instant: Instant) -> bool:
    """Return whether it is the instant above a delta, completed at its request time."""
    return instant.time == instant.completion_time


def completed_beside(own: Timeline, instant: str, completion_time: str) -> list[Instant]:
    """Return a metadata table's completed instants, except the delta of one instant.

    `completion_time` is that of the delta, and the request time of the instant above it.
    """
    return [
        completed for completed in own if completed.is_completed and completed.time not in {instant, completion_time}
    ]


@dataclass(frozen=True)
class MetadataInstants:
    """Instants of a metadata table, beside those of its data table.

    Attributes:
        own: the metadata table's timeline, read after `data`.
        data: the data table's.
        archived: tells when instants completed that left the metadata table's timeline.
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

    def lie_upon(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return whether log files completed at or after the base files of their groups.

        See `WriterTimes.lie_upon`. The log files that begin a partition's groups are empty: for them the history is not read.

        Raises:
            Corrupt: the history of the metadata table is needed and cannot be read.
            Unavailable: it is rewritten faster than it can be read.
        """
        times = WriterTimes(self.own, HISTORY_FOLDER, self.archived)
        told = iter(times.lie_upon([pair for pair in pairs if not pair[0].startswith(INIT_PREFIX)]))
        return [log >= base if log.startswith(INIT_PREFIX) else next(told) for log, base in pairs]

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Completed writes of the data table that the metadata table lacks; it is then unreliable.

        Writes that completed before its build began are part of it; their request times do not matter.
        """
        known = {instant.time for instant in self.own if instant.is_completed}
        begun = min((instant.completion_time for instant in self.own if instant.is_completed), default="")
        if not begun:
            return ()
        later = (instant for instant in self.data.completed_writes if instant.completion_time > begun)
        return tuple(instant.time for instant in later if instant.time not in known)

    @cached_property
    def unseen(self) -> tuple[str, ...]:
        """Completed delta commits that the data table's timeline, as read, may lack.

        They began since, or belong to the metadata table alone; or they were pending, and a compaction merged them since.
        """
        merged = max((instant.time for instant in self.own.completed_writes if instant.kind == "commit"), default="")
        found = []
        for instant in self.own.completed_writes:
            if instant.kind != "deltacommit" or instant.time.startswith(INIT_PREFIX) or instant.time < self.data.start:
                continue
            if _is_raised(instant):
                continue  # it widens ranges, and excludes nothing
            of_data = self.data.find(instant.time)
            if of_data is None or (not of_data.is_completed and instant.completion_time < merged):
                found.append(instant.time)
        return tuple(found)

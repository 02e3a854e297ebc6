"""Find the slice of a log file by the completion time of its writer (docs/format §9.2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import ArchivedTimes


@dataclass(frozen=True)
class WriterTimes:
    """Completion times of log file writers, from a timeline of layout 2 and its history.

    Attributes:
        history_folder: folder of the instants that left the timeline.
    """

    timeline: Timeline
    history_folder: str
    archived: ArchivedTimes = field(compare=False, repr=False)

    def lie_upon(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return whether log files completed at or after the base files of their groups.

        `pairs` are (request time of the log file's writer, instant of the base file, made or planned). The history is read only for
        writers that are not on the timeline and were requested before the base file: a later request completed later, too. A log
        file whose writer is in neither belongs to the newest slice of its group. Source: docs/format §9.2.

        Raises:
            Corrupt: the history is needed and cannot be read.
            Unavailable: it is rewritten faster than it can be read.
        """
        completed = self.completed({log for log, base in pairs if log < base})
        return [log >= base or not completed[log] or completed[log] >= base for log, base in pairs]

    def completed(self, logs: Collection[str]) -> dict[str, str]:
        """Return when writers of log files completed, by request time.

        The time is empty for a writer that neither the timeline nor the history has. A pending writer counts as if it had completed
        when it was requested.

        Raises:
            Corrupt: the history is needed and cannot be read.
            Unavailable: it is rewritten faster than it can be read.
        """
        found = {log: self.timeline.find(log) for log in logs}
        left = {log for log, writer in found.items() if writer is None}
        archived = self.archived.completion_times(self.history_folder, left) if left else {}
        return {
            log: archived[log] if writer is None else writer.completion_time or log for log, writer in found.items()
        }

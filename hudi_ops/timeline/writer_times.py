"""Find the slice of a log file by the completion time of its writer (docs/format.md §9.2)."""

from __future__ import annotations

from collections.abc import Sequence
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
        file whose writer is in neither belongs to the newest slice of its group. Source: docs/format.md §9.2.

        Raises:
            Corrupt: the history is needed and cannot be read.
            Unavailable: it is rewritten faster than it can be read.
        """
        left = {log for log, base in pairs if log < base and self.timeline.find(log) is None}
        archived = self.archived.completion_times(self.history_folder, left) if left else {}
        return [log >= base or self._lies_upon(log, base, archived) for log, base in pairs]

    def _lies_upon(self, log: str, base: str, archived: dict[str, str]) -> bool:
        writer = self.timeline.find(log)
        completed = archived[log] if writer is None else writer.completion_time or log
        return not completed or completed >= base

"""Compare two states of a table: writes that completed, were undone or archived in between."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class Since:
    """Completed writes that differ between the states `before` and `now`.

    Both times identify a completion: a write that was undone and made again has another completion time.
    """

    before: TableState
    now: TableState

    @property
    def completed(self) -> list[Instant]:
        """Writes that completed in between, by completion time."""
        now = self.now.timeline
        new = now.completed_beyond(self.before.timeline.completions, now.newest_time)
        return sorted(new, key=lambda one: one.completion_time)

    @property
    def undone(self) -> list[Instant]:
        """Writes that a restore or rollback removed; those below the start were archived."""
        gone = self.before.timeline.completions - self.now.timeline.completions
        start = self.now.timeline.start
        old = (one for one in self.before.timeline.completed_writes if gone and one.time >= start)
        return [one for one in old if (one.time, one.completion_time) in gone]

    @property
    def archived(self) -> list[Complete]:
        """Entries of actions that completed in between and left the timeline; without rollbacks."""
        find, log = self.now.timeline.find, self.now.log
        later = (entry for slot, entry in log.since(self.before.log.head) if slot not in log.voided)
        entries = (entry for entry in later if isinstance(entry, Complete) and entry.action != "rollback")
        return [entry for entry in entries if find(entry.instant, entry.action) is None]

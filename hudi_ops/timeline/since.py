"""Compare two states of a table: writes that completed, were undone or archived in between."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class Since:
    """Tell what happened to completed writes between `before` and `now`.

    Both times identify a completion: a write that was undone and made again has another completion time.
    """

    before: TableState
    now: TableState

    @property
    def completed(self) -> list[Instant]:
        """Writes that completed in between, by completion time."""
        known = self.before.timeline.completions
        new = (one for one in self.now.timeline.completed_writes if (one.time, one.completion_time) not in known)
        return sorted(new, key=lambda one: one.completion_time)

    @property
    def undone(self) -> list[Instant]:
        """Writes that a restore or rollback removed; those below the start were archived."""
        known, start = self.now.timeline.completions, self.now.timeline.start
        old = (one for one in self.before.timeline.completed_writes if one.time >= start)
        return [one for one in old if (one.time, one.completion_time) not in known]

    @property
    def archived(self) -> list[Complete]:
        """Entries of actions that completed in between and left the timeline; without rollbacks."""
        find, head = self.now.timeline.find, self.before.log.head
        entries = (entry for slot, entry in self.now.log.completes() if slot > head and entry.action != "rollback")
        return [entry for entry in entries if find(entry.instant, entry.action) is None]

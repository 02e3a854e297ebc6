"""One command to an engine's process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        table: folder of the table.
        retain: commits that a clean retains.
        keep_min: completed writes that an archive leaves on the timeline.
        keep_max: number of completed writes above which it archives.
        savepoint: instant that a restore goes back to.
    """

    table: str
    retain: int
    keep_min: int
    keep_max: int
    savepoint: str = ""

"""Invariants between log entries: one fate per instant, rising epochs, boundaries and plans.

Source: docs/protocol §2, §14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.commit_log import Log, slot_path
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Savepoint, Takeover, Void
from hudi_ops.verify.report import Findings

_ADVICE = (
    "a writer decided without having read the whole log: leave the table as it is, and report the bug with the log"
)


@dataclass
class _Reading:
    """State of the slots read so far, in order."""

    findings: Findings
    fates: dict[str, tuple[int, str]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    newest: str = ""
    boundary: str = ""

    def read(self, slot: int, entry: Entry) -> None:
        if isinstance(entry, Void):
            self.fates = {instant: fate for instant, fate in self.fates.items() if fate[0] != entry.slot}
        elif isinstance(entry, Takeover):
            self._takeover(slot, entry)
        elif isinstance(entry, Complete | Cancel):
            self._decide(slot, entry)
        elif isinstance(entry, Plan):
            if entry.instant <= self.newest:
                self._error(
                    "plan-order",
                    slot,
                    f"plans {entry.instant}, which is not later than {self.newest} of an earlier slot",
                )
            self.newest = max(self.newest, entry.instant)
        elif isinstance(entry, Savepoint):
            self._savepoint(slot, entry)
        elif isinstance(entry, Archive):
            if entry.boundary < self.boundary:
                self._error(
                    "archive-order", slot, f"archives up to {entry.boundary}, an earlier slot up to {self.boundary}"
                )
            self.boundary = max(self.boundary, entry.boundary)

    def _savepoint(self, slot: int, entry: Savepoint) -> None:
        fate = self.fates.get(entry.instant)
        if entry.is_made and fate is not None and fate[1] == "CANCEL":
            self._after_fate(slot, entry.kind, entry.instant)
        self.newest = max(self.newest, entry.completion_time)

    def _takeover(self, slot: int, entry: Takeover) -> None:
        self._after_fate(slot, entry.kind, entry.instant)
        before = self.epochs.get(entry.instant, 0)
        if entry.epoch <= before:
            self._error(
                "takeover-epoch",
                slot,
                f"takes over {entry.instant} with epoch {entry.epoch}, expected more than {before}",
            )
        self.epochs[entry.instant] = max(before, entry.epoch)

    def _decide(self, slot: int, entry: Complete | Cancel) -> None:
        fate = self.fates.get(entry.instant)
        # Two processes may cancel one instant; the second slot changes nothing.
        if fate is None or (fate[1], entry.kind) != ("CANCEL", "CANCEL"):
            self._after_fate(slot, entry.kind, entry.instant)
        if isinstance(entry, Complete):
            epoch = self.epochs.get(entry.instant, 0)
            if entry.epoch != epoch:
                self._error(
                    "complete-epoch", slot, f"completes {entry.instant} in epoch {entry.epoch}, expected {epoch}"
                )
            self.newest = max(self.newest, entry.instant, entry.completion_time)
        self.fates.setdefault(entry.instant, (slot, entry.kind))

    def _after_fate(self, slot: int, kind: str, instant: str) -> None:
        if (fate := self.fates.get(instant)) is not None:
            self._error("after-fate", slot, f"{kind} of {instant}, but slot {fate[0]} already decided it ({fate[1]})")

    def _error(self, invariant: str, slot: int, what: str) -> None:
        self.findings.error(invariant, what, slot_path(slot), _ADVICE)


def check_entries(log: Log, findings: Findings) -> None:
    """Check the whole log in order."""
    reading = _Reading(findings)
    for slot, entry in log.since(-1):
        reading.read(slot, entry)


def check_boundary(log: Log, timeline: Timeline, has_files: Callable[[str], bool], findings: Findings) -> None:
    """Report instants at or below the archive boundary that are still on the timeline.

    Args:
        has_files: returns whether a data file carries an instant in its name.
    """
    archived = f"slot {log.archive_slot} archived up to {log.boundary}"
    for instant in timeline:
        if instant.time > log.boundary or instant.kind == "savepoint":
            continue
        path = timeline.path(instant.file_name)
        if instant.is_completed:
            findings.warning(
                "archived-present",
                f"{archived}, but this completed file still exists",
                path,
                "the archiver is still running or died; its next run removes the file",
            )
        elif has_files(instant.time):
            findings.error(
                "archived-pending",
                f"{archived}, but this instant is pending: readers that list take its files for rows",
                path,
                f"run `hudi-ops rollback TABLE {instant.time}`",
            )
        else:
            findings.warning(
                "archived-pending",
                f"{archived}, but this instant is pending; it has no files",
                path,
                "its writer paused during archiving, and gives up when it resumes; if it died, the next write removes the instant",
            )

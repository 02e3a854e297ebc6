"""Invariants of the log's entries among each other: one fate an instant, rising epochs and boundaries, plans above what completed.

Source: docs/protocol.md §2, §14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.commit_log import Log, slot_path
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Takeover, Void
from hudi_ops.verify.report import Findings

_WHO = "a writer decided past what it had read: keep the table as it is, and report it with the log"


@dataclass
class _Reading:
    """What the slots read so far say; they are read in order."""

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
                    "plan-order", slot, f"plans {entry.instant}, not above {self.newest}, which was taken before"
                )
            self.newest = max(self.newest, entry.instant)
        elif isinstance(entry, Archive):
            if entry.boundary < self.boundary:
                self._error("archive-order", slot, f"archives up to {entry.boundary}, behind {self.boundary}")
            self.boundary = max(self.boundary, entry.boundary)

    def _takeover(self, slot: int, entry: Takeover) -> None:
        self._after_fate(slot, entry.kind, entry.instant)
        before = self.epochs.get(entry.instant, 0)
        if entry.epoch <= before:
            self._error(
                "takeover-epoch", slot, f"takes {entry.instant} over in epoch {entry.epoch}, not above {before}"
            )
        self.epochs[entry.instant] = max(before, entry.epoch)

    def _decide(self, slot: int, entry: Complete | Cancel) -> None:
        fate = self.fates.get(entry.instant)
        # Two processes may cancel one instant; the second says nothing new.
        if fate is None or (fate[1], entry.kind) != ("CANCEL", "CANCEL"):
            self._after_fate(slot, entry.kind, entry.instant)
        if isinstance(entry, Complete):
            epoch = self.epochs.get(entry.instant, 0)
            if entry.epoch != epoch:
                self._error("complete-epoch", slot, f"completes {entry.instant} in epoch {entry.epoch}, not {epoch}")
            self.newest = max(self.newest, entry.instant, entry.completion_time)
        self.fates.setdefault(entry.instant, (slot, entry.kind))

    def _after_fate(self, slot: int, kind: str, instant: str) -> None:
        if (fate := self.fates.get(instant)) is not None:
            self._error("after-fate", slot, f"{kind} of {instant}, which slot {fate[0]} had decided ({fate[1]})")

    def _error(self, invariant: str, slot: int, what: str) -> None:
        self.findings.error(invariant, what, slot_path(slot), _WHO)


def check_entries(log: Log, findings: Findings) -> None:
    """Read the whole log in order."""
    reading = _Reading(findings)
    for slot, entry in log.since(-1):
        reading.read(slot, entry)


def check_boundary(log: Log, timeline: Timeline, has_files: Callable[[str], bool], findings: Findings) -> None:
    """What an ARCHIVE put behind the table's start is off the timeline.

    Args:
        log: the whole of it.
        timeline: read after the log.
        has_files: whether a data file carries an instant in its name.
        findings: takes what is found.
    """
    for instant in timeline:
        if instant.time > log.boundary or instant.kind == "savepoint":
            continue
        path = timeline.path(instant.file_name)
        if instant.is_completed:
            findings.warning(
                "archived-present",
                f"slot {log.archive_slot} archived up to {log.boundary}, and this completed file is still there",
                path,
                "its archiver is at work or died: the next run of it goes on",
            )
        elif has_files(instant.time):
            findings.error(
                "archived-pending",
                f"slot {log.archive_slot} archived up to {log.boundary}, past this pending instant, whose files become rows",
                path,
                "roll it back: `hudi-ops rollback`",
            )
        else:
            findings.warning(
                "archived-pending",
                f"slot {log.archive_slot} archived up to {log.boundary}, past this pending instant, which has no files",
                path,
                "it slept while others archived, and gives up when it wakes; if it died, the next write clears it",
            )

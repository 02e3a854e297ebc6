"""Invariants of the commit log: readable slots, no gaps, decisions applied to the timeline.

Source: docs/protocol §1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import decode_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import FOLDER, POINTER_KEY, Log, slot_path
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Properties, Void, cancel_of, decode_entry
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.log_entries import check_boundary, check_entries

_SLOT = re.compile(re.escape(FOLDER) + r"/\d{8}/(\d{12})\.json")


@dataclass(frozen=True)
class LogSubject:
    """The whole commit log of a table, from slot 0 to the newest."""

    subject: Subject
    log: Log

    @cached_property
    def completes(self) -> Mapping[str, list[tuple[int, Complete]]]:
        """Instant -> its COMPLETE slots that no VOID revoked."""
        found: dict[str, list[tuple[int, Complete]]] = {}
        for slot, entry in self.log.completes():
            found.setdefault(entry.instant, []).append((slot, entry))
        return found

    def completed(self, instant: str, action: str) -> Instant | None:
        """Return a completed instant of either reading of the timeline."""
        for timeline in (self.subject.timeline, self.subject.later):
            found = timeline.find(instant, action)
            if found is not None and found.is_completed:
                return found
        return None


def check_log(subject: Subject, findings: Findings) -> LogSubject | None:
    """Check the commit log and its decisions; return it, or None if missing or unreadable."""
    if not subject.is_ours:
        return None
    log = _read(subject, findings)
    if log is None:
        return None
    logged = LogSubject(subject, log)
    _check_entries(logged, findings)
    check_entries(log, findings)
    check_boundary(log, subject.later, subject.has_files, findings)
    _check_fates(logged, findings)
    return logged


def _read(subject: Subject, findings: Findings) -> Log | None:
    slots = sorted(int(match[1]) for info in subject.listed if (match := _SLOT.fullmatch(info.path)))
    present = set(slots)
    for slot in range(max(slots, default=-1)):
        if slot not in present:
            findings.error(
                "slot-gap",
                "this slot is missing, but newer ones exist: a writer could decide it a second time",
                slot_path(slot),
                f"{RESTORE} before the next write",
            )
    first: Entry | None = None
    entries: list[Entry] = []
    bodies = subject.engine.map(lambda slot: _body(subject, slot), slots)
    for slot, body in zip(slots, bodies, strict=True):
        findings.looked("commit log slots")
        try:
            entry = decode_entry(body, slot_path(slot))
        except Corrupt as error:
            findings.error("slot-broken", error.what, slot_path(slot), f"{RESTORE} before the next write")
            continue
        first = first or entry
        # After a gap the positions of entries are no slot numbers, so later ones are not checked.
        if slot == len(entries):
            entries.append(entry)
    if not isinstance(first, Properties) or 0 not in present:
        findings.error("log-start", "slot 0 is missing or does not hold the table's properties", slot_path(0), RESTORE)
        return None
    newest = [entry for entry in entries if isinstance(entry, Properties) and entry.table_id == first.table_id][-1]
    archives = [
        (slot, entry)
        for slot, entry in enumerate(entries)
        if isinstance(entry, Archive) and entry.table_id == first.table_id
    ]
    return Log(
        first.table_id,
        0,
        tuple(entries),
        0,
        newest,
        archive_slot=archives[-1][0] if archives else -1,
        boundary=max((entry.boundary for _, entry in archives), default=""),
    )


def _body(subject: Subject, slot: int) -> bytes:
    try:
        return subject.storage.get(slot_path(slot))
    except NotFound:
        return b""


def _check_entries(logged: LogSubject, findings: Findings) -> None:
    log = logged.log
    for slot, entry in enumerate(log.entries):
        if entry.table_id != log.table_id:
            findings.warning(
                "slot-of-another-table",
                f"{entry.kind} by {entry.owner} carries the table id {entry.table_id} of another table; it is ignored",
                slot_path(slot),
                "a process still writes to a table that was deleted and created again at this path: end that process",
            )
    newest = ("", -1)
    for slot, complete in log.completes():
        if complete.completion_time <= newest[0]:
            findings.error(
                "slot-order",
                f"{complete.instant} completed at {complete.completion_time}, not later than slot {newest[1]} ({newest[0]})",
                slot_path(slot),
                "incremental readers may have skipped this instant: let them read again from before its completion time",
            )
        newest = max(newest, (complete.completion_time, slot))


def _check_fates(logged: LogSubject, findings: Findings) -> None:
    log = logged.log
    voided = {entry.slot for _, entry in log.since(-1) if isinstance(entry, Void)}
    # A writer applies earlier decisions before it decides, so only the last decision may still be unapplied.
    decisions = [slot for slot, entry in log.since(-1) if not isinstance(entry, Void)]
    for slot, entry in log.since(-1):
        if isinstance(entry, Cancel):
            fate = log.fate(entry.instant)
            found = logged.subject.later.find(entry.instant)
            if fate is not None and cancel_of(fate) is not None and found is not None and found.is_completed:
                _check_cancelled(logged, fate[0], found, findings)
        elif isinstance(entry, Complete) and slot in voided:
            _check_voided(logged, slot, entry, findings)
        elif isinstance(entry, Complete):
            findings.looked("decided completions")
            fate = log.fate(entry.instant)
            if fate is not None and fate[0] == slot and entry.instant > log.boundary:
                _check_applied(logged, slot, entry, findings, is_last=slot >= decisions[-1])


def _check_cancelled(logged: LogSubject, slot: int, found: Instant, findings: Findings) -> None:
    path = logged.subject.later.path(found.file_name)
    metadata = logged.subject.metadata(found)
    if metadata is not None and POINTER_KEY not in metadata.extra:
        findings.warning(
            "cancelled-foreign",
            f"slot {slot} cancelled {found.time} of a foreign writer after its heartbeat expired, but the writer completed it; "
            "its rows count",
            path,
            "nothing to repair; find out why that writer paused for two minutes",
        )
        return
    findings.error(
        "cancelled-completed",
        f"slot {slot} cancelled {found.time}, but its completed file exists: readers see its rows",
        path,
        "delete the completed file, then run any write, which rolls the instant back",
    )


def _check_voided(logged: LogSubject, slot: int, entry: Complete, findings: Findings) -> None:
    found = logged.subject.later.find(entry.instant, entry.action)
    if found is not None and found.is_completed and found.completion_time == entry.completion_time:
        findings.error(
            "voided-completed",
            f"slot {slot} was voided, but its completed file exists: readers see its rows",
            logged.subject.later.path(found.file_name),
            "delete the completed file, then run any write, which rolls the instant back",
        )


def _check_applied(logged: LogSubject, slot: int, entry: Complete, findings: Findings, *, is_last: bool) -> None:
    subject = logged.subject
    found = logged.completed(entry.instant, entry.action)
    if found is None:
        if entry.instant in subject.archived or entry.instant in subject.undone:
            return
        if subject.history is None and not is_last:
            return  # it may be archived; `history-broken` says that this cannot be told
        if entry.payload not in subject.sizes and subject.storage.head(entry.payload) is None:
            findings.error(
                "payload-missing",
                f"slot {slot} completed {entry.instant}, but its completed file and its payload are missing",
                entry.payload,
                "restore the payload from a copy of the table; until then no write can start",
            )
        elif broken := _broken_payload(subject, entry):
            findings.error(
                "payload-broken",
                f"slot {slot} completed {entry.instant}, but its completed file is missing and its payload is damaged: {broken}",
                entry.payload,
                "restore the payload from a copy of the table; until then no write can start",
            )
        elif is_last:
            findings.warning(
                "decided-unfinished",
                f"slot {slot} completed {entry.action} {entry.instant}, but its completed file does not exist yet",
                slot_path(slot),
                "any write or `hudi-ops recover TABLE` creates the file",
            )
        else:
            findings.error(
                "decided-lost",
                f"slot {slot} completed {entry.action} {entry.instant}, but its completed file is missing",
                slot_path(slot),
                f"run `hudi-ops recover`: it restores the file from {entry.payload}, or reports what prevents that",
            )
        return
    path = subject.timeline.path(found.file_name)
    if found.completion_time != entry.completion_time:
        if entry.action == "rollback":
            return  # Apache Hudi finishes any pending rollback, and nothing depends on its time
        findings.error(
            "completion-mismatch",
            f"completed at {found.completion_time}, but slot {slot} says {entry.completion_time}",
            path,
            "find the program that completed or renamed it without the commit log",
        )
        return
    try:
        same = subject.storage.get(path) == subject.storage.get(entry.payload)
    except NotFound:
        return
    if not same:
        findings.error(
            "payload-mismatch",
            f"the file differs from the payload that slot {slot} names",
            path,
            f"replace the file by {entry.payload}",
        )


def _broken_payload(subject: Subject, entry: Complete) -> str:
    """Return the decoding error of a payload; empty if there is none."""
    try:
        body = subject.storage.get(entry.payload)
        # Every action that `decode_result` does not know is a write.
        if decode_result(entry.action, body, entry.payload) is None:
            CommitMetadata.from_bytes(body, entry.payload, is_whole=True)
    except Corrupt as error:
        return error.what
    except NotFound:
        return ""
    return ""

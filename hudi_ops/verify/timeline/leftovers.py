"""Leftovers of unfinished work: unnamed data files, markers, leases, ledgers and payloads.

Readers that list storage show the rows of a data file once its instant is completed or is older than the start of the timeline
(docs/format §9.1).
"""

from __future__ import annotations

from hudi_ops.commit.owned import kinds
from hudi_ops.commit.recover.sweep import notes_of
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, FOLDER as LEASE_FOLDER
from hudi_ops.concurrency.markers import FOLDER as MARKER_FOLDER
from hudi_ops.timeline.cancel.aborted import QUEUE
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.commit_log import FOLDER as LOG_FOLDER
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import FoundFile, Subject

_INIT_TOKEN = "_0-0-0"  # noqa: S105 - write token of the empty first log file of each file group of a metadata table
_SWEPT = "the next write or `hudi-ops recover` removes it"


def check_leftovers(subject: Subject, findings: Findings) -> None:
    """Report files that belong neither to a completed nor to a pending instant."""
    for file in subject.data_files:
        findings.looked("data files")
        path = file.info.path
        if path not in subject.named and path not in subject.named_besides:
            _check_unnamed(subject, file, findings)
    _check_folders(subject, findings)


def _check_unnamed(subject: Subject, file: FoundFile, findings: Findings) -> None:
    path, time = file.info.path, subject.writer_of(file)
    if subject.is_metadata_table and file.is_log and file.info.name.endswith(_INIT_TOKEN):
        return
    if subject.config.layout == 1 and file.is_log:
        # The name holds the base file's instant, so the writer is unknown.
        findings.warning(
            "leftover-log", "no completed instant names this log file; readers filter its blocks by instant", path
        )
        return
    before, after = subject.timeline.find(time), subject.later.find(time)
    if any(instant is not None and not instant.is_completed for instant in (before, after)):
        return
    if before is not None:
        if before.is_write and subject.metadata(before) is None:
            return  # `check_timeline` reports the unreadable metadata
        _report_visible(subject, path, f"{before} wrote this file, but does not name it", findings)
    elif time in subject.undone:
        _check_undone(subject, path, time, findings)
    elif after is not None or path in subject.removed or subject.is_beating(time) or _gone(subject, path):
        return
    elif time > subject.timeline.start or not subject.timeline.start:
        findings.warning(
            "leftover-unknown",
            f"its instant {time} is not on the timeline: readers that list take it for rows once the timeline starts later",
            path,
            "if no writer is running, delete it",
        )
    elif path in subject.late_files:
        findings.error(
            "leftover-visible",
            f"a late task of {subject.late_files[path]} left this file, which that write does not name: readers that list "
            "storage take it for rows, and so does a build of the metadata table",
            path,
            "`hudi-ops repair TABLE` deletes it, and rebuilds a metadata table that lists it",
        )
    elif subject.is_ours and subject.history is not None and time not in subject.archived:
        _report_visible(subject, path, f"its instant {time} never completed", findings)


def _check_undone(subject: Subject, path: str, time: str, findings: Findings) -> None:
    """Report a file of a rolled back instant, without a marker or written after the rollback."""
    if _gone(subject, path):
        return
    if time in subject.watched:
        findings.info(
            "late-file",
            f"a task of {time} wrote it after {subject.undone[time]} rolled the write back",
            path,
            "the next write or `hudi-ops recover` in two minutes or later removes it",
        )
        return
    visible = bool(subject.timeline.start) and time < subject.timeline.start and not subject.has_metadata_table
    (findings.error if visible else findings.warning)(
        "rollback-orphan",
        f"{subject.undone[time]} rolled back {time} and left this file, as no marker named it: readers that list take it for rows"
        + ("" if visible else " once the timeline starts later"),
        path,
        "delete it",
    )


def _report_visible(subject: Subject, path: str, what: str, findings: Findings) -> None:
    hidden = subject.has_metadata_table
    report = findings.warning if hidden else findings.error
    effect = "the metadata table hides it" if hidden else "readers that list take it for rows"
    report("leftover-visible", f"{what}: {effect}", path, "delete it")


def _gone(subject: Subject, path: str) -> bool:
    return subject.storage.head(path) is None


def _check_folders(subject: Subject, findings: Findings) -> None:
    for time in _instants_under(subject, MARKER_FOLDER):
        until_ms = subject.watched.get(time)
        if until_ms is not None:
            if until_ms + EXPIRY_MS < subject.clock.now_ms():
                findings.info(
                    "sweep-due",
                    "markers of a rolled back write, kept for a second search for its files, which is due",
                    f"{MARKER_FOLDER}/{time}",
                    _SWEPT,
                )
        elif _is_settled(subject, time):
            findings.info("markers-left", "markers of a completed instant", f"{MARKER_FOLDER}/{time}", _SWEPT)
        elif _is_abandoned(subject, time) and _has_markers(subject, time):
            findings.warning(
                "markers-unknown",
                "markers of an instant that is not on the timeline: the data files that they name may still exist",
                f"{MARKER_FOLDER}/{time}",
                "if no writer is running: delete the data files that they name, then the markers",
            )
    for time in _instants_under(subject, LEASE_FOLDER):
        if _is_settled(subject, time) or _is_abandoned(subject, time):
            findings.info("lease-left", "lease of a completed or unknown instant", f"{LEASE_FOLDER}/{time}", _SWEPT)
    for kind in kinds.KINDS:
        for time in _instants_under(subject, kind.folder) if kind.finding else ():
            if _is_abandoned(subject, time) and not is_withdrawn(subject, time):
                what = f"{kind.name} of an instant that never completed"
                findings.info(kind.finding, what, f"{kind.folder}/{time}", "delete it")


def _has_markers(subject: Subject, time: str) -> bool:
    """Return whether an instant has markers now, and no note that keeps them.

    Its rollback may have ended since the listing.
    """
    folders = subject.storage.list_folder(MARKER_FOLDER).folders
    return time in folders and time not in notes_of(folders)


def _instants_under(subject: Subject, folder: str) -> list[str]:
    times = sorted({info.path.removeprefix(folder + "/").partition("/")[0] for info in subject.under(folder)})
    return [time for time in times if time.isdecimal()]


def is_withdrawn(subject: Subject, time: str) -> bool:
    """Return whether a canceller withdrew a plan and died; the next write or clean continues."""
    is_queued = any(info.name == time for info in subject.under(QUEUE))
    is_off = subject.timeline.find(time) is None and not any(one.time == time for one in subject.timeline.aborted)
    is_marked = any(info.name == time for info in subject.under(MARKS))
    return is_queued and is_off and not is_marked and bool(subject.under(f"{LOG_FOLDER}/payload/{time}"))


def _is_settled(subject: Subject, time: str) -> bool:
    found = subject.timeline.find(time)
    return found is not None and found.is_completed and not subject.is_beating(time)


def _is_abandoned(subject: Subject, time: str) -> bool:
    unknown = subject.timeline.find(time) is None and subject.later.find(time) is None and subject.history is not None
    return unknown and time not in subject.archived and not subject.is_beating(time)

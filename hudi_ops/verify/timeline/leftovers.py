"""What unfinished work left behind: data files that no instant names, and markers, leases, ledgers and payloads of settled ones.

Readers that list take a leftover for rows once its instant is completed, or once the start of the timeline passed it
(docs/format.md §9.1).
"""

from __future__ import annotations

from hudi_ops.commit.ledger import FOLDER as LEDGER_FOLDER
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lease.lease import FOLDER as LEASE_FOLDER
from hudi_ops.concurrency.markers import FOLDER as MARKER_FOLDER
from hudi_ops.timeline.log.commit_log import FOLDER as LOG_FOLDER
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import FoundFile, Subject

_INIT_TOKEN = "_0-0-0"  # noqa: S105 - a write token: that of the empty logs a metadata table's file groups begin with
_SWEPT = "the next write removes it; `hudi-ops recover` does"


def check_leftovers(subject: Subject, findings: Findings) -> None:
    """Look for files that belong to nothing that counts or is under way."""
    for file in subject.data_files:
        findings.looked("data files")
        path = file.info.path
        if path not in subject.named and path not in subject.named_besides:
            _check_unnamed(subject, file, findings)
    _check_folders(subject, findings)


def _check_unnamed(subject: Subject, file: FoundFile, findings: Findings) -> None:
    path, time = file.info.path, file.name.instant
    if subject.is_metadata_table and file.is_log and file.info.name.endswith(_INIT_TOKEN):
        return
    if subject.config.layout == 1 and file.is_log:
        # The name tells the base file's instant, not the writer's: who wrote it cannot be told.
        findings.warning("leftover-log", "no completed instant names this log file; readers judge its blocks", path)
        return
    before, after = subject.timeline.find(time), subject.later.find(time)
    if any(one is not None and not one.is_completed for one in (before, after)):
        return
    if before is not None:
        if before.is_write and subject.metadata(before) is None:
            return  # what it names is not known; that it cannot be read is reported by itself
        _leftover_of_completed(subject, path, str(before), findings)
    elif time in subject.undone:
        _check_undone(subject, path, time, findings)
    elif after is not None or path in subject.removed or subject.is_beating(time) or _gone(subject, path):
        return
    elif time > subject.timeline.start or not subject.timeline.start:
        findings.warning(
            "leftover-unknown",
            f"its instant {time} is not on the timeline: it turns into rows once the timeline's start has passed it",
            path,
            "delete it, if no writer runs",
        )
    elif subject.is_ours and subject.history is not None and time not in subject.archived_times:
        _leftover_of_completed(subject, path, f"{time}, which never completed", findings)


def _check_undone(subject: Subject, path: str, time: str, findings: Findings) -> None:
    """A rollback deletes what markers name, and nothing else: what had no marker, or came later, stays."""
    if _gone(subject, path):
        return
    if time in subject.watched:
        findings.info(
            "late-file",
            f"written by a task that outlived its write {time}, which {subject.undone[time]} undid",
            path,
            "a write after the next two minutes removes it; `hudi-ops recover` does",
        )
        return
    visible = bool(subject.timeline.start) and time < subject.timeline.start and not subject.has_metadata_table
    (findings.error if visible else findings.warning)(
        "rollback-orphan",
        f"{subject.undone[time]} undid {time} and left this file, as no marker named it: readers that list "
        + ("take it for rows" if visible else "take it for rows once the timeline's start has passed it"),
        path,
        "delete it",
    )


def _leftover_of_completed(subject: Subject, path: str, instant: str, findings: Findings) -> None:
    hidden = subject.has_metadata_table
    report = findings.warning if hidden else findings.error
    report(
        "leftover-visible",
        f"a leftover of {instant}, which does not name it: "
        + ("hidden by the metadata table" if hidden else "readers that list read it as rows"),
        path,
        "delete it",
    )


def _gone(subject: Subject, path: str) -> bool:
    return subject.storage.head(path) is None


def _check_folders(subject: Subject, findings: Findings) -> None:
    for time in _instants_under(subject, MARKER_FOLDER):
        until_ms = subject.watched.get(time)
        if until_ms is not None:
            if until_ms + EXPIRY_MS < subject.clock.now_ms():
                findings.info("sweep-due", "markers that wait for the second look", f"{MARKER_FOLDER}/{time}", _SWEPT)
        elif _is_settled(subject, time):
            findings.info("markers-left", "markers of a settled instant", f"{MARKER_FOLDER}/{time}", _SWEPT)
        elif _is_abandoned(subject, time):
            findings.warning(
                "markers-unknown",
                "markers of an instant that is not on the timeline: they name data files that may have stayed",
                f"{MARKER_FOLDER}/{time}",
                "delete the data files that they name, then the markers, if no writer runs",
            )
    for time in _instants_under(subject, LEASE_FOLDER):
        if _is_settled(subject, time) or _is_abandoned(subject, time):
            findings.info("lease-left", "a lease of a settled or unknown instant", f"{LEASE_FOLDER}/{time}", _SWEPT)
    for folder, invariant in ((LEDGER_FOLDER, "ledger-left"), (f"{LOG_FOLDER}/payload", "payload-left")):
        for time in _instants_under(subject, folder):
            if _is_abandoned(subject, time):
                findings.info(invariant, "made by an instant that never completed", f"{folder}/{time}", "delete it")


def _instants_under(subject: Subject, folder: str) -> list[str]:
    times = sorted({info.path.removeprefix(folder + "/").partition("/")[0] for info in subject.under(folder)})
    return [time for time in times if time.isdecimal()]


def _is_settled(subject: Subject, time: str) -> bool:
    found = subject.timeline.find(time)
    return found is not None and found.is_completed and not subject.is_beating(time)


def _is_abandoned(subject: Subject, time: str) -> bool:
    unknown = subject.timeline.find(time) is None and subject.later.find(time) is None and subject.history is not None
    return unknown and time not in subject.archived_times and not subject.is_beating(time)

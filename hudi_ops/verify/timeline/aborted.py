"""Invariants of cancelled plans: records and queue (docs/protocol §26)."""

from __future__ import annotations

import json

from hudi_ops.errors import HudiOpsError, NotFound
from hudi_ops.timeline.cancel.aborted import QUEUE, aborted_path, read_aborted
from hudi_ops.timeline.cancel.aborted_history import FOLDER, read_records
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.names import State
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.leftovers import is_withdrawn


def check_aborted(subject: Subject, findings: Findings) -> None:
    """Check that each record stands on a CANCEL, and each queue file on a pending plan."""
    marks = {info.path.removeprefix(f"{MARKS}/") for info in subject.under(MARKS)}
    for plan in subject.timeline.aborted:
        if State.ABORTED not in plan.states:
            continue  # the mark of a record that an archiver moved before it died
        findings.looked("aborted plans")
        path = aborted_path(subject.timeline, plan)
        try:
            read_aborted(subject.storage, subject.timeline, plan)
        except NotFound:
            continue
        except HudiOpsError as error:
            findings.warning("aborted-unreadable", error.what, path, error.next_step)
            continue
        if plan.time not in marks:
            _report_uncancelled(path, findings)
    for info in subject.under(FOLDER):
        _check_archived(subject, info.path, marks, findings)
    for info in subject.under(QUEUE):
        _check_request(subject, info.path, marks, findings)


def _check_archived(subject: Subject, path: str, marks: set[str], findings: Findings) -> None:
    """Check a file of the history of aborted plans."""
    try:
        records = read_records(subject.storage, path)
        for instant, record in records.items():
            findings.looked("aborted plans")
            record.decode(path)
            if instant not in marks:
                _report_uncancelled(f"{path}, instant {instant}", findings)
    except NotFound:
        return  # an archiver merged it
    except HudiOpsError as error:
        findings.warning("aborted-unreadable", error.what, path, error.next_step)


def _report_uncancelled(where: str, findings: Findings) -> None:
    findings.warning(
        "aborted-without-cancel",
        "the record of an aborted plan that no CANCEL names: readers ignore it",
        where,
        "find out which program wrote it; if you do not need it, delete it",
    )


def _check_request(subject: Subject, path: str, marks: set[str], findings: Findings) -> None:
    try:
        said = json.loads(subject.storage.get(path))
        table_id = str(said["table_id"])
    except NotFound:
        return
    except (ValueError, KeyError, TypeError, RecursionError):
        table_id = ""
    instant = path.removeprefix(f"{QUEUE}/")
    is_pending = any(one.time == instant for one in subject.timeline.pending)
    if table_id and ((instant in marks and is_pending) or is_withdrawn(subject, instant)):
        return
    findings.info(
        "cancel-request-left",
        "a requested cancel of a plan that is not pending, or of another table: no process acts on it",
        path,
        f"delete {path}",
    )

"""Invariant of the file-system view, kept or stored: it equals a listing (RFC-03, V1)."""

from __future__ import annotations

from hudi_ops.errors import Corrupt
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.view.columns.kept import kept_settings, kept_view
from hudi_ops.view.columns.slices import newest_slices


def check_kept_view(subject: Subject, findings: Findings) -> None:
    """Compare the newest slices of the kept or stored view with those of the listing.

    A table without such a view passes. Files that are missing, or that no instant names, are reported by other checks, and so are
    unreadable commits.
    """
    try:
        view = kept_view(subject.storage, subject.config, subject.timeline, subject.commits)
        kept = newest_slices(view).paths() if view is not None else frozenset()
    except Corrupt:
        return
    if view is None:
        return
    findings.looked("files of the view", len(kept))
    bases = {one.base.path for one in subject.slices if one.base is not None}
    listed = bases | {log.path for one in subject.slices for log in one.logs}
    is_shared = kept_settings(subject.storage).store == "disk"
    next_step = "`hudi-ops view TABLE refresh`" if is_shared else "start the process that reads the table again"
    for path in sorted((kept - listed) & subject.sizes.keys()):
        what = "the file-system view shows this file, but readers of a listing do not"
        findings.error("view-differs", what, path, next_step)
    for path in sorted((listed - kept) & subject.named.keys()):
        findings.error("view-differs", "the file-system view lacks this file", path, next_step)

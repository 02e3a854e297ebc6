"""Pending instants: plans that can be read, writers that still beat, and nothing that blocks the writers to come."""

from __future__ import annotations

from collections.abc import Container

from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.markers import read_markers
from hudi_ops.errors import HudiOpsError
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State, requested_name
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject

_NEEDS_PLAN = frozenset({"compaction", "logcompaction", "clustering", "clean", "rollback", "restore", "indexing"})


def check_pending(subject: Subject, decided: Container[str], findings: Findings) -> None:
    """Look at what has no completed file.

    Args:
        subject: the table.
        decided: request times that a COMPLETE slot names: they are rolled forward, and the log's own check reports them.
        findings: where to report.
    """
    settled = {(one.time, one.kind) for one in subject.later if one.is_completed}
    still = {(one.time, one.kind) for one in subject.later}
    for instant in subject.timeline.pending:
        key = (instant.time, instant.kind)
        # Completed or rolled back while we looked.
        if key in settled or key not in still or instant.kind == "savepoint" or instant.time in decided:
            continue
        findings.looked("pending instants")
        _check_plan(subject, instant, findings)
        _check_owner(subject, instant, findings)
    _check_start(subject, findings)


def _check_plan(subject: Subject, instant: Instant, findings: Findings) -> None:
    if instant.action not in _NEEDS_PLAN or State.REQUESTED not in instant.states:
        return
    path = subject.timeline.path(requested_name(instant.time, instant.action))
    try:
        plan = read_plan(subject.storage, subject.timeline, instant)
    except HudiOpsError as error:
        findings.error("plan-undecodable", error.what, path, "remove inflight, then requested, if nobody works on it")
        return
    if plan is None:
        findings.error(
            "plan-empty",
            f"a pending {instant.action} without a plan: writers that try to finish it fail",
            path,
            "remove inflight, then requested, if nobody works on it",
        )
    elif isinstance(plan, RollbackPlan):
        _check_rollback(subject, instant, plan, findings)


def _check_rollback(subject: Subject, instant: Instant, plan: RollbackPlan, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if plan.strange:
        findings.error(
            "rollback-plan-path",
            f"its plan names what is no file within the table: {', '.join(map(repr, plan.strange[:3]))}; who executes it fails, or "
            "deletes something else",
            path,
            "let no writer of Apache Hudi begin; run `hudi-ops recover`, which replaces the plan",
        )
    savepoint = subject.timeline.find(plan.target, "savepoint")
    if savepoint is not None and savepoint.is_completed:
        findings.error(
            "rollback-refused",
            f"a pending rollback of {plan.target}, which a savepoint protects: every later write retries it and fails",
            path,
            "delete its inflight, then its requested file; or delete the savepoint",
        )
    elif not subject.is_beating(instant.time):
        lease = read_lease(subject.storage, instant.time)
        is_ours = lease is not None and lease.owner is not None
        findings.warning(
            "rollback-pending",
            f"a rollback of {plan.target} was begun and not finished; every later write of its program retries it",
            path,
            "any write finishes it; `hudi-ops recover` does"
            if is_ours
            else "a write of Apache Hudi finishes it; if its writes fail, or none comes, and its programs have surely ended: "
            f"`hudi-ops rollback TABLE {plan.target} --abandoned`",
        )


def _check_owner(subject: Subject, instant: Instant, findings: Findings) -> None:
    if instant.action not in WRITE_ACTIONS or subject.is_beating(instant.time):
        return
    path = subject.timeline.path(instant.file_name)
    if set_aside := read_markers(subject.storage, instant.time).set_aside:
        findings.warning(
            "marker-unusable",
            f"markers of a pending {instant.action} that name no file within the table: {'; '.join(set_aside[:3])}",
            path,
            "nothing: who rolls the write back sets them aside, and lists the table for its files",
        )
    lease = read_lease(subject.storage, instant.time)
    if lease is None:
        findings.warning(
            "pending-unowned",
            f"a pending {instant.action} that nobody's heartbeat claims",
            path,
            "it may be alive, as a single writer of Apache Hudi makes no heartbeat, and rolls it back at its next start; until "
            f"then writes of hudi-ops stop (Busy); if it is gone for good: `hudi-ops rollback TABLE {instant.time} --abandoned`",
        )
    else:
        owner = str(lease.owner) if lease.owner is not None else "a writer of Apache Hudi"
        findings.warning(
            "pending-dead",
            f"the {instant.action} of {owner} stopped beating",
            path,
            "the next write of hudi-ops rolls it back; `hudi-ops recover` does",
        )


def _check_start(subject: Subject, findings: Findings) -> None:
    """One completed write before the oldest pending one: older files count as rows for readers that list (docs/format.md §9.1)."""
    start = subject.later.start
    if not start or subject.has_metadata_table:
        return
    early = [one for one in subject.later.pending if one.time < start and one.kind in WRITE_ACTIONS]
    for instant in early:
        findings.warning(
            "pending-before-start",
            f"older than the first completed write ({start}): readers that list may show its files as rows",
            subject.later.path(instant.file_name),
            f"let its writer finish, or run `hudi-ops rollback TABLE {instant.time}`",
        )

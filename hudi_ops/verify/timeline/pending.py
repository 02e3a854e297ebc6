"""Invariants of pending instants: readable plans, live writers, no blocked later writers."""

from __future__ import annotations

from collections.abc import Container

from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.markers import read_markers
from hudi_ops.errors import HudiOpsError
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State, requested_name
from hudi_ops.verify.report import Finding, Findings
from hudi_ops.verify.subject import Subject

_NEEDS_PLAN = frozenset({"compaction", "logcompaction", "clustering", "clean", "rollback", "restore", "indexing"})
_REMOVE = "if no process works on it: remove its inflight file, then its requested file"


def check_pending(subject: Subject, decided: Container[str], findings: Findings) -> None:
    """Check the instants without a completed file.

    `decided` holds the request times that a COMPLETE slot names: they are rolled forward, and `check_log` reports them.
    """
    later = _pending(subject.later)
    doubtful: dict[tuple[str, str], list[Finding]] = {}
    for instant in subject.timeline.pending:
        key = (instant.time, instant.kind)
        if key not in later or instant.kind == "savepoint" or instant.time in decided:
            continue  # it ended while the table was listed, or `check_log` reports it
        findings.looked("pending instants")
        about = Findings()
        _check_plan(subject, instant, about)
        _check_owner(subject, instant, about)
        if about.found:
            doubtful[key] = about.found
    if doubtful:
        # An instant that ended since then has no plan and no lease: that is no damage.
        now = _pending(load_timeline(subject.storage, subject.config))
        findings.found += [one for key, found in doubtful.items() if key in now for one in found]
    _check_start(subject, findings)


def _pending(timeline: Timeline) -> set[tuple[str, str]]:
    return {(instant.time, instant.kind) for instant in timeline.pending}


def _check_plan(subject: Subject, instant: Instant, findings: Findings) -> None:
    if instant.action not in _NEEDS_PLAN or State.REQUESTED not in instant.states:
        return
    path = subject.timeline.path(requested_name(instant.time, instant.action))
    try:
        plan = read_plan(subject.storage, subject.timeline, instant)
    except HudiOpsError as error:
        findings.error("plan-undecodable", error.what, path, _REMOVE)
        return
    if plan is None:
        findings.error(
            "plan-empty",
            f"a pending {instant.action} without a plan: writers that try to finish it fail",
            path,
            _REMOVE,
        )
    elif isinstance(plan, RollbackPlan):
        _check_rollback(subject, instant, plan, findings)


def _check_rollback(subject: Subject, instant: Instant, plan: RollbackPlan, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if plan.strange:
        findings.error(
            "rollback-plan-path",
            f"its plan names paths that are no files of this table: {', '.join(map(repr, plan.strange[:3]))}; its executor fails, "
            "or deletes other files",
            path,
            "start no Apache Hudi writer; run `hudi-ops recover`, which replaces the plan",
        )
    savepoint = subject.timeline.find(plan.target, "savepoint")
    if savepoint is not None and savepoint.is_completed:
        findings.error(
            "rollback-refused",
            f"pending rollback of {plan.target}, which a savepoint protects: every later write retries the rollback and fails",
            path,
            "delete the rollback's inflight file, then its requested file; or delete the savepoint",
        )
    elif not subject.is_beating(instant.time):
        lease = read_lease(subject.storage, instant.time)
        is_ours = lease is not None and lease.owner is not None
        findings.warning(
            "rollback-pending",
            f"unfinished rollback of {plan.target}: every later write of the program that started it retries it",
            path,
            "any write or `hudi-ops recover` finishes it"
            if is_ours
            else "the next write of Apache Hudi finishes it; if that fails or none follows, and Apache Hudi does not run: "
            f"`hudi-ops rollback TABLE {plan.target} --abandoned`",
        )


def _check_owner(subject: Subject, instant: Instant, findings: Findings) -> None:
    if instant.action not in WRITE_ACTIONS or subject.is_beating(instant.time):
        return
    path = subject.timeline.path(instant.file_name)
    if set_aside := read_markers(subject.storage, instant.time).set_aside:
        findings.warning(
            "marker-unusable",
            f"markers of this pending {instant.action} name no file of the table: {'; '.join(set_aside[:3])}",
            path,
            "nothing to do: a rollback ignores these markers, and lists the table for the write's files",
        )
    lease = read_lease(subject.storage, instant.time)
    if lease is None:
        findings.warning(
            "pending-unowned",
            f"pending {instant.action} without a heartbeat: its writer may be alive or dead",
            path,
            "a single writer of Apache Hudi has no heartbeat, and rolls the instant back at its next start; until then writes of "
            f"hudi-ops fail (Busy); if the writer will not return: `hudi-ops rollback TABLE {instant.time} --abandoned`",
        )
    else:
        owner = str(lease.owner) if lease.owner is not None else "a writer of Apache Hudi"
        findings.warning(
            "pending-dead",
            f"the heartbeat of this {instant.action} of {owner} expired",
            path,
            "the next write of hudi-ops or `hudi-ops recover` rolls it back",
        )


def _check_start(subject: Subject, findings: Findings) -> None:
    """Report pending writes that are older than the first completed write (docs/format §9.1)."""
    start = subject.later.start
    if not start or subject.has_metadata_table:
        return
    early = [write for write in subject.later.pending if write.time < start and write.kind in WRITE_ACTIONS]
    for instant in early:
        findings.warning(
            "pending-before-start",
            f"pending, but older than the first completed write ({start}): readers that list may take its files for rows",
            subject.later.path(instant.file_name),
            f"let its writer finish, or run `hudi-ops rollback TABLE {instant.time}`",
        )

"""Signs of foreign writers with conflicting settings (docs/protocol §10).

No sign proves damage, but so far a wrong setting was the cause each time.
"""

from __future__ import annotations

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.errors import HudiOpsError
from hudi_ops.index.resizes import is_resize
from hudi_ops.metadata.reader.layout import unkept_partitions
from hudi_ops.metadata.records.partitions import FOLDER as METADATA_FOLDER
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.content.rollbacks import targets_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Plan, cancel_of
from hudi_ops.timeline.names import REWRITING_ACTIONS, ms_of_instant
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.log import LogSubject

_LAZY = (
    "give Apache Hudi's writers hoodie.write.concurrency.mode=optimistic_concurrency_control and "
    "hoodie.clean.failed.writes.policy=LAZY"
)


def check_fleet(logged: LogSubject, findings: Findings) -> None:
    """Check what foreign writers left on the timeline, in the metadata table and in the archive."""
    subject = logged.subject
    for instant in subject.later:
        findings.looked("instants of strangers", int(instant.time not in logged.completes))
        if instant.time in logged.completes:
            continue
        if instant.kind == "rollback":
            _check_eager(logged, instant, findings)
        elif instant.action in REWRITING_ACTIONS and not instant.is_completed and not _is_planned(logged, instant):
            if _is_resize(subject, instant):
                findings.info(
                    "foreign-plan",
                    "a foreign writer planned this resize: writes of hudi-ops put their rows into its new buckets, too",
                    subject.later.path(instant.file_name),
                    f"let that writer execute it, or run `hudi-ops resize TABLE execute --instant {instant.time}`",
                )
                continue
            findings.warning(
                "foreign-plan",
                f"a foreign writer planned this {instant.action}: writes of hudi-ops to its file groups wait for it",
                subject.later.path(instant.file_name),
                "let that writer execute it; run its services apart from its writes (hoodie.compact.inline=false, "
                "hoodie.clustering.inline=false)",
            )
    _check_cancellable(logged, findings)
    _check_metadata(subject, findings)
    _check_archived(logged, findings)


def _check_cancellable(logged: LogSubject, findings: Findings) -> None:
    """Report pending cancellable plans beside foreign writers, which ignore cancels."""
    subject = logged.subject
    if not any(one.is_completed and one.is_write and one.time not in logged.completes for one in subject.later):
        return
    plans = {entry.instant: entry for _, entry in logged.log.since(-1) if isinstance(entry, Plan)}
    for instant in subject.later.pending:
        entry = plans.get(instant.time)
        if entry is not None and entry.cancellable and cancel_of(logged.log.fate(instant.time)) is None:
            findings.info(
                "foreign-cancel",
                f"a cancel may end this {instant.action}, and a foreign writer shares the table: it does not look at cancels",
                subject.later.path(instant.file_name),
                f"cancel it with `hudi-ops cancel TABLE {instant.time}` alone, never by deleting its files",
            )


def _is_resize(subject: Subject, instant: Instant) -> bool:
    try:
        return is_resize(read_plan(subject.storage, subject.later, instant))
    except HudiOpsError:
        return False  # `check_pending` reports the plan


def _check_eager(logged: LogSubject, rollback: Instant, findings: Findings) -> None:
    """Report rollbacks of writes whose heartbeat is live, or cannot have expired by then."""
    subject = logged.subject
    lease = read_lease(subject.storage, rollback.time)
    if lease is not None and lease.owner is not None:
        return
    zone = logged.log.properties.facts.timezone if subject.config.is_in_local_time else "UTC"
    for target in targets_of(subject.storage, subject.later, rollback):
        try:
            begun_ms = ms_of_instant(rollback.time, zone)
            soon = begun_ms - ms_of_instant(target, zone) < EXPIRY_MS
        except HudiOpsError:
            continue  # bootstrap instants are numbers, not times
        cancel = cancel_of(logged.log.fate(target))
        # hudi-ops cancels before it rolls back. A pending rollback of hudi-ops that Apache Hudi finishes has no COMPLETE slot.
        is_ours = cancel is not None and cancel.at_ms <= begun_ms
        if not is_ours and (soon or subject.is_beating(target)):
            findings.warning(
                "eager-rollback",
                f"rollback {rollback.time} rolled back {target} before its heartbeat can have expired: a foreign writer cleans "
                "failed writes eagerly, and rolls back running writes",
                subject.later.path(rollback.file_name),
                _LAZY,
            )


def _is_planned(logged: LogSubject, instant: Instant) -> bool:
    return any(entry.kind == "PLAN" and entry.instant == instant.time for _, entry in logged.log.since(-1))


def _check_metadata(subject: Subject, findings: Findings) -> None:
    if unkept := unkept_partitions(subject.config):
        findings.warning(
            "metadata-foreign",
            f"hudi-ops does not maintain these metadata partitions ({', '.join(unkept)}), so its writes are refused",
            METADATA_FOLDER,
            f"write with Apache Hudi only, or drop them with `hudi-ops index TABLE drop {' '.join(unkept)}`",
        )
    elif subject.config.all_metadata_partitions:
        return
    elif subject.under(METADATA_FOLDER):
        findings.warning(
            "metadata-left",
            "hoodie.properties lists no metadata table, but its folder exists: a foreign writer maintains it, or a drop failed",
            METADATA_FOLDER,
            "`hudi-ops index TABLE drop` deletes the folder; `hudi-ops index TABLE run` rebuilds it",
        )


def _check_archived(logged: LogSubject, findings: Findings) -> None:
    archived = sorted(
        time for time in logged.completes if time > logged.log.boundary and time in logged.subject.archived
    )
    begun = [time for time in archived if logged.subject.timeline.find(time) is not None]
    gone = [time for time in archived if time not in begun]
    folder = logged.subject.config.history_folder
    if begun:
        findings.info(
            "archive-begun",
            f"{len(begun)} instants, up to {begun[-1]}, are on the timeline and in its history: an archiver died before its slot",
            folder,
            "`hudi-ops archive TABLE` finishes the batch; a restore takes out what it undoes",
        )
    if gone:
        findings.info(
            "foreign-archived",
            f"a foreign writer archived {len(gone)} instants of hudi-ops, up to {gone[-1]}",
            folder,
            "set hoodie.archive.automatic=false for that writer while it shares the table",
        )

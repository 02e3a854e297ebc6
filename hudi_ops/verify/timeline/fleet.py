"""Signs that other programs share a table of ours with settings that do not go together (docs/protocol.md §10).

None of them proves damage. Each was a wrong setting whenever it was seen.
"""

from __future__ import annotations

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, read_lease
from hudi_ops.errors import HudiOpsError
from hudi_ops.metadata.reader.layout import unkept_partitions
from hudi_ops.metadata.records.partitions import FOLDER as METADATA_FOLDER
from hudi_ops.timeline.content.rollbacks import targets_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import REWRITING_ACTIONS, ms_of_instant
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.verify.timeline.log import LogSubject

_LAZY = (
    "give Apache Hudi's writers hoodie.write.concurrency.mode=optimistic_concurrency_control and "
    "hoodie.clean.failed.writes.policy=LAZY"
)


def check_fleet(logged: LogSubject, findings: Findings) -> None:
    """Look for the traces of writers that work in another way than ours can bear."""
    subject = logged.subject
    for instant in subject.later:
        findings.looked("instants of strangers", int(instant.time not in logged.completes))
        if instant.time in logged.completes:
            continue
        if instant.kind == "rollback":
            _check_eager(logged, instant, findings)
        elif instant.action in REWRITING_ACTIONS and not instant.is_completed and not _is_planned(logged, instant):
            findings.warning(
                "foreign-plan",
                f"a {instant.action} that another program planned: writes of ours to its file groups wait for it",
                subject.later.path(instant.file_name),
                "let that program execute it; run its services apart from its writes (hoodie.compact.inline=false, "
                "hoodie.clustering.inline=false)",
            )
    _check_metadata(subject, findings)
    _check_archived(logged, findings)


def _check_eager(logged: LogSubject, rollback: Instant, findings: Findings) -> None:
    """A heartbeat that was made with an instant cannot have expired right after: who undid it did not ask for it."""
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
        fate = logged.log.fate(target)
        # Ours cancels first. Apache Hudi finishes a rollback of ours that it finds pending, and then it has no slot.
        is_ours = fate is not None and isinstance(fate[1], Cancel) and fate[1].at_ms <= begun_ms
        if not is_ours and (soon or subject.is_beating(target)):
            findings.warning(
                "eager-rollback",
                f"rollback {rollback.time} undid {target} before its heartbeat can have expired: a writer cleans eagerly, and "
                "undoes running writes of others",
                subject.later.path(rollback.file_name),
                _LAZY,
            )


def _is_planned(logged: LogSubject, instant: Instant) -> bool:
    return any(entry.kind == "PLAN" and entry.instant == instant.time for _, entry in logged.log.since(-1))


def _check_metadata(subject: Subject, findings: Findings) -> None:
    if strange := unkept_partitions(subject.config):
        findings.warning(
            "metadata-foreign",
            f"another program built indexes that are not kept yet ({', '.join(strange)}): writes of ours are refused",
            METADATA_FOLDER,
            f"write with Apache Hudi alone, or take them out with `hudi-ops metadata drop TABLE {' '.join(strange)}`",
        )
    elif subject.config.all_metadata_partitions:
        return
    elif subject.under(METADATA_FOLDER):
        findings.warning(
            "metadata-left",
            "a metadata table that no reader believes: some writer keeps one, or dropping it was cut short",
            METADATA_FOLDER,
            "`hudi-ops metadata drop TABLE` deletes the folder; `hudi-ops metadata build TABLE` makes it anew",
        )


def _check_archived(logged: LogSubject, findings: Findings) -> None:
    theirs = sorted(
        time for time in logged.completes if time > logged.log.boundary and time in logged.subject.archived_times
    )
    if theirs:
        findings.info(
            "foreign-archived",
            f"another program archived {len(theirs)} instants of ours, up to {theirs[-1]}",
            logged.subject.config.history_folder,
            "switch its archiving off (hoodie.archive.automatic=false) while it shares the table",
        )

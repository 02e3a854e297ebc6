"""Invariants of compactions: a completed one merged every log file below it, and what a pending one will read is there.

Also: which log files are read by the archived timeline alone (docs/format.md §9.2).
"""

from __future__ import annotations

from collections import defaultdict

from hudi_ops.errors import Corrupt
from hudi_ops.timeline.content.plans import CompactionPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import MERGING_ACTIONS
from hudi_ops.verify.report import Findings, compact_command
from hudi_ops.verify.subject import NamedFile, Subject


def check_compactions(subject: Subject, findings: Findings) -> None:
    """Compare the plans on the timeline with what writes have put into their groups.

    In version 6 log files name their base file, so that a plan cannot leave one out unseen; those tables are passed over.
    """
    if subject.config.layout == 1:
        return
    logs = _logs_by_group(subject)
    for instant in subject.timeline:
        if instant.action not in MERGING_ACTIONS:
            continue
        plan = _plan_of(subject, instant)
        if plan is None:
            continue
        findings.looked("compaction plans")
        if instant.is_completed:
            _check_whole(subject, instant, plan, logs, findings)
        else:
            _check_inputs(subject, instant, plan, findings)


def check_archived_writers(subject: Subject, findings: Findings) -> None:
    """Report log files whose writers left the active timeline and were requested before the newest base file of their group.

    In version 6 log files name their base file, and it does not matter who wrote them when.
    """
    if subject.config.layout == 1:
        return
    bases = {(one.partition_path, one.file_id): one.instant for one in subject.live_base_files}
    below = [
        (file, base)
        for file in subject.data_files
        if file.is_log and not file.name.is_cdc and subject.timeline.find(file.name.instant) is None
        if file.name.instant < (base := bases.get((file.partition_path, file.name.file_id), ""))
    ]
    if subject.history is None:
        findings.error(
            "history-broken",
            "the archived timeline cannot be read, and what it explains is not judged"
            + (f"; {len(below)} log files are read or not by what it says: reads fail" if below else ""),
            subject.config.history_folder,
            "restore the folder from a copy of the table",
        )
        return
    completed = {one.time: one.completion_time for one in subject.history.instants}
    for file, base in below:
        findings.looked("log files of archived writers")
        since = completed.get(file.name.instant, "")
        if since and since < base:
            continue
        told = (
            f"completed at {since}, after" if since else "is not in the history either, and counts as completed after"
        )
        findings.warning(
            "log-of-archived-writer",
            f"its writer {file.name.instant} {told} base file {base} of file group {file.name.file_id}: this library and Apache "
            "Hudi merge it with that base file, as the archived timeline says; the `hudi` package 0.5.0 leaves its rows out",
            file.info.path,
            f"{compact_command(file.partition_path)} merges it; until then read the table with this library or Apache Hudi, "
            "and keep the history folder",
        )


def _check_whole(
    subject: Subject,
    instant: Instant,
    plan: CompactionPlan,
    logs: dict[tuple[str, str], list[NamedFile]],
    findings: Findings,
) -> None:
    """A log file that completed below a compaction's instant lies under its base file: unless it was merged, its rows are gone."""
    for one in plan.slices:
        for log in logs.get((one.partition_path, one.file_id), ()):
            completed = log.instant.completion_time
            is_below = one.base_instant <= completed < instant.time
            if is_below and log.stat.file_name not in one.log_files and instant.action == "compaction":
                findings.error(
                    "compaction-left-out",
                    f"{instant} did not merge this log file of {log.instant}, and hides it: its rows are not read",
                    log.path,
                    "read the file and write its rows again; see that clocks agree, and that all writers take one lock",
                )


def _check_inputs(subject: Subject, instant: Instant, plan: CompactionPlan, findings: Findings) -> None:
    """A plan whose files are gone can never be executed."""
    if subject.later.find(instant.time, instant.action) != instant:
        return  # it moved on while the table was listed
    for one in plan.slices:
        for name in filter(None, (one.base_file, *one.log_files)):
            path = f"{one.partition_path}/{name}" if one.partition_path else name
            if path not in subject.sizes and subject.storage.head(path) is None:
                findings.error(
                    "compaction-input-missing",
                    f"{instant} is to merge a file that is not there",
                    path,
                    "restore it from a copy, or cancel the plan",
                )


def _logs_by_group(subject: Subject) -> dict[tuple[str, str], list[NamedFile]]:
    found: dict[tuple[str, str], list[NamedFile]] = defaultdict(list)
    for named in subject.named.values():
        # What a resize wrote ahead carries the instant of its plan, under which it becomes visible.
        if ".log." in named.path and f"_{named.instant.time}.log." in named.path:
            found[named.stat.partition_path, named.stat.file_id].append(named)
    return found


def _plan_of(subject: Subject, instant: Instant) -> CompactionPlan | None:
    try:
        plan = read_plan(subject.storage, subject.timeline, instant)
    except Corrupt:
        return None  # the timeline's own check reports it
    return plan if isinstance(plan, CompactionPlan) else None

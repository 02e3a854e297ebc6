"""Check compactions: none left out a log file, and all inputs of pending ones exist.

Also report log files whose slice follows from the archived timeline alone (docs/format §9.2).
"""

from __future__ import annotations

from collections import defaultdict

from hudi_ops.errors import Corrupt
from hudi_ops.timeline.content.plans import CompactionPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import MERGING_ACTIONS
from hudi_ops.verify.report import RESTORE, Findings, compact_command
from hudi_ops.verify.subject import NamedFile, Subject


def check_compactions(subject: Subject, findings: Findings) -> None:
    """Compare the plans on the timeline with the log files that writes added to their groups.

    Version 6 is skipped: its log files name their base file, so that a plan cannot miss one.
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
            _check_whole(instant, plan, logs, findings)
        else:
            _check_inputs(subject, instant, plan, findings)


def check_archived_writers(subject: Subject, findings: Findings) -> None:
    """Report log files of archived writers that are older than their group's newest base file.

    Version 6 is skipped: its log files name their base file.
    """
    if subject.config.layout == 1:
        return
    bases = {(base.partition_path, base.file_id): base.instant for base in subject.live_base_files}
    below = [
        (file, base)
        for file in subject.data_files
        if file.is_log and not file.name.is_cdc and subject.timeline.find(file.name.instant) is None
        if file.name.instant < (base := bases.get((file.partition_path, file.name.file_id), ""))
    ]
    if subject.history is None:
        findings.error(
            "history-broken",
            "the archived timeline cannot be read, so checks that need it are skipped"
            + (f"; reads fail, as it decides whether {len(below)} log files are visible" if below else ""),
            subject.config.history_folder,
            "restore the folder from a copy of the table",
        )
        return
    completed = {instant.time: instant.completion_time for instant in subject.history.instants}
    for file, base in below:
        findings.looked("log files of archived writers")
        since = completed.get(file.name.instant, "")
        if since and since < base:
            continue
        told = (
            f"completed at {since}, after" if since else "is not in the archived timeline and counts as completed after"
        )
        findings.warning(
            "log-of-archived-writer",
            f"its writer {file.name.instant} {told} base file {base} of file group {file.name.file_id}: hudi-ops and Apache Hudi "
            "merge it with that base file, by the archived timeline; the `hudi` package 0.5.0 does not read its rows",
            file.info.path,
            f"{compact_command(file.partition_path)} merges it; until then read the table with hudi-ops or Apache Hudi, and keep "
            "the history folder",
        )


def _check_whole(
    instant: Instant,
    plan: CompactionPlan,
    logs: dict[tuple[str, str], list[NamedFile]],
    findings: Findings,
) -> None:
    """Report log files that a completed compaction hides without having merged them."""
    for slice_ in plan.slices:
        for log in logs.get((slice_.partition_path, slice_.file_id), ()):
            completed = log.instant.completion_time
            is_below = slice_.base_instant <= completed < instant.time
            if is_below and log.stat.file_name not in slice_.log_files and instant.action == "compaction":
                findings.error(
                    "compaction-left-out",
                    f"{instant} hides this log file of {log.instant} without having merged it: its rows are not read",
                    log.path,
                    "read the file and write its rows again; synchronise the clocks, and let all writers use one lock",
                )


def _check_inputs(subject: Subject, instant: Instant, plan: CompactionPlan, findings: Findings) -> None:
    """Report missing inputs of a pending plan, which can then never be executed."""
    if subject.later.find(instant.time, instant.action) != instant:
        return  # its state changed during the listing
    for slice_ in plan.slices:
        for name in filter(None, (slice_.base_file, *slice_.log_files)):
            path = f"{slice_.partition_path}/{name}" if slice_.partition_path else name
            if path not in subject.sizes and subject.storage.head(path) is None:
                findings.error(
                    "compaction-input-missing",
                    f"{instant} has to merge this file, but it does not exist",
                    path,
                    f"{RESTORE}, or cancel the plan",
                )


def _logs_by_group(subject: Subject) -> dict[tuple[str, str], list[NamedFile]]:
    found: dict[tuple[str, str], list[NamedFile]] = defaultdict(list)
    for named in subject.named.values():
        # A drop of an index deleted its log files. If it is built again, its groups have the same names, and its base files may
        # begin below the completion of the last write to the dropped index.
        if subject.is_metadata_table and named.path not in subject.sizes:
            continue
        # Log files written ahead of a resize carry the instant of its plan, which makes them visible.
        if ".log." in named.path and f"_{named.instant.time}.log." in named.path:
            found[named.stat.partition_path, named.stat.file_id].append(named)
    return found


def _plan_of(subject: Subject, instant: Instant) -> CompactionPlan | None:
    try:
        plan = read_plan(subject.storage, subject.timeline, instant)
    except Corrupt:
        return None  # `check_timeline` reports it
    return plan if isinstance(plan, CompactionPlan) else None

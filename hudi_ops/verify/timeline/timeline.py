"""Invariants of timeline files: names, states, contents and times (docs/format §2)."""

from __future__ import annotations

import re
from collections import defaultdict

from hudi_ops.errors import HudiOpsError, InvalidRequest, NotFound
from hudi_ops.timeline.content.plans import read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import COMPLETED_ACTIONS, State, TimelineFile, completes_as, ms_of_instant, parse_file_name
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import Subject

_LIKE_TIMELINE = re.compile(r"\d{14,}[._].*")
_LEGACY = re.compile(r"\d+\.([a-z]+)")
_TEMPORARY = re.compile(r"\d+(_\d+)?\.[a-z.]+\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Name of a file that Apache Hudi renames to a timeline file; source: docs/format §2.2."""


def check_timeline(subject: Subject, findings: Findings) -> None:
    """Check names, states, contents and times of the active timeline."""
    files = _check_names(subject, findings)
    _check_single(subject, files, findings)
    for instant in subject.timeline:
        findings.looked("instants")
        _check_states(subject, instant, findings)
        _check_times(subject, instant, findings)
        if instant.is_completed:
            _check_content(subject, instant, findings)


def _check_names(subject: Subject, findings: Findings) -> list[TimelineFile]:
    folder, layout = subject.timeline.folder, subject.timeline.layout
    parsed = []
    for info in subject.under(folder):
        name = info.path.removeprefix(folder + "/")
        if "/" in name or not _LIKE_TIMELINE.fullmatch(name):
            continue
        file = parse_file_name(name, layout)
        if file is not None:
            parsed.append(file)
            continue
        legacy = _LEGACY.fullmatch(name)
        if layout == 2 and legacy and legacy[1] in COMPLETED_ACTIONS:
            findings.error(
                "completed-without-time",
                "completed file without a completion time: Apache Hudi parses it as JSON, as in old versions; other readers ignore "
                "it and its rows",
                info.path,
                "remove it, or restore its name `<request>_<completion>.<action>` from a copy of the table",
            )
        elif _TEMPORARY.fullmatch(name):
            findings.info(
                "timeline-name",
                "temporary file that a killed process of Apache Hudi left; every reader skips it",
                info.path,
                "delete it once no process writes this instant",
            )
        else:
            findings.warning(
                "timeline-name",
                "not a timeline file name; every reader skips it",
                info.path,
                "move it out of the timeline folder",
            )
    return parsed


def _check_single(subject: Subject, files: list[TimelineFile], findings: Findings) -> None:
    """Report request times with two actions (savepoints excepted), and actions completed twice."""
    completed: dict[tuple[str, str], list[str]] = defaultdict(list)
    kinds: dict[str, dict[str, TimelineFile]] = defaultdict(dict)
    """Request time -> action as completed -> its file of the latest state."""
    # `INSTANT.inflight` is a commit or a compaction; both complete as a commit.
    for file in sorted(files, key=lambda file: file.state):
        if file.action != "savepoint":
            kinds[file.time][completes_as(file.action)] = file
        if file.state is State.COMPLETED:
            completed[file.time, file.action].append(file.name)
    for time, used in kinds.items():
        if len(used) > 1:
            pending = [file for file in used.values() if file.state is not State.COMPLETED]
            is_told = len(pending) == len(used) - 1
            findings.error(
                "instant-twice",
                f"one request time is used by several actions: {' and '.join(sorted(used))}",
                subject.timeline.path(pending[0].name) if is_told else time,
                "if no process works on it, delete it: the other action is completed"
                if is_told
                else "find out which action readers should see, for example from a copy of the table, and remove the other",
            )
    for (time, action), names in completed.items():
        if len(names) > 1 and action == "rollback":
            findings.warning(
                "rollback-twice",
                f"{len(names)} processes completed this rollback, one of them Apache Hudi: {', '.join(sorted(names))}",
                time,
                "nothing to repair: both deleted the same files",
            )
        elif len(names) > 1:
            findings.error(
                "completed-twice",
                f"{action} has {len(names)} completed files: {', '.join(sorted(names))}",
                subject.timeline.path(max(names)),
                "delete the one that a copy of the table lacks; a commit log holds the right completion time",
            )
    if subject.timeline.layout == 2:
        _check_completion_times(subject, findings)


def _check_completion_times(subject: Subject, findings: Findings) -> None:
    by_completion: dict[str, list[Instant]] = defaultdict(list)
    for instant in subject.timeline:
        if instant.is_completed and instant.is_write:
            by_completion[instant.completion_time].append(instant)
    for time, instants in by_completion.items():
        if len(instants) > 1:
            findings.error(
                "completion-equal",
                f"{' and '.join(map(str, instants))} have the same completion time: incremental readers miss one",
                time,
                "nothing to repair; let all writers use one lock, and synchronise their clocks",
            )


def _check_states(subject: Subject, instant: Instant, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if instant.kind == "savepoint":
        return
    states = instant.states - {State.ABORTED, State.SWEPT}
    if states == {State.INFLIGHT}:
        # A live writer never shows this: the requested file is created first and deleted last.
        findings.error(
            "inflight-without-requested",
            "inflight file without a requested file: Apache Hudi cannot read the table",
            path,
            f"if hudi-ops cancelled it, its next write removes the file; otherwise, once no writer works on it, delete {path}",
        )
    elif instant.is_completed and len(states) < 3:
        missing = ", ".join(state.name.lower() for state in set(State) - {State.ABORTED, State.SWEPT} - states)
        findings.warning(
            "states-missing", f"completed, but these state files are missing: {missing}; readers do not need them", path
        )


def _check_times(subject: Subject, instant: Instant, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if not subject.is_metadata_table:
        try:
            ms_of_instant(instant.time)
        except InvalidRequest as error:
            findings.error("instant-time", error.what, path, "find out which program created it")
    if instant.is_completed and subject.timeline.layout == 2 and instant.completion_time < instant.time:
        findings.error(
            "completion-before-request",
            f"completed at {instant.completion_time}, before its request time",
            path,
            "a clock was wrong, and incremental readers may miss the instant: synchronise the clocks of all writers",
        )


def _check_content(subject: Subject, instant: Instant, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if subject.sizes.get(path) == 0:
        findings.error(
            "completed-empty",
            "empty completed file: some readers fail on it, incremental queries skip its rows",
            path,
            f"{RESTORE}, or from its payload under .hoodie/.commit_log/payload",
        )
        return
    try:
        if instant.is_write:
            metadata = subject.commits.metadata(subject.timeline, instant)
            len(metadata.stats if metadata is not None else ())  # decodes them
        else:
            read_result(subject.storage, subject.timeline, instant)
    except NotFound:
        return
    except HudiOpsError as error:
        findings.error("completed-undecodable", error.what, path, RESTORE)

"""Invariants of the timeline's files: names, states, and the two times of each instant (docs/format.md §2)."""

from __future__ import annotations

import re
from collections import defaultdict

from hudi_ops.errors import HudiOpsError, InvalidRequest, NotFound
from hudi_ops.timeline.content.plans import read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import COMPLETED_ACTIONS, State, TimelineFile, completes_as, ms_of_instant, parse_file_name
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject

_LOOKS_LIKE_ONE = re.compile(r"\d{14,}[._].*")
_ABORTED = re.compile(r"\d+\.[a-z]+\.aborted")
_LEGACY = re.compile(r"\d+\.([a-z]+)")


def check_timeline(subject: Subject, findings: Findings) -> None:
    """Look at names, states, contents and times of the active timeline."""
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
        if "/" in name or not _LOOKS_LIKE_ONE.fullmatch(name):
            continue
        file = parse_file_name(name, layout)
        if file is not None:
            parsed.append(file)
            continue
        legacy = _LEGACY.fullmatch(name)
        if layout == 2 and legacy and legacy[1] in COMPLETED_ACTIONS:
            findings.error(
                "completed-without-time",
                "a completed file without a completion time: Apache Hudi takes it for an old one and parses it as JSON, "
                "other readers ignore it and its rows",
                info.path,
                "remove it, or restore the right name `<request>_<completion>.<action>` from a copy",
            )
        elif not _ABORTED.fullmatch(name):
            findings.warning(
                "timeline-name",
                "not the name of a timeline file; every reader skips it",
                info.path,
                "move it elsewhere",
            )
    return parsed


def _check_single(subject: Subject, files: list[TimelineFile], findings: Findings) -> None:
    """One request time, one action (a savepoint shares its commit's), completed once."""
    completed: dict[tuple[str, str], list[str]] = defaultdict(list)
    kinds: dict[str, dict[str, TimelineFile]] = defaultdict(dict)
    """Request time -> completed word -> its file of the furthest state."""
    # The plain `I.inflight` may stand for a commit or a compaction, which complete alike; for nothing else.
    for file in sorted(files, key=lambda one: one.state):
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
                f"one request time is used by {' and '.join(sorted(used))}",
                subject.timeline.path(pending[0].name) if is_told else time,
                "delete it, if no program is at work on it: the other one is completed"
                if is_told
                else "find out which one readers should see, for example by a copy of the table, and remove the other",
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
                "delete the one that a copy of the table lacks; the commit log of a table of ours has the right completion time",
            )
    if subject.timeline.layout == 2:
        _check_completion_times(subject, findings)


def _check_completion_times(subject: Subject, findings: Findings) -> None:
    by_completion: dict[str, list[Instant]] = defaultdict(list)
    for instant in subject.timeline:
        if instant.is_completed:
            by_completion[instant.completion_time].append(instant)
    for time, instants in by_completion.items():
        if len(instants) > 1:
            findings.error(
                "completion-equal",
                f"{' and '.join(str(one) for one in instants)} completed at the same time: incremental readers lose one",
                time,
                "nothing to repair; give all writers one lock and correct clocks",
            )


def _check_states(subject: Subject, instant: Instant, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if instant.kind == "savepoint":
        return
    if instant.states == {State.INFLIGHT}:
        # The requested file is created first and deleted last; a live writer never shows this.
        findings.error(
            "inflight-without-requested",
            "inflight without requested: it makes the whole table unreadable for Apache Hudi",
            path,
            f"the next write of hudi-ops removes it if it cancelled it before; else delete {path} once no writer works on it",
        )
    elif instant.is_completed and len(instant.states) < 3:
        missing = ", ".join(state.name.lower() for state in State if state not in instant.states)
        findings.warning("states-missing", f"completed, but {missing} is gone; readers do not mind", path)


def _check_times(subject: Subject, instant: Instant, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if not subject.is_metadata_table:
        try:
            ms_of_instant(instant.time)
        except InvalidRequest as error:
            findings.error("instant-time", error.what, path, "find out which program made it")
    if instant.is_completed and subject.timeline.layout == 2 and instant.completion_time < instant.time:
        findings.error(
            "completion-before-request",
            f"completed at {instant.completion_time}, before it was requested",
            path,
            "a clock was wrong: incremental readers may miss it; set the clocks of all writers",
        )


def _check_content(subject: Subject, instant: Instant, findings: Findings) -> None:
    path = subject.timeline.path(instant.file_name)
    if subject.sizes.get(path) == 0:
        findings.error(
            "completed-empty",
            "an empty completed file: some readers fail on it, incremental queries skip its rows",
            path,
            "restore the file from a copy or, on a table of ours, from its payload under .hoodie/.commit_log/payload",
        )
        return
    try:
        if instant.is_write:
            subject.commits.metadata(subject.timeline, instant)
        else:
            read_result(subject.storage, subject.timeline, instant)
    except NotFound:
        return
    except HudiOpsError as error:
        findings.error("completed-undecodable", error.what, path, "restore the file from a copy of the table")

"""List the kinds of files that an instant owns, in the order of their removal.

A row says where files of a kind lie, whose they are, and for which reasons they go.

`remove.py` deletes by these rows, `verify` reports by them, and tests judge by them which instant owns a file. The order is that of
the removal (docs/protocol §7, §23):

- a completed file goes before the data files: readers then take the data files for uncommitted ones;
- data files, rings, ledgers, payloads and deltas go before the inflight file: without the instant on the timeline they would count;
- the inflight file goes before the requested one: Apache Hudi cannot read a timeline with the former alone (docs/format §2.3);
- markers, notes and the lease go last: they lead the next sweep to all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from hudi_ops.commit.owned.find import files_of
from hudi_ops.concurrency.lease.lease import FOLDER as LEASES, lease_path
from hudi_ops.concurrency.markers import FOLDER as MARKERS
from hudi_ops.files.names import parse_data_file, writer_of_child_log
from hudi_ops.index.ring_files import RINGS_FOLDER, rings_of
from hudi_ops.metadata.records.partitions import FOLDER as METADATA, TIMELINE_FOLDER as METADATA_TIMELINE
from hudi_ops.metadata.writer.commit import delta_files
from hudi_ops.timeline.builds.checkpoint import FOLDER as CHECKPOINTS
from hudi_ops.timeline.cancel.aborted import QUEUE, queue_path
from hudi_ops.timeline.content.ledger_chain import FOLDER as LEDGERS
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.commit_log import FOLDER as LOG, SAVEPOINT_SUFFIX, payload_folder, refresh_log
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import (
    State,
    aborted_name,
    inflight_name,
    parse_file_name,
    requested_name,
    swept_name,
)
from hudi_ops.timeline.state import TableState

if TYPE_CHECKING:  # the session itself removes files by these rows
    from hudi_ops.commit.session import Session

PAYLOADS = f"{LOG}/payload"

_TIMELINE = re.compile(r"\.hoodie(/[^./][^/]*)*")
"""Folder of a timeline: none of ours, whose names begin with a dot."""

LAYOUT = 2
"""Layout of the timelines of tables with a commit log."""


class Reason(StrEnum):
    """Why files of an instant are removed."""

    CANCELLED = "a CANCEL names it"
    WITHDRAWN = "its CANCEL comes next"
    NOT_CANCELLED = "it was not cancelled after all"
    COMPLETED = "it completed without them"
    TAKEN_OVER = "another executor has it, or begins it next"
    LEFT_OUT = "the commit of its executor will not name them"
    LOST = "no decided slot names them"
    VOIDED = "its COMPLETE does not count"
    VANISHED = "it left the timeline, and a task wrote later"
    ARCHIVED = "the archive has it"
    RESTORED = "a restore undoes it"
    UNPROTECTED = "its savepoint was deleted"
    REPAIRED = "a repair found them"
    BUILD_WITHDRAWN = "its index build was withdrawn"


class Part(StrEnum):
    """Part of an instant's files; one call may remove some parts alone."""

    CONTENT = "content"
    TIMELINE = "timeline"
    TRACES = "traces"


@dataclass(frozen=True)
class Removal:
    """Removal of an instant's files.

    Attributes:
        session: of this process.
        state: of the table.
        target: the instant, which need not be on the timeline.
        reason: chooses the kinds.
        data_files: paths that were found before; None: markers tell them.
        is_foreign: checksum files may lie beside its files.
    """

    session: Session
    state: TableState
    target: Instant
    reason: Reason
    data_files: Sequence[str] | None = None
    is_foreign: bool = False


@dataclass(frozen=True)
class OwnedKind:
    """A kind of file that instants own.

    Attributes:
        name: for messages.
        part: one call removes all kinds of it.
        reasons: why files of this kind are removed.
        find: returns the paths of a removal, in the order in which they go; some may not exist.
        owner: returns the instant that owns a path; empty: the path is not of this kind.
        folder: has a file or a folder for each instant; empty: the files lie among others.
        finding: what `verify` reports of such a file whose instant never completed; empty: nothing.
        has_checksum: Apache Hudi's processes may put a checksum file beside it.
    """

    name: str
    part: Part
    reasons: frozenset[Reason]
    find: Callable[[Removal], Iterable[str]]
    owner: Callable[[str], str]
    folder: str = ""
    finding: str = ""
    has_checksum: bool = False


def kind_in_folder(name: str, part: Part, reasons: Collection[Reason], folder: str, finding: str = "") -> OwnedKind:
    """Return a kind whose files lie in one folder, in a file or folder with the instant's name."""

    def listed(removal: Removal) -> list[str]:
        return [info.path for info in removal.session.ctx.storage.list(f"{folder}/{removal.target.time}")]

    return OwnedKind(name, part, frozenset(reasons), listed, _owner_in(folder), folder, finding)


def _kind_on_timeline(
    name: str, part: Part, reasons: Collection[Reason], state: State, name_of: Callable[[str, str], str]
) -> OwnedKind:
    """Return a kind of timeline file; `name_of` returns its name for an instant and its action."""

    def path(removal: Removal) -> list[str]:
        return [removal.state.timeline.path(name_of(removal.target.time, removal.target.action))]

    owner, has_checksum = _owner_on_timeline(state), part is Part.TIMELINE
    return OwnedKind(name, part, frozenset(reasons), path, owner, has_checksum=has_checksum)


def _owner_in(folder: str) -> Callable[[str], str]:
    def owner(path: str) -> str:
        below = path.removeprefix(f"{folder}/")
        time = below.partition("/")[0]
        return time if below != path and time.isdecimal() else ""

    return owner


def _owner_of_payload(path: str) -> str:
    below = path.removeprefix(f"{PAYLOADS}/")
    time = below.partition("/")[0].removesuffix(SAVEPOINT_SUFFIX)
    return time if below != path and time.isdecimal() else ""


def _completed_file(removal: Removal) -> list[str]:
    target = removal.target
    return [removal.state.timeline.path(target.file_name)] if target.is_completed else []


def _data_files(removal: Removal) -> Sequence[str]:
    if removal.data_files is not None:
        return removal.data_files
    return files_of(removal.session, removal.state, removal.target.time, foreign=removal.is_foreign)


def _payloads(removal: Removal) -> list[str]:
    """Return the payloads of an instant that go.

    Of a completed one these are the payloads that its COMPLETE does not name: of its plan, of lost slots, and of earlier executors.
    The process that completes an instant deletes them, unless it dies first. The log is read after the listing: after a VOID of the
    COMPLETE another executor may need its own payload.
    """
    storage, instant = removal.session.ctx.storage, removal.target.time
    paths = [info.path for info in storage.list(payload_folder(instant))]
    if removal.reason is not Reason.COMPLETED:
        return paths
    if len(paths) < 2:
        return []
    state = replace(removal.state, log=refresh_log(storage, removal.state.log))
    fate = fate_of(storage, state, instant)
    return [path for path in paths if path not in fate[1].notes] if fate and isinstance(fate[1], Complete) else []


def _rings(removal: Removal) -> Sequence[str]:
    may_have = removal.reason is Reason.RESTORED or (
        removal.target.kind == "replacecommit" and removal.state.log.properties.facts.has_ring
    )
    return rings_of(removal.session.ctx.storage, removal.target.time) if may_have else ()


def _delta(removal: Removal) -> list[str]:
    if not removal.state.config.all_metadata_partitions:
        return []
    return delta_files(removal.session.ctx.storage, [removal.target.time])


def _no_notes(removal: Removal) -> list[str]:
    return []  # the second sweep knows the times of the notes that are due


def _owner_of_data(path: str) -> str:
    if path.startswith(".hoodie/"):
        return ""
    name = parse_data_file(path.rpartition("/")[2])
    return (writer_of_child_log(name) or name.instant) if name is not None else ""


def _owner_of_ring(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.partition(".")[0] if path.startswith(f"{RINGS_FOLDER}/") else ""


def _owner_of_delta(path: str) -> str:
    folder, _, name = path.rpartition("/")
    if folder == METADATA_TIMELINE:
        file = parse_file_name(name, LAYOUT)
        return file.time if file is not None else ""
    data = parse_data_file(name) if folder.startswith(f"{METADATA}/") else None
    return data.instant if data is not None else ""


def _owner_on_timeline(state: State) -> Callable[[str], str]:
    """Return the owner of files of a timeline, whose folder `hoodie.timeline.path` names."""

    def owner(path: str) -> str:
        folder, _, name = path.rpartition("/")
        may_be = _TIMELINE.fullmatch(folder) is not None and not f"{folder}/".startswith(f"{METADATA}/")
        file = parse_file_name(name, LAYOUT) if may_be else None
        return file.time if file is not None and file.state is state else ""

    return owner


def _owner_of_note(path: str) -> str:
    folder = path.removeprefix(f"{MARKERS}/").partition("/")[0]
    time, dot, _ = folder.partition(".")
    return time if path.startswith(f"{MARKERS}/") and dot and time.isdecimal() else ""


_UNDONE = frozenset({Reason.CANCELLED, Reason.VANISHED, Reason.RESTORED, Reason.REPAIRED})

_DATA = _UNDONE | {Reason.COMPLETED, Reason.TAKEN_OVER, Reason.LEFT_OUT, Reason.BUILD_WITHDRAWN}
_COMPLETED = frozenset({Reason.RESTORED, Reason.VOIDED, Reason.ARCHIVED, Reason.UNPROTECTED})
_PAYLOAD = _UNDONE | {Reason.COMPLETED, Reason.LOST, Reason.ARCHIVED}
_INFLIGHT = _UNDONE | {Reason.TAKEN_OVER, Reason.ARCHIVED, Reason.UNPROTECTED}
_REQUESTED = _UNDONE | {Reason.WITHDRAWN, Reason.ARCHIVED}
_MARKER = frozenset({Reason.COMPLETED, Reason.REPAIRED})
_ENDED = frozenset({Reason.CANCELLED, Reason.COMPLETED})
_NOTE = frozenset({Reason.COMPLETED, Reason.VANISHED})

KINDS: tuple[OwnedKind, ...] = (
    OwnedKind("completed file", Part.TIMELINE, _COMPLETED, _completed_file, _owner_on_timeline(State.COMPLETED)),
    OwnedKind("data file", Part.CONTENT, _DATA, _data_files, _owner_of_data, has_checksum=True),
    OwnedKind("ring", Part.CONTENT, frozenset({Reason.CANCELLED, Reason.RESTORED}), _rings, _owner_of_ring),
    kind_in_folder("ledger", Part.CONTENT, _UNDONE | {Reason.ARCHIVED}, LEDGERS, "ledger-left"),
    OwnedKind("payload", Part.CONTENT, _PAYLOAD, _payloads, _owner_of_payload, PAYLOADS, "payload-left"),
    OwnedKind("metadata delta", Part.CONTENT, frozenset({Reason.CANCELLED, Reason.VANISHED}), _delta, _owner_of_delta),
    _kind_on_timeline("inflight file", Part.TIMELINE, _INFLIGHT, State.INFLIGHT, inflight_name),
    _kind_on_timeline("requested file", Part.TIMELINE, _REQUESTED, State.REQUESTED, requested_name),
    _kind_on_timeline("record of a cancelled plan", Part.TRACES, {Reason.ARCHIVED}, State.ABORTED, aborted_name),
    _kind_on_timeline("mark of a swept plan", Part.TRACES, {Reason.ARCHIVED}, State.SWEPT, swept_name),
    kind_in_folder("checkpoint of a build", Part.TRACES, {Reason.BUILD_WITHDRAWN}, CHECKPOINTS),
    OwnedKind(
        "queue file",
        Part.TRACES,
        frozenset({Reason.CANCELLED, Reason.NOT_CANCELLED}),
        lambda removal: [queue_path(removal.target.time)],
        _owner_in(QUEUE),
        QUEUE,
    ),
    kind_in_folder("marker", Part.TRACES, _MARKER, MARKERS),
    OwnedKind("note of a second sweep", Part.TRACES, _NOTE, _no_notes, _owner_of_note),
    OwnedKind(
        "lease",
        Part.TRACES,
        _ENDED,
        lambda removal: [lease_path(removal.target.time)],
        _owner_in(LEASES),
        LEASES,
        has_checksum=True,
    ),
)
"""All kinds, in the order in which they go."""


def owners_of(path: str) -> list[tuple[str, str]]:
    """Return the names of the kinds that claim a path, each with the instant that owns it."""
    return [(kind.name, owner) for kind in KINDS if (owner := kind.owner(path))]

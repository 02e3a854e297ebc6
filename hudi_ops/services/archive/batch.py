"""Read the files of a batch of instants and write its history file (docs/protocol §22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.errors import Conflict, NotFound
from hudi_ops.index.ring_files import seal_rings
from hudi_ops.services.archive.manifests import Manifest, Parts
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import ArchivedInstant, HistoryPart, read_part
from hudi_ops.timeline.content.history_parts import encode_part, part_name, range_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, inflight_name, requested_name

_PLANNED = frozenset({"clean", "compaction", "logcompaction", "clustering", "replacecommit"})
"""Actions whose plan the history keeps; Apache Hudi keeps no other."""


READ_AT_ONCE = 16
"""Instants whose files one task reads: a task for each would cost more than its files."""


@dataclass(frozen=True)
class Written:
    """History file of a batch.

    `parts` are the files that the manifest must add for the batch; empty if it names them already.
    """

    name: str
    parts: Parts

    def added(self, parts: Parts) -> Parts:
        """Return the files of a manifest with the batch's file."""
        known = {part.name for part in parts}
        return (*parts, *(part for part in self.parts if part.name not in known))


def write_batch(
    session: Session, timeline: Timeline, folder: str, batch: Sequence[Instant], manifest: Manifest
) -> Written:
    """Put the history file of completed instants, without the lock.

    Instants that are in the history already, put there by an archiver that died before its decision, are not written again. A
    file that no manifest names may be replaced: it is a leftover.

    Raises:
        Conflict: an instant left the timeline while it was read.
        Corrupt: a history file of the same time cannot be read.
    """
    storage = session.ctx.storage
    known = _known(session, folder, batch, manifest)
    new = [one for one in batch if (one.time, one.completion_time, one.kind) not in known]
    if not new:
        return Written(known[batch[-1].time, batch[-1].completion_time, batch[-1].kind], ())

    def task(start: int) -> list[ArchivedInstant]:
        return [archived_of(session, timeline, instant) for instant in new[start : start + READ_AT_ONCE]]

    seal_rings(storage, {one.time for one in new if one.kind == "replacecommit"})
    tasks = range(0, len(new), READ_AT_ONCE)
    body = encode_part([one for read in session.ctx.local_engine.map(task, tasks) for one in read])
    name = part_name([one.time for one in new], 0)
    if name in manifest.names:
        raise Conflict(
            f"{folder}/{name} is a file of the history, and lacks an instant of the timeline",
            table=storage.uri,
            instant=new[0].time,
            expected="a history file with all instants between its first and its last",
            found="one that another archiver wrote before this instant completed",
            next_step="run the same call again after the next write: the batch then ends with another instant",
        )
    storage.put(f"{folder}/{name}", body)
    return Written(name, (HistoryPart(name, len(body)),))


def archived_of(session: Session, timeline: Timeline, instant: Instant) -> ArchivedInstant:
    """Read what the history keeps of a completed instant.

    Raises:
        Conflict: it left the timeline before it was read.
    """
    storage = session.ctx.storage
    try:
        metadata = storage.get(timeline.path(instant.file_name))
    except NotFound as error:
        raise Conflict(
            f"{instant.action} {instant.time} left the timeline while it was archived",
            table=storage.uri,
            instant=instant.time,
            expected=timeline.path(instant.file_name),
            found="no such file",
            next_step="run the same call again: another process archived or undid it",
        ) from error
    plan = _plan(session, timeline, instant) if instant.action in _PLANNED else None
    return ArchivedInstant(instant.time, instant.completion_time, instant.kind, metadata, plan)


def _plan(session: Session, timeline: Timeline, instant: Instant) -> bytes | None:
    """Return the bytes that the history keeps as the plan, or None.

    Those of replace actions are the bytes of the inflight file, unless it is empty.
    """
    found = None
    names = [requested_name(instant.time, instant.action)] if State.REQUESTED in instant.states else []
    if instant.kind == "replacecommit" and State.INFLIGHT in instant.states:
        names.append(inflight_name(instant.time, instant.action))
    for name in names:
        try:
            found = session.ctx.storage.get(timeline.path(name)) or found
        except NotFound:
            continue
    return found


def _known(
    session: Session, folder: str, batch: Sequence[Instant], manifest: Manifest
) -> dict[tuple[str, str, str], str]:
    """Return (time, completion time, action) of instants that the history has, with the file.

    Only history files of these times are read.
    """
    first, last = batch[0].time, batch[-1].time
    found = {}
    for part in manifest.parts:
        held = range_of(part.name)
        if held is None or (held[0] <= last and first <= held[1]):
            for one in read_part(session.ctx.storage, f"{folder}/{part.name}"):
                found[one.time, one.completion_time, one.action] = part.name
    return found

"""Continue an index build that an earlier executor announced.

Writers have carried the partitions since the announcement, so nothing is built again: only what completed between the last snapshot
of that executor and the announcement may be missing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from hudi_ops.commit.recover.index_builds import stray_deltas
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Conflict, Corrupt
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.services.indexing.filling.build import Build, missing_names
from hudi_ops.services.indexing.filling.diff import TableSnapshot, snapshot, without
from hudi_ops.services.indexing.filling.pace import Pace
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.builds.announced import announced_plan
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, checkpoints_of
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumedBuild:
    """An announced build of an earlier executor.

    Attributes:
        checkpoint: the last checkpoint of that executor.
        doubled_keys: number of record keys in several file groups when it was announced; None: not counted.
        state: table as it was at that executor's last snapshot.
        seen: that snapshot, taken again.
        announced_at: completion time of the build's instant.
    """

    checkpoint: BuildCheckpoint
    doubled_keys: int | None
    state: TableState
    seen: TableSnapshot
    announced_at: str

    def continue_with(self, build: Build) -> None:
        """Set the fields of a build to the progress of the earlier executor."""
        build.groups = dict(self.checkpoint.groups)
        build.records = dict(self.checkpoint.records)
        build.rounds = self.checkpoint.rounds
        build.defined = self.checkpoint.defined
        build.deltas = self.checkpoint.deltas
        build.doubled_keys = self.doubled_keys
        build.covered = self.seen.completed
        build.pace = Pace(self.announced_at, self.state.zone, self.checkpoint.catch_up_per_s)
        build.is_announced = True


def resumed_build(session: Session, attempt: Attempt, partitions: tuple[str, ...]) -> ResumedBuild | None:
    """Return the announced build of a plan, or None: then it is built from the start.

    Raises:
        Corrupt: a checkpoint of the plan cannot be read.
    """
    storage = session.ctx.storage
    state = session.loader.load()
    entry = announced_plan(storage, state.log, partitions)
    if entry is None or entry.plan != attempt.instant or missing_names(frozenset(map(str, partitions)), state):
        return None
    checkpoints = [one for one in checkpoints_of(storage, attempt.instant) if one.built_at == entry.built_at]
    own = load_metadata_timeline(storage)
    built = own.find(entry.built_at)
    if not checkpoints or built is None or not built.is_completed:
        return None
    last = checkpoints[-1]
    # The executor may have died after its delta was complete, and before its next checkpoint.
    is_newer = bool(last.deltas) and is_whole(storage, own, last.deltas[-1])
    began = _as_of(state, last.looked_at_last if is_newer else last.looked_at)
    if began is None:
        logger.warning("%s is built from the start: a write that it covers was undone", ", ".join(partitions))
        return None
    # Completed deltas stay: their completions are added once more, above them.
    pending = [one for one in last.deltas if (found := own.find(one)) is not None and not found.is_completed]
    undo_delta(storage, [*pending, *stray_deltas(session, entry.built_at)])
    try:
        seen = snapshot(session, began)
    except (Conflict, Corrupt) as error:
        logger.warning("%s is built from the start: %s", ", ".join(partitions), error.what)
        return None
    return ResumedBuild(last, entry.doubled_keys, began, seen, built.completion_time)


def remove_uncounted(build: Build, pending: MetadataDelta | None) -> None:
    """Remove records of catch-up that do not count, after an execution that did not complete.

    An executor that slept may put files of a delta that its successor has undone, and complete it without its requested file.
    """
    session = build.session
    own = load_metadata_timeline(session.ctx.storage)
    completed = {one.time for one in own if one.is_completed} & {*build.deltas}
    uncounted = {time for time in completed if not is_whole(session.ctx.storage, own, time)}
    if pending is not None:
        uncounted.add(pending.instant)
    if session.was_cancelled(session.loader.load(), build.instant):
        # The metadata table of these empty delta commits is gone. In a newer one they would stand for all writes since.
        uncounted |= {*build.recorded}
    undo_delta(session.ctx.storage, uncounted, also_vanished=True)
    for time in sorted(uncounted):
        session.drop_name(time)


def is_whole(storage: Storage, own: Timeline, delta: str) -> bool:
    """Return whether a delta of catch-up is complete and has its files.

    An executor that slept may complete one whose files its successor has removed.
    """
    found = own.find(delta)
    if found is None or not found.is_completed or State.REQUESTED not in found.states:
        return False
    path = own.path(found.file_name)
    stats = CommitMetadata.from_bytes(storage.get(path), path).stats
    return all(storage.head(f"{FOLDER}/{stat.path}") is not None for stat in stats)


def _as_of(state: TableState, covered: Collection[str]) -> TableState | None:
    """Return the table with some completed files alone; None: one of them was undone."""
    now = {one.file_name for one in changing(state.timeline)}
    if any(name.split("_")[0] >= state.timeline.start for name in {*covered} - now):
        return None
    return without(state, {one for one in changing(state.timeline) if one.file_name not in covered})

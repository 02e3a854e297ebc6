"""Archive the metadata table's own timeline, after the data table's (docs/protocol §22).

The metadata table has no commit log. So the manifest, published under the table's lock, decides, as in Apache Hudi; timeline files
are deleted after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.commit.decide.archive_boundary import clear_instants
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.errors import Busy, Conflict
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import HISTORY_FOLDER
from hudi_ops.metadata.writer.compaction import compactions
from hudi_ops.services.archive.batch import write_batch
from hudi_ops.services.archive.levels import merge_levels
from hudi_ops.services.archive.manifests import current, drop_unnamed, publish, sound
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import load_history_of
from hudi_ops.timeline.content.history_parts import range_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState

PURPOSE = "archive the metadata table's timeline"


def archive_metadata_timeline(session: Session, keep: int, at_most: int) -> int:
    """Move old instants of the metadata table into its history; return their number.

    `keep` completed writes stay, and a batch has at most `at_most` instants.

    Raises:
        Busy: the lock was not free in time, or was lost.
        Conflict: the timeline changed while a batch was written.
        Corrupt: the history cannot be read.
    """
    state = session.loader.load()
    if not state.config.all_metadata_partitions:
        return 0
    count = 0
    storage = session.ctx.storage
    drop_unnamed(storage, HISTORY_FOLDER, session.ctx.clock.now_ms())
    own = drop_put_back(session, load_metadata_timeline(storage))
    while batch := leaving_of(own, state, keep)[:at_most]:
        _archive(session, state, own, batch)
        count += len(batch)
        own = load_metadata_timeline(storage)
    if count:
        merge_levels(storage, HISTORY_FOLDER, lambda: hold_lock(session.ctx, PURPOSE))
    return count


def leaving_of(own: Timeline, state: TableState, keep: int) -> list[Instant]:
    """Return the instants that leave the metadata table's timeline, oldest first.

    Each lies below the start of the data table's timeline and below every pending instant of both, and completed before the last
    compaction: its records are in base files. So no reader needs the instant to assign log files to slices.
    """
    compaction = max(compactions(own), default="")
    writes = own.completed_writes
    if len(writes) <= keep or not compaction:
        return []
    pending = [one.time for timeline in (own, state.timeline) for one in timeline.pending]
    limit = min([writes[-keep].time, state.timeline.start, compaction, *pending])
    found = []
    for instant in own:
        if instant.time >= limit or instant.completion_time >= compaction:
            break
        found.append(instant)
    return found


def drop_put_back(session: Session, own: Timeline) -> Timeline:
    """Remove files of archived instants that a late applier put back; return the timeline.

    An applier that slept puts the timeline files of its delta again. Their records are merged already, and a pending instant would
    stay for ever.
    """
    storage = session.ctx.storage
    ranges = filter(None, (range_of(part.name) for part in current(storage, HISTORY_FOLDER).parts))
    newest = max((last for _, last, _ in ranges), default="")
    late = frozenset(one.time for one in own if one.time <= newest)
    if not late:
        return own
    history = load_history_of(storage, HISTORY_FOLDER, late)
    known = {(one.time, one.action) for one in history}
    back = [one for one in own if (one.time, one.kind) in known]
    if not back:
        return own
    with hold_lock(session.ctx, PURPOSE):
        clear_instants(storage, own, back)
    return load_metadata_timeline(storage)


def _archive(session: Session, state: TableState, own: Timeline, batch: Sequence[Instant]) -> None:
    storage = session.ctx.storage
    written = write_batch(session, own, HISTORY_FOLDER, batch, sound(storage, HISTORY_FOLDER))
    with hold_lock(session.ctx, PURPOSE) as held:
        now = load_metadata_timeline(storage)
        if [one for one in now if one.time <= batch[-1].time] != list(batch):
            raise Conflict(
                "the metadata table's timeline changed while it was archived",
                table=state.config.name,
                instant=batch[-1].time,
                next_step="run the same call again",
            )
        if not held.still_mine():
            raise Busy(
                f"the table lock was lost before it was decided to {PURPOSE}",
                table=state.config.name,
                next_step="run the same call again",
            )
        publish(storage, HISTORY_FOLDER, written.added)
    clear_instants(storage, own, batch)

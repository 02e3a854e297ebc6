"""Archive old instants of a table in batches, or explain why they stay.

Source: docs/protocol §22.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from hudi_ops.commit.decide.archive_boundary import HistoryFile, archive_boundary
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unserviced
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.errors import Conflict, InvalidRequest
from hudi_ops.services.archive.aborted import aborted_verdicts, archive_aborted
from hudi_ops.services.archive.batch import write_batch
from hudi_ops.services.archive.facts import newest_metadata_compaction, read_facts
from hudi_ops.services.archive.levels import merge_levels
from hudi_ops.services.archive.manifests import drop_unnamed, latest, publish, sound
from hudi_ops.services.archive.metadata_timeline import archive_metadata_timeline
from hudi_ops.services.archive.prune import prune
from hudi_ops.services.archive.result import ArchiveResult
from hudi_ops.services.archive.rules import Facts, leaving, stopped_by, verdicts
from hudi_ops.timeline.content.history_parts import range_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

BATCH_MAX = 500
"""Instants that leave in one batch; the lock is released between batches."""
TRIES_MAX = 3
"""Number of times that a batch is chosen while others change the timeline."""


@dataclass
class _Progress:
    """What a run has done so far."""

    boundary: str | None = None
    instants: int = 0
    batches: int = 0
    lock_s: float = 0.0


def archive(session: Session, request: ArchiveRequest, *, batches: int | None = None) -> ArchiveResult:
    """Move old instants from the timeline into the history, and remove what only they needed.

    Args:
        session: of this process.
        request: how many writes stay; a dry run changes nothing.
        batches: at most this number of batches; None: until the policy is met.

    Raises:
        InvalidRequest: retention numbers that contradict each other.
        Unsupported: the table cannot be written, or its timeline has another layout.
        Busy: the lock was not free in time, or an instant became pending below the boundary.
        Conflict: others changed the timeline each time that a batch was chosen.
        Corrupt: the history, or a file on the timeline, cannot be read; nothing was changed after that.
        OutcomeUnknown: storage did not say whether a batch was decided; the next write settles that.
    """
    if request.dry_run:
        return explain(session, request)
    started_s = session.ctx.clock.monotonic_s()
    refuse_retention(request)
    refuse_unserviced(session.loader.load().config, "an archive")
    recover(session)
    session.memory.is_clean = False
    done = _Progress()
    state = session.loader.load()
    if len(state.timeline.completed_writes) > request.keep_max or was_begun(session, state):
        while (batches is None or done.batches < batches) and _archive_batch(session, request.keep_min, done):
            pass
    state = session.loader.load()
    aborted = archive_aborted(session, state)
    folder = state.config.history_folder
    drop_unnamed(session.ctx.storage, folder, session.ctx.clock.now_ms())
    merged = merge_levels(session.ctx.storage, folder, lambda: hold_lock(session.ctx, "merge history files"))
    pruned = prune(session, state)
    of_metadata = archive_metadata_timeline(session, request.keep_min, BATCH_MAX)
    session.memory.is_clean = True
    left = _explained(session, state, request)
    return replace(
        left,
        boundary=done.boundary,
        instants=done.instants,
        batches=done.batches,
        merged=merged,
        aborted=aborted,
        ledgers=pruned.ledgers,
        payloads=pruned.payloads,
        metadata_instants=of_metadata,
        lock_s=round(done.lock_s, 3),
        seconds=round(session.ctx.clock.monotonic_s() - started_s, 3),
        note="" if done.instants or aborted else left.note or "nothing to archive",
        verdicts=(),
        dry_run=False,
    )


def explain(session: Session, request: ArchiveRequest) -> ArchiveResult:
    """Return why each instant stays on the timeline, or that it can leave; change nothing.

    Raises:
        InvalidRequest: retention numbers that contradict each other.
        Unsupported: the table cannot be written, or its timeline has another layout.
    """
    refuse_retention(request)
    state = session.loader.load()
    refuse_unserviced(state.config, "an archive")
    return _explained(session, state, request)


def was_begun(session: Session, state: TableState) -> bool:
    """Return whether the history has instants of the timeline above the boundary.

    If so, an archiver died between its manifest and its slot, or Apache Hudi's died before it removed the files; archiving finishes
    the batch.
    """
    ranges = filter(
        None, (range_of(part.name) for part in latest(session.ctx.storage, state.config.history_folder).parts)
    )
    newest = max((last for _, last, _ in ranges), default="")
    return any(state.log.boundary < one.time <= newest for one in state.timeline)


def refuse_retention(request: ArchiveRequest) -> None:
    """Refuse to keep more writes than the number above which archiving begins.

    Raises:
        InvalidRequest: `keep_min` is above `keep_max`.
    """
    if request.keep_min > request.keep_max:
        raise InvalidRequest(
            f"keep_min is {request.keep_min}, and keep_max is {request.keep_max}",
            expected="keep_min at most keep_max: archiving begins above keep_max and ends at keep_min",
            found=f"{request.keep_min} above {request.keep_max}",
            next_step="raise keep_max, or lower keep_min",
        )


def _explained(session: Session, state: TableState, request: ArchiveRequest) -> ArchiveResult:
    count = len(state.timeline.completed_writes)
    is_due = count > request.keep_max or was_begun(session, state)
    facts = read_facts(session, state, request.keep_min)
    found = tuple(verdicts(facts))
    going = leaving(facts, len(found)) if is_due else []
    boundary = going[-1].time if going else None
    of_aborted = aborted_verdicts(state.timeline, boundary or "")
    note = ""
    if not is_due:
        note = f"{count} completed writes are on the timeline: archiving begins above {request.keep_max}"
    return ArchiveResult(
        table=state.config.name,
        boundary=boundary,
        instants=len(going),
        kept=len(found) - len(going),
        stopped_by=stopped_by(found[len(going) :]),
        aborted=sum(not one.why for one in of_aborted),
        dry_run=True,
        note=note,
        verdicts=tuple(sorted((*found, *of_aborted), key=attrgetter("instant"))),
    )


def _archive_batch(session: Session, keep: int, done: _Progress) -> bool:
    """Archive the next batch; return False if no instant can leave now.

    Raises:
        Conflict: others changed the timeline each time.
    """
    for number in range(TRIES_MAX):
        state = session.loader.load()
        facts = read_facts(session, state, keep)
        batch = leaving(facts, BATCH_MAX)
        if not batch:
            return False
        try:
            if _decide(session, state, facts, batch, done):
                return True
            # Another archiver passed the batch. Its remaining files wait for a pending instant or a savepoint to end.
        except Conflict as error:
            if number == TRIES_MAX - 1:
                raise
            logger.info("the batch is chosen anew: %s", error)
    return False


def _decide(session: Session, state: TableState, facts: Facts, batch: Sequence[Instant], done: _Progress) -> bool:
    """Write and decide a batch; return False if an earlier ARCHIVE had passed it."""
    storage, clock, folder = session.ctx.storage, session.ctx.clock, state.config.history_folder
    manifest = sound(storage, folder)
    written = write_batch(session, state.timeline, folder, batch, manifest)
    boundary = batch[-1].time
    history = HistoryFile(f"{folder}/{written.name}", frozenset(one.time for one in batch))
    begun_s = 0.0

    def check(now: TableState) -> None:
        nonlocal begun_s
        begun_s = begun_s or clock.monotonic_s()
        refuse_changed(session, now, facts, batch)

    def named() -> None:
        publish(storage, folder, written.added)

    def decided() -> None:
        done.lock_s = max(done.lock_s, clock.monotonic_s() - begun_s if begun_s else 0.0)

    if not archive_boundary(session, boundary, history, check=check, publish=named, decided=decided):
        return False
    done.boundary = boundary
    done.instants += len(batch)
    done.batches += 1
    return True


def refuse_changed(session: Session, state: TableState, facts: Facts, batch: Sequence[Instant]) -> None:
    """Refuse to archive instants that changed since the batch was written, under the lock.

    Raises:
        Conflict: an instant is not as it was, or the metadata table was built anew.
    """
    now = frozenset(state.timeline)
    changed = next((one for one in batch if one not in now), None)
    compaction = facts.metadata_compaction
    if changed is None and compaction == newest_metadata_compaction(session, state):
        return
    what = f"{changed.action} {changed.time}" if changed is not None else "the metadata table"
    raise Conflict(
        f"{what} changed while the batch was written",
        table=state.config.name,
        instant=batch[-1].time,
        expected="the timeline, and the metadata table, as they were when the batch was chosen",
        found=f"last metadata compaction {newest_metadata_compaction(session, state)}"
        if changed is None
        else "not on the timeline as it was",
        next_step="run the same call again",
    )

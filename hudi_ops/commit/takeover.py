"""Who works on a pending instant: the newest TAKEOVER says so, and gives it an epoch of its own; a lease is a beat, never proof.

Source: docs/protocol.md §14.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, Lease, read_lease
from hudi_ops.concurrency.lease.monitor import refuse_superseded
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.timeline.log.entries import Cancel, Entry, Takeover
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

_EPOCH = re.compile(r"_\d+-(?P<epoch>\d+)-\d+")


def take_over(
    session: Session, instant: str, action: str, check: Callable[[TableState], None] = lambda state: None
) -> Attempt | None:
    """Decide that this process works on a pending instant, whoever began it.

    Args:
        session: the table's.
        instant: request time of a pending instant.
        action: its pending word.
        check: what the service itself asks of the state in which it is taken over; called under the lock.

    Returns:
        The attempt, with the epoch that data files must carry and that its COMPLETE is checked against; its lease is the caller's
        to renew. None when the instant is complete.

    Raises:
        Busy: somebody's lease of it is alive; names the owner, and until when. Or the lock was not to be had.
        Cancelled: a CANCEL names it.
        Conflict: it is not on the timeline: its writer, or one without slots, took it off.
        OutcomeUnknown: taken or not; the same call settles it.
    """
    chosen: list[TableState] = []

    def prepare(state: TableState, slot: int) -> Entry | None:
        known = reaching_back(session.ctx.storage, state.log, instant)
        fate, found = known.fate(instant), state.timeline.find(instant, action)
        if fate is not None and isinstance(fate[1], Cancel):
            raise Cancelled(
                f"{action} was cancelled: {fate[1].reason}",
                table=state.config.name,
                instant=instant,
                other=fate[1].owner,
            )
        if fate is not None or instant <= state.log.boundary or (found is not None and found.is_completed):
            return None
        if found is None:
            raise Conflict(
                f"{action} is not on the timeline",
                table=state.config.name,
                instant=instant,
                expected="a pending instant",
                next_step="look at `hudi-ops timeline`: it was rolled back, or never begun",
            )
        refuse_leased(session, state, read_lease(session.ctx.storage, instant), instant)
        check(state)
        newest = known.takeover(instant)
        epoch = newest[1].epoch + 1 if newest is not None else 1
        chosen.append(state)
        # Not the same decision for two who try: each must know whether it is the one.
        decision = f"takeover {instant} {epoch} {session.ctx.ids.new_id()}"
        return Takeover(**session.entry(state, decision), instant=instant, epoch=epoch)

    decided = session.decide(prepare, f"take over {action} {instant}")
    if decided is None or not isinstance(decided.entry, Takeover):
        return None
    # After the slot: a lease that names us without one would be no more than a claim.
    session.take_lease(instant, "rollback" if action == "rollback" else "execute")
    logger.info("took over %s %s, epoch %s", action, instant, decided.entry.epoch)
    return Attempt(instant, action, chosen[-1], decided.entry.epoch)


def refuse_leased(session: Session, state: TableState, lease: Lease | None, instant: str) -> None:
    """Refuse to take an instant from somebody who is at work.

    Raises:
        Busy: the lease is another's, and not dead.
    """
    if lease is None or lease.owner == session.ctx.owner or lease.is_dead(session.ctx.clock):
        return
    until_s = max(0, lease.beaten_ms + EXPIRY_MS - session.ctx.clock.now_ms()) / 1000
    raise Busy(
        f"{lease.owner or 'another program'} works on it",
        table=state.config.name,
        instant=instant,
        expected="no live lease",
        found=f"a lease that is good for another {until_s:.0f} s",
        next_step="wait for it to finish; or cancel the instant, which stops it",
        owner=str(lease.owner or ""),
        until_ms=lease.beaten_ms + EXPIRY_MS,
    )


def clear_older_epochs(session: Session, attempt: Attempt) -> list[str]:
    """Delete the data files that earlier workers on an instant announced; returns their paths.

    Called after `take_over` only: once its TAKEOVER holds a slot nobody of an earlier epoch can complete. Their markers stay, for a
    task of theirs that writes later still (`commit.recover.sweep`).
    """
    deleted = []
    for marker in list_markers(session.ctx.storage, attempt.instant):
        epoch = epoch_of(marker.data_path)
        if epoch is not None and epoch < attempt.epoch:
            session.ctx.storage.delete(marker.data_path)
            deleted.append(marker.data_path)
    return deleted


def clear_foreign_attempts(session: Session, attempt: Attempt, found: Collection[str] = ()) -> list[str]:
    """Delete what Apache Hudi wrote when it worked on an instant of which we are the worker now; returns the paths.

    Its names have the number of a stage where ours have the epoch, and that may be any. Whoever comes after us has a higher epoch
    from a slot; so what is there before a look at the log that shows nobody above us is no later worker's.

    Args:
        session: the table's.
        attempt: ours.
        found: further data files of the instant, which no marker need name.

    Raises:
        Cancelled: somebody took the instant over, or cancelled it; nothing was deleted.
    """
    announced = {marker.data_path for marker in list_markers(session.ctx.storage, attempt.instant)} | {*found}
    foreign = sorted(path for path in announced if epoch_of(path) not in {attempt.epoch, None})
    refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch)
    for path in foreign:
        session.ctx.storage.delete(path)
    return foreign


def clear_foreign_delta(session: Session, attempt: Attempt) -> list[str]:
    """Take away what Apache Hudi put into the metadata table for an instant of which we are the worker now; returns the paths.

    It completes there first: a program that died between its two commits leaves a delta that names its data files, and counts as
    soon as the instant is complete. So would half a delta that an earlier worker on this left.

    Args:
        session: the table.
        attempt: ours; the instant is pending.

    Raises:
        Cancelled: somebody took the instant over, or cancelled it; nothing was deleted.
    """
    if not attempt.begun.config.all_metadata_partitions:
        return []
    gone = undo_delta(
        session.ctx.storage,
        [attempt.instant],
        lambda: refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch),
    )
    if gone:
        logger.warning("removed what another program put into the metadata table for %s: %s", attempt.instant, gone)
    return gone


def clear_own_epoch(session: Session, attempt: Attempt) -> None:
    """Delete the data files that this worker announced, whose end is certain; its markers stay as those of earlier ones do."""
    for marker in list_markers(session.ctx.storage, attempt.instant):
        if epoch_of(marker.data_path) == attempt.epoch:
            session.ctx.storage.delete(marker.data_path)


def epoch_of(path: str) -> int | None:
    """The epoch in a data file's write token; of a file of Apache Hudi the number of its stage."""
    found = _EPOCH.search(path.rpartition("/")[2])
    return int(found["epoch"]) if found is not None else None

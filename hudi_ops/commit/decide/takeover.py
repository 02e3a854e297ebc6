"""Takeover of a pending instant: the newest TAKEOVER names the executor and its epoch.

Source: docs/protocol §14.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Sequence

from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import PLAN_AGAIN
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, Lease, inherit_lease, read_lease
from hudi_ops.concurrency.lease.monitor import refuse_superseded
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Entry, Takeover, cancel_of
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

_EPOCH = re.compile(r"_\d+-(?P<epoch>\d+)-\d+")


def take_over(
    session: Session, instant: str, action: str, check: Callable[[TableState], None] = lambda state: None
) -> Attempt | None:
    """Decide that this process executes a pending instant; `check` is called under the lock.

    Returns:
        The attempt, with the epoch of its data files and COMPLETE; the caller renews its lease. None if the instant is complete.

    Raises:
        Busy: another process holds a live lease of the instant (names the owner and the expiry), or the lock was not free in time.
        Cancelled: a CANCEL names the instant.
        Conflict: the instant is not on the timeline: its writer or a foreign writer removed it.
        OutcomeUnknown: storage did not say whether it was taken; the same call settles that.
    """
    chosen: list[TableState] = []

    def prepare(state: TableState, slot: int) -> Entry | None:
        known = reaching_back(session.ctx.storage, state.log, instant)
        fate, found = known.fate(instant), state.timeline.find(instant, action)
        if (cancel := cancel_of(fate)) is not None:
            raise Cancelled(
                f"{action} was cancelled: {cancel.reason}",
                table=state.config.name,
                instant=instant,
                next_step=PLAN_AGAIN,
                other=cancel.owner,
                cause=cancel.cause,
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
        # The id is random: two processes that try must not share one decision.
        decision = f"takeover {instant} {epoch} {session.ctx.ids.new_id()}"
        return Takeover(**session.entry(state, decision), instant=instant, epoch=epoch)

    decided = session.decide(prepare, f"take over {action} {instant}")
    if decided is None or not isinstance(decided.entry, Takeover):
        return None
    # Take the lease after the slot: a lease without a slot proves nothing.
    inherit_lease(session.ctx, instant, "rollback" if action == "rollback" else "execute")
    logger.info("took over %s %s, epoch %s", action, instant, decided.entry.epoch)
    return Attempt(instant, action, chosen[-1], decided.entry.epoch, takeover=decided.slot)


def refuse_leased(session: Session, state: TableState, lease: Lease | None, instant: str) -> None:
    """Refuse to take an instant from a live executor.

    Raises:
        Busy: another process holds a live lease.
    """
    if lease is None or lease.owner == session.ctx.owner or lease.is_dead(session.ctx.clock):
        return
    until_s = max(0, lease.beaten_ms + EXPIRY_MS - session.ctx.clock.now_ms()) / 1000
    raise Busy(
        f"{lease.owner or 'a foreign writer'} works on it",
        table=state.config.name,
        instant=instant,
        expected="no live lease",
        found=f"a lease that is good for another {until_s:.0f} s",
        next_step=f"wait for it to finish; or `hudi-ops cancel TABLE {instant}`, which stops it",
        owner=str(lease.owner or ""),
        until_ms=lease.beaten_ms + EXPIRY_MS,
    )


def clear_older_epochs(session: Session, attempt: Attempt) -> list[str]:
    """Delete the data files that executors of earlier epochs announced; return their paths.

    Requires the TAKEOVER slot: after it no earlier epoch can complete. The markers of these files stay, for tasks that write even
    later (`commit.recover.sweep`).
    """
    older = _announced(session, attempt, lambda epoch: epoch < attempt.epoch)
    return remove_data_files(session, attempt, older, Reason.TAKEN_OVER)


def clear_foreign_attempts(session: Session, attempt: Attempt, found: Collection[str] = ()) -> list[str]:
    """Delete Apache Hudi's files of an instant that this attempt executes; return the paths.

    The write tokens of Apache Hudi hold a stage number, of any value, instead of the epoch. Files of a later executor are not
    deleted: files are listed first, then the log is read, and the attempt is refused if a slot gave a later executor an epoch.
    `found` are further data files of the instant, with or without a marker.

    Raises:
        Cancelled: the instant was taken over or cancelled; nothing was deleted.
    """
    announced = {marker.data_path for marker in list_markers(session.ctx.storage, attempt.instant)} | {*found}
    foreign = sorted(path for path in announced if epoch_of(path) not in {attempt.epoch, None})
    refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch)
    return remove_data_files(session, attempt, foreign, Reason.TAKEN_OVER)


def clear_foreign_delta(session: Session, attempt: Attempt) -> list[str]:
    """Remove others' metadata deltas of an instant that this attempt executes; return the paths.

    Apache Hudi commits to the metadata table first: a process that died between its two commits leaves a delta that names its data
    files and counts as soon as the instant is complete. An earlier executor may leave half a delta.

    Raises:
        Cancelled: the instant was taken over or cancelled; nothing was deleted.
    """
    if not attempt.begun.config.all_metadata_partitions:
        return []
    gone = undo_delta(
        session.ctx.storage,
        [attempt.instant],
        lambda: refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch),
    )
    if gone:
        logger.warning("removed a foreign writer's delta of %s from the metadata table: %s", attempt.instant, gone)
    return gone


def clear_own_epoch(session: Session, attempt: Attempt) -> None:
    """Delete the data files that this attempt announced; markers stay, as for earlier epochs."""
    remove_data_files(session, attempt, _announced(session, attempt, lambda epoch: epoch == attempt.epoch))


def _announced(session: Session, attempt: Attempt, has_epoch: Callable[[int], bool]) -> list[str]:
    paths = [marker.data_path for marker in list_markers(session.ctx.storage, attempt.instant)]
    return [path for path in paths if (epoch := epoch_of(path)) is not None and has_epoch(epoch)]


def remove_data_files(
    session: Session, attempt: Attempt, paths: Sequence[str], reason: Reason = Reason.LEFT_OUT
) -> list[str]:
    """Delete data files that the commit of an attempt will not name; return their paths."""
    target = Instant(attempt.instant, attempt.action, State.INFLIGHT)
    return remove(Removal(session, attempt.begun, target, reason, paths), {Part.CONTENT})


def epoch_of(path: str) -> int | None:
    """Return the epoch in a data file's write token; for a file of Apache Hudi its stage number."""
    found = _EPOCH.search(path.rpartition("/")[2])
    return int(found["epoch"]) if found is not None else None

"""Checks that refuse an attempt if the table changed since it began."""

from __future__ import annotations

from functools import partial

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import refuse_closed
from hudi_ops.concurrency.conflicts import refuse_changed_properties
from hudi_ops.concurrency.foreign.foreign_starts import refuse_starting
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.monitor import refuse_starved
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.formats.avro.schema import to_arrow
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Complete, Restore
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import schema_text


def refuse_unfit(session: Session, attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt that may not decide any more, or whose table changed.

    Raises:
        Conflict: settings or index changed, or a write it was built upon was undone.
        Busy: a foreign writer is starting with an unknown footprint, or has no heartbeat.
        Cancelled: it was cancelled, or may have been taken for dead.
    """
    refuse_closed(session.ctx.storage, attempt, state)
    refuse_restored(attempt.begun, state, attempt.instant)
    shared = partial(has_foreign_writers, session.ctx.storage, session.commits, state)
    refuse_starved(session.longest_gap_s(attempt.instant), shared, attempt.instant)
    refuse_starting(session.ctx, state, attempt.instant)
    begun = attempt.seen or attempt.begun
    session.silent.refuse(state, attempt.instant, [instant.time for instant in begun.timeline.pending])
    refuse_changed_properties(attempt.begun.config.raw, state.config.raw, attempt.instant)
    _refuse_changed_facts(attempt, state)
    _refuse_vanished(attempt, state)


def refuse_restored(begun: TableState, state: TableState, instant: str = "") -> None:
    """Refuse an attempt begun before a restore, or while one is pending (docs/protocol §23).

    Raises:
        Conflict: a restore was decided since.
        Busy: a restore is pending.
    """
    refuse_pending_restore(state, instant)
    restore = next((one for _, one in state.log.since(begun.log.head) if isinstance(one, Restore)), None)
    time = restore.instant if restore is not None else pending_restore(begun)
    if time:
        raise Conflict(
            f"the table was restored by {time} since this was begun",
            table=state.config.name,
            instant=instant,
            expected="the table as it was at the beginning",
            found=f"restore {time}",
            next_step="run the same call again: it starts from the table as it is now",
            other=time,
        )


def refuse_pending_restore(state: TableState, instant: str = "") -> None:
    """Refuse while the table is being restored.

    Raises:
        Busy: names the restore.
    """
    if time := pending_restore(state):
        raise Busy(
            f"the table is being restored by {time}",
            table=state.config.name,
            instant=instant or time,
            expected="no pending restore",
            found=f"restore {time}, pending",
            next_step="wait until it has completed; if its process died, `hudi-ops restore TABLE` finishes it",
            other=time,
        )


def pending_restore(state: TableState) -> str:
    """Return the request time of the pending restore, of any program, or an empty text."""
    return next((one.time for one in state.timeline.pending if one.action == "restore"), "")


def refuse_changed_columns(session: Session, begun: TableState, state: TableState, instant: str = "") -> None:
    """Refuse changed columns: rows were read and files were written with the columns of `begun`.

    Raises:
        Conflict: another write changed the columns.
    """
    texts = [schema_text(at.config, at.timeline, session.commits) for at in (begun, state)]
    if texts[0][0] == texts[1][0]:
        return
    before, now = (to_arrow(*text) for text in texts)
    if not now.equals(before):
        known = {field.name: field for field in before}
        changed = [field.name for field in now if field.name not in known or field != known[field.name]]
        raise Conflict(
            "the table's columns changed since the attempt began",
            table=state.config.name,
            instant=instant,
            found=", ".join(changed) or "another order, or fewer",
            next_step="run the same call again: it starts from the table as it is now",
        )


def refuse_indexing(state: TableState) -> None:
    """Refuse while Apache Hudi builds an index; its pending partition may depend on others.

    Raises:
        Busy: an index is being built.
    """
    indexing = next((instant for instant in state.timeline.pending if instant.kind == "indexing"), None)
    if indexing is not None:
        raise Busy(
            "an index of the metadata table is being built",
            table=state.config.name,
            instant=indexing.time,
            next_step="finish or drop the index with Apache Hudi, then run the same call again",
        )


def completed_write(state: TableState, instant: str) -> Instant:
    """Return the completed write of a request time.

    Raises:
        InvalidRequest: the active timeline has no such write, or an ARCHIVE passed it.
    """
    found = state.timeline.find(instant)
    if found is None or not found.is_write or not found.is_completed or instant <= state.log.boundary:
        raise InvalidRequest(
            f"{instant} is not a completed write on the active timeline",
            table=state.config.name,
            instant=instant,
            expected="the request time of a completed commit, deltacommit or replacecommit",
            found=str(found) if found is not None else "no such instant",
            next_step="copy the instant of a completed write from `hudi-ops timeline TABLE`",
        )
    return found


def was_completed(session: Session, state: TableState, instant: str) -> bool:
    """Return whether an instant off the timeline completed, by the archive or the log."""
    fate = fate_of(session.ctx.storage, state, instant)
    if fate is not None and isinstance(fate[1], Complete):
        return True
    return any(archived.time == instant for archived in load_history(session.ctx.storage, state.config).instants)


def _refuse_changed_facts(attempt: Attempt, state: TableState) -> None:
    """Refuse if the table facts in the commit log changed: they decide where rows go.

    Raises:
        Conflict: they differ from those at the beginning of the attempt.
    """
    before, now = (one.properties.facts for one in (attempt.begun.log, state.log))
    # The limits of a ring decide what the next resize plans, and of no row where it goes.
    if before.model_copy(update=now.limits) != now:
        raise Conflict(
            "the table's index changed while the attempt ran",
            table=state.config.name,
            instant=attempt.instant,
            expected=str(before),
            found=str(now),
            next_step="run the same call again: it starts from the table's new index",
        )


def _refuse_vanished(attempt: Attempt, state: TableState) -> None:
    """Refuse if a restore or rollback removed a write on which this attempt builds.

    Raises:
        Conflict: a write that had completed when the attempt began is gone, and was not archived.
    """
    for undone in Since(attempt.begun, state).undone:
        raise Conflict(
            f"this attempt was built on {undone.action} {undone.time}, which was undone while the attempt ran",
            table=state.config.name,
            instant=attempt.instant,
            next_step="run the same call again: it starts from the table as it is now",
        )

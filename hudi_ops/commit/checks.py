"""Refuse an attempt when the table is no longer the one that it was built upon."""

from __future__ import annotations

from functools import partial

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import refuse_closed
from hudi_ops.concurrency.conflicts import refuse_changed_properties
from hudi_ops.concurrency.foreign.foreign_starts import refuse_starting
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.monitor import refuse_starved
from hudi_ops.errors import Busy, Conflict
from hudi_ops.formats.avro.schema import to_arrow
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import schema_text


def refuse_unfit(session: Session, attempt: Attempt, state: TableState) -> None:
    """Check that an attempt may still decide anything, and that the table is the one that it was built upon.

    Raises:
        Conflict: settings, index or what it was built upon changed.
        Busy: somebody has begun something that cannot be told yet, or that has no heartbeat.
        Cancelled: it was cancelled, or may have been taken for dead.
    """
    refuse_closed(session.ctx.storage, attempt, state)
    shared = partial(has_foreign_writers, session.ctx.storage, session.commits, state)
    refuse_starved(session.longest_gap_s(attempt.instant), shared, attempt.instant)
    refuse_starting(session.ctx, state, attempt.instant)
    begun = attempt.seen or attempt.begun
    session.silent.refuse(state, attempt.instant, [one.time for one in begun.timeline.pending])
    refuse_changed_properties(attempt.begun.config.raw, state.config.raw, attempt.instant)
    _refuse_changed_facts(attempt, state)
    _refuse_vanished(attempt, state)


def refuse_changed_columns(session: Session, begun: TableState, state: TableState, instant: str = "") -> None:
    """Refuse when the columns changed: rows were read, and files written, in those that the table had.

    Args:
        session: the table.
        begun: the state that the work began from.
        state: the state to compare with.
        instant: the attempt's, for the error.

    Raises:
        Conflict: another write changed them since.
    """
    texts = [schema_text(one.config, one.timeline, session.commits) for one in (begun, state)]
    if texts[0][0] == texts[1][0]:
        return
    before, now = (to_arrow(*text) for text in texts)
    if not now.equals(before):
        changed = [field.name for field in now if field.name not in before.names or field != before.field(field.name)]
        raise Conflict(
            "the table's columns changed since the attempt began",
            table=state.config.name,
            instant=instant,
            found=", ".join(changed) or "another order, or fewer",
            next_step="run the same call again: it starts from the table as it is now",
        )


def refuse_indexing(state: TableState) -> None:
    """Refuse while Apache Hudi builds an index: its partition is pending, and may depend on others.

    Raises:
        Busy: an index is being built.
    """
    indexing = next((one for one in state.timeline.pending if one.kind == "indexing"), None)
    if indexing is not None:
        raise Busy(
            "an index of the metadata table is being built",
            table=state.config.name,
            instant=indexing.time,
            next_step="finish or drop the index with Apache Hudi, then run the same call again",
        )


def was_completed(session: Session, state: TableState, instant: str) -> bool:
    """Return whether an instant that is not on the timeline completed: it was archived, or the log says so."""
    fate = fate_of(session.ctx.storage, state, instant)
    if fate is not None and isinstance(fate[1], Complete):
        return True
    return any(one.time == instant for one in load_history(session.ctx.storage, state.config).instants)


def _refuse_changed_facts(attempt: Attempt, state: TableState) -> None:
    """What the commit log alone says of the table decides where rows go.

    Raises:
        Conflict: it says something else than when the attempt began.
    """
    before, now = attempt.begun.log.properties.facts, state.log.properties.facts
    if before != now:
        raise Conflict(
            "the table's index changed while the attempt ran",
            table=state.config.name,
            instant=attempt.instant,
            expected=str(before),
            found=str(now),
            next_step="run the same call again: it starts from the table's new index",
        )


def _refuse_vanished(attempt: Attempt, state: TableState) -> None:
    """A restore, or a rollback of a completed write, takes away what this attempt was built upon.

    Raises:
        Conflict: a write that had completed when the attempt began is gone, and was not archived.
    """
    for undone in Since(attempt.begun, state).undone:
        raise Conflict(
            f"{undone.action} {undone.time}, upon which this attempt was built, was undone meanwhile",
            table=state.config.name,
            instant=attempt.instant,
            next_step="run the same call again: it starts from the table as it is now",
        )

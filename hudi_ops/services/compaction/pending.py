"""Which pending compaction is to be executed, and whether somebody may be at it already."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.commit.takeover import refuse_leased
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, Cancelled, InvalidRequest, Unsupported
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Cancel, Complete
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState


def next_compaction(session: Session, state: TableState, *, abandoned: bool = False) -> Instant | None:
    """The oldest pending compaction on which nobody works; None when there is no plan.

    Args:
        session: the table's.
        state: decides what is pending.
        abandoned: executors of Apache Hudi's, which leave no heartbeat, have surely ended.

    Raises:
        Busy: there are plans, and somebody is at each of them.
        InvalidRequest: the only ones are such that Apache Hudi began, and left no heartbeat.
    """
    refused: Busy | InvalidRequest | None = None
    for one in state.timeline.pending:
        if one.action != "compaction" or session.was_cancelled(state, one.time):
            continue
        try:
            refuse_leased(session, state, read_lease(session.ctx.storage, one.time), one.time)
            if not abandoned:
                refuse_foreign_executor(session, state, one.time)
        except (Busy, InvalidRequest) as error:
            refused = refused or error
            continue
        return one
    if refused is not None:
        raise refused
    return None


def named_compaction(session: Session, state: TableState, instant: str) -> Instant:
    """The compaction of an instant, pending or completed.

    Raises:
        InvalidRequest: there is none.
        Unsupported: it is another service.
        Cancelled: it was cancelled.
    """
    found = state.timeline.find(instant)
    if found is not None and found.action == "compaction":
        return found
    if found is not None and found.is_completed and _is_compaction(session, state, found):
        return found
    if found is not None:
        raise Unsupported(
            f"{instant} is a {found.action}, not a compaction",
            table=state.config.name,
            instant=instant,
            expected="a pending compaction",
            found=str(found),
            next_step="copy the instant of a compaction from `hudi-ops timeline`",
        )
    fate = fate_of(session.ctx.storage, state, instant)
    if fate is not None and isinstance(fate[1], Cancel):
        raise Cancelled(
            f"the compaction was cancelled: {fate[1].reason}",
            table=state.config.name,
            instant=instant,
            next_step="plan anew: its log files wait for the next plan",
        )
    archived = any(one.time == instant for one in load_history(session.ctx.storage, state.config).instants)
    if archived or (fate is not None and isinstance(fate[1], Complete)):
        return Instant(instant, "compaction", State.COMPLETED)
    raise InvalidRequest(
        "no such compaction",
        table=state.config.name,
        instant=instant,
        expected="the instant of a pending compaction",
        found="nothing of that time on the timeline",
        next_step="copy an instant from `hudi-ops timeline`",
    )


def refuse_foreign_executor(session: Session, state: TableState, instant: str) -> None:
    """Refuse a plan that Apache Hudi has begun to execute: it makes no heartbeat for that, so nothing tells whether it is alive.

    Ours have a lease for as long as their inflight file is there.

    Raises:
        InvalidRequest: there is an inflight file, and no lease.
    """
    found = state.timeline.find(instant, "compaction")
    if found is None or State.INFLIGHT not in found.states or read_lease(session.ctx.storage, instant) is not None:
        return
    raise InvalidRequest(
        "Apache Hudi has begun to execute this plan, and leaves no heartbeat that tells whether it still does",
        table=state.config.name,
        instant=instant,
        expected="a plan that nobody has begun, or the word that its executor is gone",
        found="an inflight file without a heartbeat",
        next_step=f"once that program has surely ended: `hudi-ops compact TABLE --instant {instant} --abandoned` (abandoned=True)",
    )


def _is_compaction(session: Session, state: TableState, found: Instant) -> bool:
    """Whether a completed instant whose requested file is gone was a compaction."""
    metadata = session.commits.metadata(state.timeline, found) if found.kind == "commit" else None
    return metadata is not None and metadata.is_merge

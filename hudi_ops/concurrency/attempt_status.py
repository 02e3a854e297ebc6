"""May an attempt still decide? Its fate, its epoch and its files on the timeline, as one state shows them.

Every `prepare` that completes something asks here, with the state under which the next slot will be claimed: whoever gave the
attempt another fate has taken a slot, or a place on the timeline, below (docs/protocol.md §5).
"""

from __future__ import annotations

from datetime import UTC, datetime

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Cancelled, Conflict
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.log.entries import Cancel, Complete, Entry
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

_AGAIN = "run the same call again; it takes a new instant"


def refuse_closed(storage: Storage, attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt whose end was decided by anybody, with a slot or without.

    Raises:
        Cancelled: a CANCEL names it, or a TAKEOVER gave it to another process.
        Conflict: it was completed, it lies below what was archived, or it is being undone by a writer without slots.
    """
    refuse_decided(attempt, state)
    refuse_taken_over(attempt, state)
    refuse_archived(attempt, state)
    refuse_undone(storage, attempt, state)


def refuse_decided(attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt whose fate holds a slot.

    Raises:
        Cancelled: it is a CANCEL.
        Conflict: it is a COMPLETE.
    """
    fate = state.log.fate(attempt.instant)
    if fate is None:
        return
    if isinstance(fate[1], Complete):
        raise Conflict("the attempt was completed already", table=state.config.name, instant=attempt.instant)
    raise Cancelled(
        f"{attempt.action} {how_taken(*fate)}",
        table=state.config.name,
        instant=attempt.instant,
        next_step=_AGAIN,
        taken_by=fate[1].owner,
    )


def refuse_taken_over(attempt: Attempt, state: TableState) -> None:
    """Refuse a worker whose instant was given to another: epochs come from TAKEOVER slots alone, a lease is only a beat.

    Raises:
        Cancelled: a TAKEOVER of its instant has a higher epoch. The instant lives on, and so do the files of that epoch.
    """
    taken = state.log.takeover(attempt.instant)
    if taken is not None and taken[1].epoch > attempt.epoch:
        raise Cancelled(
            f"{attempt.action} {how_taken(*taken)}",
            table=state.config.name,
            instant=attempt.instant,
            expected=f"epoch {attempt.epoch}",
            found=f"epoch {taken[1].epoch}",
            next_step="leave the instant to its new owner: delete nothing of it",
            taken_over=True,
            taken_by=taken[1].owner,
        )


def how_taken(slot: int, entry: Entry) -> str:
    """What a CANCEL or a TAKEOVER did to its instant, by whom and when, in words."""
    did, why = ("cancelled", f" ({entry.reason})") if isinstance(entry, Cancel) else ("taken over", "")
    when = datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(timespec="seconds")
    return f"was {did} by {entry.owner} at {when}, in slot {slot}{why}"


def refuse_archived(attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt that an ARCHIVE has passed while it slept: its completed file would wake below the timeline's start.

    Raises:
        Conflict: its instant lies at or below the boundary.
    """
    if attempt.instant <= state.log.boundary:
        raise Conflict(
            "the table was archived past this attempt",
            table=state.config.name,
            instant=attempt.instant,
            expected=f"an instant above {state.log.boundary}",
            found=attempt.instant,
            next_step=_AGAIN,
        )


def refuse_undone(storage: Storage, attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt that a writer without slots rolls back, or has rolled back.

    Raises:
        Conflict: its inflight file is gone, a rollback names it, or its name was another's too, who has completed.
    """
    found = state.timeline.find(attempt.instant, attempt.action)
    undoing = rollback_of(storage, state.timeline, attempt.instant)
    is_taken = found is not None and found.is_completed
    if undoing is None and found is not None and State.INFLIGHT in found.states and not is_taken:
        return
    raise Conflict(
        f"somebody rolls the attempt back (rollback {undoing.time})"
        if undoing is not None
        else "a writer without the commit log took the same millisecond, and has completed it"
        if is_taken
        else "the attempt's inflight file is gone: somebody rolled it back",
        table=state.config.name,
        instant=attempt.instant,
        next_step="run the same call again; if Apache Hudi writes here too, give its writers the LAZY cleaning policy",
    )

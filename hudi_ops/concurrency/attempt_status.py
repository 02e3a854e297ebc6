"""Checks that an attempt may still decide: fate, epoch and files on the timeline.

Every `prepare` that completes an instant calls them with the state under which it claims the next slot. A process that decided
otherwise about the attempt has taken a lower slot or changed the timeline, so this state shows it (docs/protocol §5).
"""

from __future__ import annotations

from hudi_ops.clock import iso_of_ms
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Cancelled, Conflict
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.log.entries import Cancel, Complete, Entry
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

_AGAIN = (
    "run the same call again: it takes a new instant. A writer that pauses for two minutes, or whose storage does not answer for "
    "so long, is taken for dead"
)
LEAVE_IT = "leave the instant to its new owner: delete nothing of it"
"""Advice for the executor of a plan that another process has taken over."""
PLAN_AGAIN = (
    "plan again: the next plan is made from the table as it is now. `hudi-ops plans TABLE --aborted` says who cancelled "
    "this one, and why"
)
"""Advice for the executor of a plan that can never complete."""


def next_call(epoch: int) -> str:
    """Return what to do after an attempt that can never complete.

    Executors, which have an epoch, need another plan.
    """
    return PLAN_AGAIN if epoch else _AGAIN


def refuse_closed(storage: Storage, attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt that was closed, by a slot or by a foreign writer.

    Raises:
        Cancelled: a CANCEL names it, or a TAKEOVER gave it to another process.
        Conflict: it was completed, it is at or below the archive boundary, or a foreign writer rolls it back.
    """
    refuse_decided(attempt, state)
    refuse_taken_over(attempt, state)
    refuse_archived(attempt, state)
    refuse_undone(storage, attempt, state)


def refuse_decided(attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt whose fate is in a slot.

    Raises:
        Cancelled: it is a CANCEL.
        Conflict: it is a COMPLETE.
    """
    fate = state.log.fate(attempt.instant)
    if fate is None:
        return
    if isinstance(fate[1], Complete):
        raise Conflict(
            f"{attempt.action} was completed already by {fate[1].owner}, in slot {fate[0]}",
            table=state.config.name,
            instant=attempt.instant,
            expected="an instant that is not decided",
            found=f"a COMPLETE of epoch {fate[1].epoch}",
            next_step="`hudi-ops timeline TABLE` shows it",
            cause="completed",
        )
    raise Cancelled(
        f"{attempt.action} {how_taken(*fate)}",
        table=state.config.name,
        instant=attempt.instant,
        next_step=next_call(attempt.epoch),
        taken_by=fate[1].owner,
        cause=getattr(fate[1], "cause", ""),
    )


def refuse_taken_over(attempt: Attempt, state: TableState) -> None:
    """Refuse an executor whose instant was taken over: only TAKEOVER slots give epochs.

    Raises:
        Cancelled: a TAKEOVER of its instant has a higher epoch. The instant and the files of that epoch stay.
    """
    taken = state.log.takeover(attempt.instant)
    if taken is not None and taken[1].epoch > attempt.epoch:
        raise Cancelled(
            f"{attempt.action} {how_taken(*taken)}",
            table=state.config.name,
            instant=attempt.instant,
            expected=f"epoch {attempt.epoch}",
            found=f"epoch {taken[1].epoch}",
            next_step=LEAVE_IT,
            taken_over=True,
            taken_by=taken[1].owner,
        )


def how_taken(slot: int, entry: Entry) -> str:
    """Return as text what a CANCEL or TAKEOVER did to its instant, with owner and time."""
    did, why = ("cancelled", f" ({entry.reason})") if isinstance(entry, Cancel) else ("taken over", "")
    when = iso_of_ms(entry.at_ms)
    return f"was {did} by {entry.owner} at {when}, in slot {slot}{why}"


def refuse_archived(attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt below the archive boundary: its file would precede the timeline.

    Raises:
        Conflict: its instant is at or below the boundary.
    """
    if attempt.instant <= state.log.boundary:
        raise Conflict(
            "the table was archived past this attempt",
            table=state.config.name,
            instant=attempt.instant,
            expected=f"an instant above {state.log.boundary}",
            found=attempt.instant,
            next_step=next_call(attempt.epoch),
        )


def refuse_undone(storage: Storage, attempt: Attempt, state: TableState) -> None:
    """Refuse an attempt that a foreign writer rolls back, or has rolled back.

    Raises:
        Conflict: its inflight file is gone, a rollback names it, or a foreign writer completed the same instant.
    """
    found = state.timeline.find(attempt.instant, attempt.action)
    undoing = rollback_of(storage, state.timeline, attempt.instant)
    is_taken = found is not None and found.is_completed
    if undoing is None and found is not None and State.INFLIGHT in found.states and not is_taken:
        return
    raise Conflict(
        f"a foreign writer rolls the attempt back (rollback {undoing.time})"
        if undoing is not None
        else "a foreign writer took the same millisecond, and has completed it"
        if is_taken
        else "the attempt's inflight file is gone: a foreign writer rolled it back",
        table=state.config.name,
        instant=attempt.instant,
        next_step=("plan again" if attempt.epoch else "run the same call again")
        + "; if Apache Hudi writes here too, give its writers the LAZY cleaning policy",
    )

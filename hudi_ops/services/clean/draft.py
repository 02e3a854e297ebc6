"""Draft the plan of a clean, and check it under the lock (docs/protocol §20, step 4)."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.errors import Conflict
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.clean.choose import CleanChoice
from hudi_ops.services.clean.earlier import HELD_BACK_KEY, RETAIN_KEY, SAVEPOINTS_KEY, encode_held_back
from hudi_ops.services.clean.keepers import refuse_pending_clean
from hudi_ops.timeline.content.clean_bytes import encode_clean_plan
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import CleanPlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState

_AGAIN = "run the same call again: it chooses from the table as it is now"


@dataclass(frozen=True)
class CleanDraft:
    """Plan of the files that were chosen from the state `begun`."""

    session: Session
    begun: TableState
    choice: CleanChoice

    def draft(self) -> Draft:
        """Return the draft. Its footprint is empty, so it overlaps no plan and no write."""
        body = encode_clean_plan(self.session.ctx.storage, plan_of(self.begun, self.choice))
        return Draft(body, Footprint(frozenset()), self.begun, revise=self.revise, choice=self.choice)

    def revise(self, state: TableState) -> Draft:
        """Return the same draft; writes that completed since only add newer slices.

        Raises:
            Busy: another clean is pending.
            Conflict: a write was undone, another clean completed, a savepoint was made, or a write below the earliest retained
                instant completed.
        """
        refuse_pending_clean(self.session, state)
        refuse_changed(self.begun, state)
        refuse_late(self.begun, state, self.choice.earliest.instant)
        return self.draft()


def plan_of(state: TableState, choice: CleanChoice) -> CleanPlan:
    """Return the plan of a choice."""
    earliest = choice.earliest.instant
    retained = state.timeline.find(earliest) if earliest else None
    extra = {HELD_BACK_KEY: encode_held_back(choice.held_back), RETAIN_KEY: str(choice.policy.retain)}
    if choice.keepers.saved:
        extra[SAVEPOINTS_KEY] = ",".join(sorted(choice.keepers.saved))
    writes = state.timeline.completed_writes
    return CleanPlan(
        policy=choice.policy.hudi_name,
        earliest_retained=earliest,
        files=choice.files,
        extra=extra,
        earliest_action=retained.kind if retained is not None else state.config.completed_write_action,
        last_completed=writes[-1].time if writes else "",
    )


def refuse_changed(begun: TableState, state: TableState) -> None:
    """Refuse a choice when something that it depends on changed.

    Raises:
        Conflict: names what changed.
    """
    undone = Since(begun, state).undone
    cleans = [one for one in _completed_cleans(state) if one not in _completed_cleans(begun)]
    saved = [one for one in state.timeline.savepoints if one not in begun.timeline.savepoints]
    for what, found in (("was undone", undone), ("completed", cleans), ("was made", saved)):
        if found:
            one = found[0]
            raise Conflict(
                f"{one.kind} {one.time} {what} while the clean was planned",
                table=state.config.name,
                expected="the writes, cleans and savepoints from which the files were chosen",
                found=", ".join(str(each) for each in found),
                next_step=_AGAIN,
                other=one.time,
            )


def refuse_late(begun: TableState, state: TableState, earliest: str) -> None:
    """Refuse a choice when a write below the earliest retained instant completed since.

    The writer slept before it put the write on the timeline. The next clean looks only at writes requested from that instant on, or
    completed after this plan. So the slices that the late write superseded would stay for ever, and if it is a replace commit, it
    would stop archiving.

    Raises:
        Conflict: names the write.
    """
    for one in Since(begun, state).completed:
        if one.time < earliest:
            raise Conflict(
                f"{one.action} {one.time} completed while the clean was planned, below its earliest retained instant",
                table=state.config.name,
                expected=f"no such write below {earliest}",
                found=str(one),
                next_step=_AGAIN,
                other=one.time,
            )


def _completed_cleans(state: TableState) -> list[Instant]:
    return [one for one in state.timeline if one.kind == "clean" and one.is_completed]

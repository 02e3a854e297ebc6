"""Plans as decisions: publish one, and take over who works on an instant. Each takes a slot.

What a service plans is its own business; here is what every service shares. A plan's instant is taken inside its decision, above
every request and completion time known, so that no later commit can fall behind it. Who works on an instant says the newest
TAKEOVER, and gives it an epoch that nobody else has; a lease is a beat, never proof.

Source: docs/protocol.md §14.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.lease import EXPIRY_MS, Lease, read_lease, take_lease
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.errors import Busy, Cancelled, Conflict, Internal
from hudi_ops.services.session import Session
from hudi_ops.services.void import pending_inputs
from hudi_ops.timeline.entries import Cancel, Entry, Plan, Takeover
from hudi_ops.timeline.footprint import Footprint, encode_footprint, footprint_of
from hudi_ops.timeline.log_head import reaching_back
from hudi_ops.timeline.reserve import known_times, next_after
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

INSTANTS_TRIED_MAX = 1_000
_EPOCH = re.compile(r"_\d+-(?P<epoch>\d+)-\d+")


@dataclass(frozen=True)
class Draft:
    """What a service wants to plan.

    `body` is the requested file, byte for byte; `footprint` what it works on, None when that cannot be told, which overlaps
    everything; `begun` the state from which its inputs were chosen; `check` what the service itself asks of the state in which the
    plan is decided, raising `Conflict` or `Busy`.
    """

    body: bytes
    footprint: Footprint | None
    begun: TableState
    check: Callable[[TableState], None] = lambda state: None


@dataclass(frozen=True)
class Planned(Attempt):
    """A plan that is published: an attempt of which nothing but the plan exists, and its slot."""

    slot: int = -1


def publish_plan(session: Session, action: str, draft: Draft) -> Planned:
    """Decide that a plan exists, and put its requested file.

    Args:
        session: the table's.
        action: the pending word, for example `compaction`.
        draft: what is planned.

    Returns:
        The plan; nobody has a lease of its instant yet.

    Raises:
        Conflict: a write on the same groups completed since the planner chose its inputs, or a writer without slots undid the plan.
        Busy: a pending plan works on the same groups, or the lock was not to be had.
        Cancelled: storage did not say whether the plan was decided, and it was cancelled to settle that.
        OutcomeUnknown: decided or not; the next write settles it.
        Internal: no instant was free.
    """
    leases: list[str] = []
    chosen: list[TableState] = []

    def prepare(state: TableState, slot: int) -> Entry | None:
        refuse_overtaken(session, draft, state)
        refuse_overlapping_plan(session, draft, state)
        draft.check(state)
        instant = _instant(session, state, leases)
        chosen.append(state)
        return Plan(
            **session.entry(state, f"plan {instant}"),
            instant=instant,
            action=action,
            payload=session.put_payload(instant, slot, draft.body),
            footprint=encode_footprint(draft.footprint),
        )

    try:
        decided = session.decide(prepare, f"plan a {action}")
    except (Busy, Cancelled, Conflict):
        # Nothing landed, and without a lease nobody would be led to these bytes: they go while the name is still held. After any
        # other error both stay: the lease, once dead, is what leads the next writer to them.
        for instant in leases:
            session.drop_refused_payloads(instant)
            session.drop_name(instant)
        raise
    for instant in leases:
        session.drop_lost_payloads(instant, decided, alone=True)
        # The requested file holds the name from now on. Leases of tries that lost their slot hold nothing.
        session.drop_name(instant)
    if decided is None or not isinstance(decided.entry, Plan):
        raise Internal(f"no plan was decided for {action}", table=draft.begun.config.name)
    if not decided.applied:
        raise Conflict(
            "a writer without the commit log undid the plan",
            table=draft.begun.config.name,
            instant=decided.entry.instant,
            next_step="run the same call again; check the lock settings of the other writer",
        )
    logger.info("planned %s %s in slot %s", action, decided.entry.instant, decided.slot)
    return Planned(decided.entry.instant, action, chosen[-1], slot=decided.slot)


def refuse_overtaken(session: Session, draft: Draft, state: TableState) -> None:
    """Refuse a plan whose inputs are no longer all there is: what completed meanwhile would be left out of them.

    Raises:
        Conflict: a write that overlaps completed since the state from which the inputs were chosen.
    """
    before = {(one.time, one.completion_time) for one in draft.begun.timeline.completed_writes}
    for other in state.timeline.completed_writes:
        if (other.time, other.completion_time) in before:
            continue
        metadata = session.commits.metadata(state.timeline, other)
        touched = footprint_of(metadata) if metadata is not None else None
        if touched is None or draft.footprint is None or draft.footprint.overlap(touched):
            raise Conflict(
                f"{other.action} {other.time} completed while the plan was made, and touches the same",
                table=state.config.name,
                expected="no overlapping completion since the inputs were chosen",
                found=f"{other.time}, completed {other.completion_time}",
                next_step="plan anew: the inputs are chosen from the table as it is now",
                other=other.time,
            )


def refuse_overlapping_plan(session: Session, draft: Draft, state: TableState) -> None:
    """Refuse a second plan on the same groups: whichever is executed last would undo the other.

    Raises:
        Busy: a plan that nobody cancelled is pending on them, or cannot be read.
    """
    for other, inputs in pending_inputs(session.ctx, state):
        if inputs is not None and draft.footprint is not None and not draft.footprint.overlap(inputs):
            continue
        if session.was_cancelled(state, other.time):
            continue
        raise Busy(
            f"{other.action} {other.time} is planned on the same file groups",
            table=state.config.name,
            instant=other.time,
            expected="no pending plan on these file groups",
            found="a plan that cannot be read" if inputs is None else f"{len(inputs.groups)} input groups",
            next_step=f"execute or cancel the {other.action}, then plan anew",
            other=other.time,
        )


def _instant(session: Session, state: TableState, leases: list[str]) -> str:
    """An instant above every time known, whose name nobody else holds; added to `leases`.

    Raises:
        Internal: no instant was free in many tries.
    """
    times = known_times(state.timeline, state.log)
    for _ in range(INSTANTS_TRIED_MAX):
        instant = next_after(times, session.ctx.clock.now_ms(), state.config.name, state.zone)
        # An attempt may have its lease, and not be on the timeline yet.
        if instant in leases or take_lease(session.ctx, instant, "plan"):
            leases[:] = [*(one for one in leases if one != instant), instant]
            return instant
        times |= {instant}
    raise Internal(f"no free instant in {INSTANTS_TRIED_MAX} tries", table=state.config.name)


def take_over(session: Session, instant: str, action: str) -> Attempt | None:
    """Decide that this process works on a pending instant, whoever began it.

    Args:
        session: the table's.
        instant: request time of a pending instant.
        action: its pending word.

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

    Called after `take_over` only: once its TAKEOVER holds a slot nobody of an earlier epoch can complete.
    """
    deleted = []
    for marker in list_markers(session.ctx.storage, attempt.instant):
        found = _EPOCH.search(marker.data_path.rpartition("/")[2])
        if found is not None and int(found["epoch"]) < attempt.epoch:
            session.ctx.storage.delete(marker.data_path)
            deleted.append(marker.data_path)
    return deleted

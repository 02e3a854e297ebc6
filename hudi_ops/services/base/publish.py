"""Publish a plan in a slot of the commit log.

A plan's instant is taken inside its decision, above every request and completion time known, so that no later commit can fall
below it. `commit.decide.takeover` decides who executes it.

Source: docs/protocol §14.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from hudi_ops.commit.checks import refuse_pending_restore, refuse_restored
from hudi_ops.commit.decide.plan_cancels import PlanCancels
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt, take_named_lease
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.concurrency.pending import pending_inputs
from hudi_ops.concurrency.transaction import First
from hudi_ops.errors import Busy, Cancelled, Conflict, Internal
from hudi_ops.services.base.choice import Choice
from hudi_ops.timeline.cancel.policy import NEVER, CancelPolicy
from hudi_ops.timeline.content.footprint import Footprint, encode_footprint, footprint_of
from hudi_ops.timeline.log.entries import Entry, Plan
from hudi_ops.timeline.log.reserve import newest_known
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

INSTANTS_TRIED_MAX = 1_000


@dataclass(frozen=True)
class Draft:
    """A plan before it is published.

    Attributes:
        body: bytes of the requested file.
        footprint: inputs of the plan; None: unknown, which overlaps everything.
        begun: the state from which the inputs were chosen.
        revise: returns the draft for a later state, from commit metadata. With it, a completion since `begun` is no conflict. It is
            called under the lock, once for each slot tried: it lists nothing, and raises `Conflict` when others took everything.
        choice: the choice after revisions; None: the original one.
        log_files_added: number of log files that completed since `begun` and joined the plan.
        groups_dropped: number of chosen groups that others took since `begun`.
        cancel: whether a cancel may end the plan, and when it is overdue; also in the plan's extra metadata.
    """

    body: bytes
    footprint: Footprint | None
    begun: TableState
    revise: Callable[[TableState], Draft] | None = None
    choice: Choice | None = None
    log_files_added: int = 0
    groups_dropped: int = 0
    cancel: CancelPolicy = NEVER


@dataclass(frozen=True)
class Planned(Attempt):
    """A published plan: an attempt without files, its slot, and the draft that was decided."""

    slot: int = -1
    draft: Draft = field(kw_only=True)


def publish_plan(session: Session, action: str, draft: Draft) -> Planned:
    """Decide a plan, put its requested file, and return the plan without a lease.

    Raises:
        Conflict: a write on the same groups completed since the planner chose its inputs, or a foreign writer removed the plan.
        Busy: a pending plan works on the same groups, or the lock was not free in time.
        Cancelled: storage did not say whether the plan was decided, so it was cancelled.
        OutcomeUnknown: storage did not say whether the plan was decided; the next write finds out.
        Internal: no instant was free.
    """
    refuse_pending_restore(draft.begun)
    leases: list[str] = []
    chosen: list[tuple[TableState, Draft]] = []
    cancels = PlanCancels(
        session, Contender("", action, None, "service", owner=str(session.ctx.owner)), cause="priority"
    )

    def prepare(state: TableState, slot: int) -> Entry | First | None:
        refuse_restored(draft.begun, state)
        revised = draft.revise(state) if draft.revise is not None else draft
        if draft.revise is None:
            refuse_overtaken(session, draft, state)
        lower = outranked(session, state, action)
        refuse_overlapping_plan(session, revised, state, but=lower)
        mine = Contender("", action, revised.footprint, "service")
        ended = cancels.still_to_cancel(state, [plan for plan in lower.values() if mine.shared(plan)])
        if ended:
            return cancels.next_cancel(state, slot, ended)
        instant = free_instant(session, state, leases)
        chosen.append((state, revised))
        return Plan(
            **session.entry(state, f"plan {instant}"),
            instant=instant,
            action=action,
            payload=session.put_payload(instant, slot, revised.body),
            footprint=encode_footprint(revised.footprint),
            **revised.cancel.entry_fields(),
        )

    if draft.revise is not None:
        # Reads the commits that completed since, before the lock is taken.
        draft.revise(session.loader.load())
    session.memory.ended_plans = ()
    if session.conflicts.priority:
        # Reads the publishers of pending plans before the lock is taken.
        outranked(session, session.loader.load(), action, reach_back=True)
    try:
        with cancels:
            decided = session.decide(prepare, f"plan a {action}")
    except (Busy, Cancelled, Conflict):
        # Nothing was decided. The payloads are deleted while the lease holds the name: without it no later writer would find them.
        # After any other error both stay, and the dead lease leads the next writer to them.
        for instant in leases:
            session.drop_refused_payloads(instant)
            session.drop_name(instant)
        raise
    for instant in leases:
        session.drop_lost_payloads(instant, decided, alone=True)
        # From now on the requested file holds the name.
        session.drop_name(instant)
    if decided is None or not isinstance(decided.entry, Plan):
        raise Internal(f"no plan was decided for {action}", table=draft.begun.config.name)
    if not decided.applied:
        raise Conflict(
            "a foreign writer removed the plan",
            table=draft.begun.config.name,
            instant=decided.entry.instant,
            next_step="run the same call again; check the lock settings of the foreign writer",
        )
    logger.info("planned %s %s in slot %s", action, decided.entry.instant, decided.slot)
    begun, final = chosen[-1]
    return Planned(decided.entry.instant, action, begun, slot=decided.slot, draft=final)


def refuse_overtaken(session: Session, draft: Draft, state: TableState) -> None:
    """Refuse a plan if a write that completed since its inputs were chosen touched them.

    Raises:
        Conflict: such a write completed.
    """
    for other in Since(draft.begun, state).completed:
        metadata = session.commits.metadata(state.timeline, other)
        touched = footprint_of(metadata, other.time) if metadata is not None else None
        if touched is None or draft.footprint is None or draft.footprint.overlap(touched):
            raise Conflict(
                f"{other.action} {other.time} completed while the plan was made, and touches the same file groups",
                table=state.config.name,
                expected="no overlapping completion since the inputs were chosen",
                found=f"{other.time}, completed {other.completion_time}",
                next_step="plan anew: the inputs are chosen from the table as it is now",
                other=other.time,
            )


def refuse_overlapping_plan(
    session: Session, draft: Draft, state: TableState, but: Container[str] = frozenset()
) -> None:
    """Refuse a second plan on the same groups; plans in `but` are cancelled first.

    Of two such plans, the one executed last would undo the work of the first.

    Raises:
        Busy: a plan is pending on them and not cancelled, or a pending plan cannot be read.
    """
    for other, inputs in pending_inputs(session.ctx, state):
        if inputs is not None and draft.footprint is not None and not draft.footprint.overlap(inputs):
            continue
        if other.time in but or session.was_cancelled(state, other.time):
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


def free_instant(session: Session, state: TableState, leases: list[str]) -> str:
    """Return an instant above every time known, with its lease taken and added to `leases`.

    Raises:
        Internal: no instant was free in many tries.
    """
    times = newest_known(state.timeline, state.log)
    for _ in range(INSTANTS_TRIED_MAX):
        instant = session.next_time(times, state)
        # An attempt may hold the lease of a time without being on the timeline yet.
        if instant in leases or take_named_lease(session.ctx, instant, "plan"):
            leases[:] = [*(lease for lease in leases if lease != instant), instant]
            return instant
        times |= {instant}
    raise Internal(f"no free instant in {INSTANTS_TRIED_MAX} tries", table=state.config.name)


def outranked(session: Session, state: TableState, action: str, *, reach_back: bool = False) -> dict[str, Contender]:
    """Return the pending plans that a plan of `action` may cancel, by instant.

    They are cancellable, and of services with a lower priority (RFC-79). With `reach_back`, older slots are read, too, to find the
    publishers of plans. Call it so before the lock is taken; under the lock the publishers are then known. Source: docs/protocol
    §26, step 11.
    """
    settings = session.conflicts
    if not any(settings.outranks(action, plan.action) for plan in state.timeline.pending):
        return {}
    plans = session.contenders.plans(state, Contender("", action, None, "service"), reach_back=reach_back)
    return {
        plan.instant: plan
        for plan in plans
        if settings.outranks(action, plan.action) and plan.is_cancellable and not plan.is_cancelled
    }

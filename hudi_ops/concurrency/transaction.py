"""Deciding: lock, reload, finish what others decided, validate, claim the next slot, apply. The whole critical section.

Nothing in here lists partitions or reads data. The lock spares retries; the slot decides (docs/protocol.md §5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard

from hudi_ops.concurrency.lease.own_clock import refuse_ahead_at_lock
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Cancelled, Internal, OutcomeUnknown, Unavailable
from hudi_ops.storage.claim import Claimed, claim
from hudi_ops.timeline.log.commit_log import Log, slot_path
from hudi_ops.timeline.log.entries import (
    Cancel,
    Complete,
    Entry,
    Plan,
    Properties,
    Void,
    decision_id_of,
    decode_entry,
    encode_entry,
)
from hudi_ops.timeline.names import WRITE_ACTIONS, completes_as
from hudi_ops.timeline.settings.properties_file import folded_slot
from hudi_ops.timeline.state import StateLoader, TableState

logger = logging.getLogger(__name__)

SLOTS_LOST_MAX = 1_000
"""Slots that may be lost in a row before we believe that something else is wrong."""
SETTLE_TRIES = 3
"""How often an unknown outcome is tried to be settled, and a decision that was won to be applied."""

Applicable: TypeAlias = Complete | Plan | Properties
"""Entries that need something done to become visible."""


class Applier(Protocol):
    """Rolls a decided entry forward; `commit.apply.decided` is the one implementation."""

    def apply(self, state: TableState, slot: int, entry: Entry) -> bool:
        """Make the entry's effect visible, whoever decided it; idempotent.

        Returns:
            False when it turned out that it can never be applied, and was voided.
        """
        ...


@dataclass(frozen=True)
class Decided:
    """A slot that was won: its number, its entry, and whether it was applied."""

    slot: int
    entry: Entry
    applied: bool


Prepare = Callable[[TableState, int], Entry | None]
"""Validates against a state and makes the entry for the given slot; None when nothing is left to decide."""


def decide(ctx: TableContext, loader: StateLoader, applier: Applier, prepare: Prepare, purpose: str) -> Decided | None:
    """Take the next slot of the commit log for an entry, and apply it.

    Args:
        ctx: components of the table.
        loader: where the state comes from; its log only ever grows.
        applier: rolls entries forward, ours and those that others left.
        prepare: called with the state just read, again after each lost slot. It raises `Conflict` when the entry must not be
            decided any more.
        purpose: shown to those who wait for the lock.

    Returns:
        What was decided, or None when `prepare` found nothing to decide.

    Raises:
        Busy: the lock was not to be had in time, or was lost again.
        Conflict: raised by `prepare`; nothing of this decision landed.
        Cancelled: raised by `prepare`, or the outcome was unknown and a CANCEL of our own settled it; nothing landed.
        OutcomeUnknown: the slot may hold the entry or not, or holds it and could not be applied; the next write settles it.
        Unavailable: this machine's clock is far ahead of all others.
        Internal: slot after slot was taken by others, far beyond what contention explains.
    """
    loader.seed()
    with hold_lock(ctx, purpose) as held:
        refuse_ahead_at_lock(ctx)
        for _ in range(SLOTS_LOST_MAX):
            state = finish_decided(loader, applier)
            slot = state.log.head + 1
            entry = prepare(state, slot)
            if entry is None:
                return None
            if not held.still_mine():
                # Among our own writers the slot is safe without the lock; an Apache Hudi writer knows no slots.
                raise Busy(
                    f"the table lock was lost before {purpose} could be decided",
                    table=state.config.name,
                    next_step="run the same call again; if it repeats, look at the ZooKeeper session time-out",
                )
            outcome = take_slot(ctx, slot, entry)
            # The slot's bytes count, not our memory: an earlier try of this decision may be what lies there.
            won = decode_entry(outcome.body, slot_path(slot))
            loader.learn(slot, won)
            if not outcome.won:
                logger.info("slot %s was taken by another writer", slot)
                continue
            logger.info("slot %s: %s %s", slot, won.kind, getattr(won, "instant", ""))
            return Decided(slot, won, _applied(loader, applier, state, slot, won))
    raise Internal(f"{SLOTS_LOST_MAX} slots in a row were taken by others", table=ctx.storage.uri)


def take_slot(ctx: TableContext, slot: int, entry: Entry) -> Claimed:
    """Claim a slot for an entry; an outcome that stays unknown is settled by a CANCEL of its instant in the same slot.

    A put whose answer was lost may still be under way. It can land in this slot alone, so whatever holds the slot settles it: a
    CANCEL of the instant, and then nothing of it has landed nor ever will; or the entry itself.

    Raises:
        Cancelled: a CANCEL of the entry's instant holds the slot.
        OutcomeUnknown: it could not be settled within bounds, or the entry has no instant that could be cancelled.
        Unavailable: the claim was refused without effect.
    """
    try:
        return claim(ctx.storage, slot_path(slot), encode_entry(entry), entry.decision_id, decision_id_of)
    except OutcomeUnknown as unknown:
        if not is_cancellable(entry):
            raise
        outcome = _cancel_in(ctx, slot, entry)
        if outcome is None:
            raise
        if outcome.won:
            raise Cancelled(
                f"{entry.action} was cancelled by its own writer: nobody could tell whether it had been decided",
                instant=entry.instant,
                expected=f"an answer from storage for slot {slot}",
                found=unknown.what,
                next_step="run the same call again; it takes a new instant",
            ) from unknown
        return Claimed(decision_id_of(outcome.body) == entry.decision_id, outcome.body)


def is_cancellable(entry: Entry) -> TypeGuard[Complete | Plan]:
    """Whether a CANCEL may settle it: a write or a plan. A rollback that never completed would be in everybody's way for good."""
    return isinstance(entry, Plan) or (isinstance(entry, Complete) and completes_as(entry.action) in WRITE_ACTIONS)


def _cancel_in(ctx: TableContext, slot: int, entry: Complete | Plan) -> Claimed | None:
    """Who holds the slot, a CANCEL of the entry's instant or another entry; None when storage does not tell."""
    cancel = Cancel(
        table_id=entry.table_id,
        decision_id=f"cancel {entry.instant}",
        owner=entry.owner,
        at_ms=entry.at_ms,
        properties_slot=entry.properties_slot,
        archive_slot=entry.archive_slot,
        instant=entry.instant,
        reason=f"the outcome of {entry.decision_id} was unknown",
    )
    body = encode_entry(cancel)
    for _ in range(SETTLE_TRIES):
        try:
            return claim(ctx.storage, slot_path(slot), body, cancel.decision_id, decision_id_of)
        except (OutcomeUnknown, Unavailable) as error:
            logger.warning("slot %s is not settled yet: %s", slot, error)
    return None


def _applied(loader: StateLoader, applier: Applier, state: TableState, slot: int, entry: Entry) -> bool:
    """Apply what was won just now; errors promise nothing any more, since the slot is taken.

    Raises:
        OutcomeUnknown: it is decided, and storage did not let us apply it.
    """
    if not isinstance(entry, Applicable):
        return True
    problem: OutcomeUnknown | Unavailable | None = None
    for number in range(SETTLE_TRIES):
        try:
            # The log is known up to this slot, which is its newest: so far nobody else can have decided anything of it.
            now = loader.relist(state) if number == 0 else loader.reload(state)
            return applier.apply(now, slot, entry)
        except (OutcomeUnknown, Unavailable) as error:
            problem = error
            logger.warning("slot %s is decided and could not be applied: %s", slot, error)
    why, first = (problem.what, problem.next_step) if problem is not None else ("", "")
    raise OutcomeUnknown(
        f"slot {slot} was decided, and could not be applied: {why}",
        table=state.config.name,
        instant=getattr(entry, "instant", ""),
        expected="storage that takes the file that makes it visible",
        next_step=f"{first or 'delete nothing'}; the next write of anybody applies it, so do not repeat it by hand",
    ) from problem


def finish_decided(loader: StateLoader, applier: Applier) -> TableState:
    """Apply what is decided but unfinished, in slot order, and return the state after it."""
    state = loader.load()
    while (found := unfinished(state)) is not None:
        slot, entry = found
        named = getattr(entry, "instant", "")
        logger.warning("finishing slot %s: %s %s was decided and not applied", slot, entry.kind, named)
        applier.apply(state, slot, entry)
        state = loader.load()
    return state


def unfinished(state: TableState) -> tuple[int, Applicable] | None:
    """The oldest entry that was decided and cannot be seen yet, with its slot."""
    found = (_open_properties(state), _open_complete(state), _open_plan(state))
    return min((one for one in found if one is not None), key=lambda one: one[0], default=None)


def _open_complete(state: TableState) -> tuple[int, Applicable] | None:
    for slot, entry in state.log.completes():
        found = state.timeline.find(entry.instant, entry.action)
        if not (found is not None and found.is_completed) and not _has_left(state, entry.instant, found is None):
            return slot, entry
    return None


def _open_plan(state: TableState) -> tuple[int, Applicable] | None:
    """A plan that is not on the timeline, if nothing was decided after it.

    Whoever decided after it had put it there; when it is gone now, it was undone, and must not come back.
    """
    slot, entry = newest_decision(state.log)
    if not isinstance(entry, Plan) or slot in state.log.voided or state.log.fate(entry.instant) is not None:
        return None
    missing = state.timeline.find(entry.instant, entry.action) is None
    return (slot, entry) if missing and not _has_left(state, entry.instant, missing) else None


def _open_properties(state: TableState) -> tuple[int, Applicable] | None:
    """The newest PROPERTIES, when the file says that it is not folded in. A file that says nothing is left to the decider."""
    said = folded_slot(state.config.raw)
    is_open = said is not None and said < state.log.properties_slot
    return (state.log.properties_slot, state.log.properties) if is_open else None


def newest_decision(log: Log) -> tuple[int, Entry | None]:
    """The newest entry of this table that is not a VOID: all below it was finished before it was claimed (`timeline.log.head`)."""
    for slot, entry in reversed(list(log.since(log.base - 1))):
        if not isinstance(entry, Void):
            return slot, entry
    return -1, None


def _has_left(state: TableState, instant: str, missing: bool) -> bool:
    # A foreign archiver, which stops at the oldest pending instant, takes instants off the timeline without a slot.
    return instant <= state.log.boundary or (missing and instant < state.timeline.start)

"""Decide a commit log entry: the whole critical section.

Steps: lock, reload, finish earlier decisions, validate, claim the next slot, apply. It lists no partitions and reads no data. The
lock spares retries; the slot decides (docs/protocol §5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard

from hudi_ops.concurrency.attempt_status import next_call
from hudi_ops.concurrency.lease.own_clock import refuse_ahead, refuse_ahead_at_lock
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
    Restore,
    Savepoint,
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
"""Most slots lost in a row; contention does not explain more."""
SETTLE_TRIES = 3
"""Tries to settle an unknown outcome, and to apply a won decision."""

Applicable: TypeAlias = Complete | Plan | Properties | Savepoint | Restore
"""Entries that need a file to become visible."""


class Applier(Protocol):
    """Interface that makes decided entries visible; implemented by `commit.apply.decided`."""

    def apply(self, state: TableState, slot: int, entry: Entry) -> bool:
        """Make an entry of any process visible; idempotent. Return False when it was voided instead."""

    def mark(self, instant: str, slot: int) -> None:
        """Mark which slot cancelled an instant; idempotent."""


@dataclass(frozen=True)
class Decided:
    """A won slot: its number, its entry, and whether it was applied."""

    slot: int
    entry: Entry
    applied: bool


@dataclass(frozen=True)
class First:
    """An entry that must win a slot first; then the decision is prepared again.

    `before` is called under the lock before the slot is claimed; its argument is a function that returns whether the lock is still
    held. `won` is called once the entry has the slot.
    """

    entry: Cancel
    before: Callable[[Callable[[], bool]], None]
    won: Callable[[], None] | None = None


Prepare = Callable[[TableState, int], Entry | First | None]
"""Validates a state and returns the entry for the given slot, or an entry to decide `First`; None: nothing to decide."""


def decide(ctx: TableContext, loader: StateLoader, applier: Applier, prepare: Prepare, purpose: str) -> Decided | None:
    """Claim the next slot of the commit log for an entry, and apply it.

    `prepare` is called with the state just read, again after each lost slot and after each entry that it returned as `First`. It
    raises `Conflict` if the entry must not be decided any more. `purpose` is shown to processes that wait for the lock.

    Returns:
        The decision, or None when `prepare` found nothing to decide.

    Raises:
        Busy: the lock was not free in time, or was lost.
        Conflict: raised by `prepare`; nothing of this decision landed.
        Cancelled: raised by `prepare`, or a CANCEL settled an unknown outcome; nothing landed.
        OutcomeUnknown: the slot may hold the entry, or holds it and could not be applied; the next write settles that.
        Unavailable: this machine's clock is far ahead of all others.
        Internal: more slots were lost in a row than contention explains.
    """
    loader.seed()
    refuse_ahead(ctx)
    with hold_lock(ctx, purpose) as held:
        refuse_ahead_at_lock(ctx)
        for _ in range(SLOTS_LOST_MAX):
            state = finish_decided(loader, applier)
            _mark_newest(applier, state.log)
            slot = state.log.head + 1
            wanted = prepare(state, slot)
            if wanted is None:
                return None
            if isinstance(wanted, First):
                wanted.before(held.still_mine)
            entry = wanted.entry if isinstance(wanted, First) else wanted
            if not held.still_mine():
                # Between hudi_ops writers the slot is safe without the lock, but foreign writers know no slots.
                raise Busy(
                    f"the table lock was lost before {purpose} could be decided",
                    table=state.config.name,
                    next_step="run the same call again; if it repeats, look at the ZooKeeper session time-out",
                )
            outcome = _taken(ctx, slot, entry, is_first=isinstance(wanted, First))
            # The slot may hold an earlier try of this decision, so its bytes count.
            won = decode_entry(outcome.body, slot_path(slot))
            loader.learn(slot, won)
            if not outcome.won:
                logger.info("slot %s was taken by another writer", slot)
                continue
            logger.info("slot %s: %s %s", slot, won.kind, getattr(won, "instant", ""))
            if isinstance(wanted, First):
                if wanted.won is not None:
                    wanted.won()
                continue
            return Decided(slot, won, _applied(loader, applier, state, slot, won))
    raise Internal(f"{SLOTS_LOST_MAX} slots in a row were taken by others", table=ctx.storage.uri)


def _mark_newest(applier: Applier, log: Log) -> None:
    """Mark the CANCEL that is the newest decision, if it is one.

    Readers that load only the newest part of the log may miss it once entries follow it.
    """
    slot, entry = newest_decision(log)
    if isinstance(entry, Cancel):
        applier.mark(entry.instant, slot)


def _taken(ctx: TableContext, slot: int, entry: Entry, *, is_first: bool) -> Claimed:
    """Claim a slot; if a `First` entry's outcome is unknown, the decision itself is not tried.

    Raises:
        OutcomeUnknown: storage did not say whether the decision holds the slot.
        Unavailable: storage did not say whether a `First` entry holds the slot.
    """
    try:
        return take_slot(ctx, slot, entry)
    except OutcomeUnknown as unknown:
        if not is_first:
            raise
        raise Unavailable(
            f"storage did not say whether {entry.decision_id} was decided, so nothing else was",
            expected=f"an answer from storage for slot {slot}",
            found=unknown.what,
            next_step="run the same call again",
        ) from unknown


def take_slot(ctx: TableContext, slot: int, entry: Entry) -> Claimed:
    """Claim a slot for an entry; settle an unknown outcome by a CANCEL in the same slot.

    A put whose reply was lost may still land, but only in this slot. So the slot's content settles the outcome: the entry itself, a
    CANCEL of its instant, or the entry of another process. In the last two cases the entry cannot land any more.

    Raises:
        Cancelled: a CANCEL of the entry's instant holds the slot.
        OutcomeUnknown: it could not be settled in `SETTLE_TRIES`, or the entry cannot be cancelled.
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
                f"{entry.action} was cancelled by its own writer: storage did not say whether it had been decided",
                instant=entry.instant,
                expected=f"an answer from storage for slot {slot}",
                found=unknown.what,
                next_step=next_call(getattr(entry, "epoch", 0)),
            ) from unknown
        return Claimed(decision_id_of(outcome.body) == entry.decision_id, outcome.body)


def is_cancellable(entry: Entry) -> TypeGuard[Complete | Plan]:
    """Return whether a CANCEL may settle an entry: of a write or plan; a rollback must complete."""
    return isinstance(entry, Plan) or (isinstance(entry, Complete) and completes_as(entry.action) in WRITE_ACTIONS)


def _cancel_in(ctx: TableContext, slot: int, entry: Complete | Plan) -> Claimed | None:
    """Claim the slot for a CANCEL of the entry's instant; None: storage does not answer."""
    cancel = Cancel(
        **entry.model_dump(include={"table_id", "owner", "at_ms", "properties_slot", "archive_slot"}),
        decision_id=f"cancel {entry.instant}",
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
    """Apply an entry that just won its slot; no error can undo the decision any more.

    Raises:
        OutcomeUnknown: the entry is decided, but storage failed while it was applied.
    """
    if not isinstance(entry, Applicable):
        return True
    problem: OutcomeUnknown | Unavailable | None = None
    for number in range(SETTLE_TRIES):
        try:
            # This slot is the newest of the log: no other process has acted on it so far.
            # Settings do not depend on the timeline.
            read = loader.with_log if isinstance(entry, Properties) else loader.relist
            return applier.apply(read(state) if number == 0 else loader.reload(state), slot, entry)
        except (OutcomeUnknown, Unavailable) as error:
            problem = error
            logger.warning("slot %s is decided and could not be applied: %s", slot, error)
    why, first = (problem.what, problem.next_step) if problem is not None else ("", "")
    raise OutcomeUnknown(
        f"slot {slot} was decided, and could not be applied: {why}",
        table=state.config.name,
        instant=getattr(entry, "instant", ""),
        expected="storage that takes the file that makes it visible",
        next_step=f"{first or 'delete nothing'}; the next write of any process applies it, so do not repeat it by hand",
    ) from problem


def finish_decided(loader: StateLoader, applier: Applier) -> TableState:
    """Apply all decided but unfinished entries in slot order; return the state after them."""
    state = loader.load()
    while (found := unfinished(state)) is not None:
        slot, entry = found
        named = getattr(entry, "instant", "")
        logger.warning("finishing slot %s: %s %s was decided and not applied", slot, entry.kind, named)
        applier.apply(state, slot, entry)
        state = loader.load()
    return state


def unfinished(state: TableState) -> tuple[int, Applicable] | None:
    """Return the oldest decided entry that is not visible yet, with its slot."""
    found = (_open_properties(state), _open_complete(state), _open_plan(state), _open_savepoint(state))
    return min((entry for entry in found if entry is not None), key=lambda entry: entry[0], default=None)


def _open_complete(state: TableState) -> tuple[int, Applicable] | None:
    if state.log.completions <= state.timeline.done:
        return None
    for slot, entry in state.log.completes():
        found = state.timeline.find(entry.instant, entry.action)
        if not (found is not None and found.is_completed) and not _has_left(state, entry.instant, found is None):
            return slot, entry
    return None


def _open_plan(state: TableState) -> tuple[int, Applicable] | None:
    """Return a plan or restore that is not on the timeline, if nothing was decided after it.

    A later decider would have put it on the timeline first; so if it is missing, it was rolled back and must not return.
    """
    slot, entry = newest_decision(state.log)
    if not isinstance(entry, Plan | Restore) or slot in state.log.voided or state.log.fate(entry.instant) is not None:
        return None
    missing = state.timeline.find(entry.instant, entry.action) is None
    return (slot, entry) if missing and not _has_left(state, entry.instant, missing) else None


def _open_savepoint(state: TableState) -> tuple[int, Applicable] | None:
    """Return a savepoint that is not made or deleted yet, if nothing was decided after it."""
    slot, entry = newest_decision(state.log)
    if not isinstance(entry, Savepoint) or _has_left(state, entry.instant, missing=False):
        return None
    found = state.timeline.find(entry.instant, "savepoint")
    is_there = found is not None and found.completion_time == entry.completion_time
    return (slot, entry) if is_there != entry.is_made else None


def _open_properties(state: TableState) -> tuple[int, Applicable] | None:
    """Return the newest PROPERTIES entry if `hoodie.properties` names an older slot.

    If the file names no slot, None: the decider of the entry applies it.
    """
    applied = folded_slot(state.config.raw)
    is_open = applied is not None and applied < state.log.properties_slot
    return (state.log.properties_slot, state.log.properties) if is_open else None


def newest_decision(log: Log) -> tuple[int, Entry | None]:
    """Return the newest non-VOID entry; earlier ones were finished (`timeline.log.head`)."""
    for slot, entry in reversed(log.own):
        if not isinstance(entry, Void):
            return slot, entry
    return -1, None


def _has_left(state: TableState, instant: str, missing: bool) -> bool:
    # A foreign archiver removes instants from the timeline without a slot, up to the oldest pending one.
    return instant <= state.log.boundary or (missing and instant < state.timeline.start)

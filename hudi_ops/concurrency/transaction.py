"""Deciding: lock, reload, finish what others decided, validate, claim the next slot, apply. The whole critical section.

Nothing in here lists partitions or reads data. The lock spares retries; the slot decides (docs/protocol.md §5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from hudi_ops.concurrency.locks import LockProvider
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Internal
from hudi_ops.storage.claim import claim
from hudi_ops.timeline.commit_log import slot_path
from hudi_ops.timeline.entries import Complete, Entry, decision_id_of, decode_entry, encode_entry
from hudi_ops.timeline.state import StateLoader, TableState

logger = logging.getLogger(__name__)

SLOTS_LOST_MAX = 1_000
"""Slots that may be lost in a row before we believe that something else is wrong."""


class Applier(Protocol):
    """Rolls a decided entry forward; `services.apply` is the one implementation."""

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
        OutcomeUnknown: the slot may hold the entry or not; the next write settles it.
        Internal: slot after slot was taken by others, far beyond what contention explains.
    """
    loader.seed()
    locks = cast(LockProvider, ctx.locks)
    with locks.acquire(ctx.lock_timeout_s, purpose) as held:
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
            body = encode_entry(entry)
            outcome = claim(ctx.storage, slot_path(slot), body, entry.decision_id, decision_id_of)
            if not outcome.won:
                logger.info("slot %s was taken by another writer", slot)
                continue
            # The slot's bytes count, not our memory: an earlier try of this decision may be what lies there.
            won = decode_entry(outcome.body, slot_path(slot))
            logger.info("slot %s: %s %s", slot, won.kind, getattr(won, "instant", ""))
            return Decided(slot, won, applier.apply(loader.load(), slot, won))
    raise Internal(f"{SLOTS_LOST_MAX} slots in a row were taken by others", table=ctx.storage.uri)


def finish_decided(loader: StateLoader, applier: Applier) -> TableState:
    """Apply what is decided but unfinished, in slot order, and return the state after it."""
    state = loader.load()
    while (found := unfinished(state)) is not None:
        slot, entry = found
        logger.warning("finishing slot %s: %s %s was decided and not applied", slot, entry.kind, entry.instant)
        applier.apply(state, slot, entry)
        state = loader.load()
    return state


def unfinished(state: TableState) -> tuple[int, Complete] | None:
    """The oldest completion that was decided and is not on the timeline, with its slot."""
    for slot, entry in state.log.completes():
        if entry.instant <= state.log.boundary:
            continue
        found = state.timeline.find(entry.instant, entry.action)
        if found is None and entry.instant < state.timeline.start:
            continue  # a foreign archiver, which stops at the oldest pending instant, took it off the timeline
        if found is None or not found.is_completed:
            return slot, entry
    return None

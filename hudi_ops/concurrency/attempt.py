"""One try of one write: take an instant, announce it, and find out in time that it was cancelled.

The order is what keeps a crash harmless: lease, requested, inflight, and only then data. An inflight file without its requested
one makes the whole table unreadable for Apache Hudi (docs/format.md §2.3), so undoing goes the other way round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from hudi_ops.concurrency.lease import Role, drop_lease, take_lease
from hudi_ops.concurrency.strangers import alone_with_the_clock
from hudi_ops.context import TableContext
from hudi_ops.errors import Internal
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.entries import Cancel
from hudi_ops.timeline.names import inflight_name, requested_name
from hudi_ops.timeline.reserve import known_times, next_after
from hudi_ops.timeline.state import StateLoader, TableState

logger = logging.getLogger(__name__)

INSTANTS_TRIED_MAX = 1_000


@dataclass(frozen=True)
class Attempt:
    """A write under way. `begun` was read before the instant was reserved: whatever completed since must be validated.

    `epoch` is 0 for a fresh instant; higher ones come from TAKEOVER slots only. `leased_s` is the monotonic clock just before its
    lease was taken, `seen` what was read once it was on the timeline.
    """

    instant: str
    action: str
    begun: TableState
    epoch: int = 0
    leased_s: float | None = None
    seen: TableState | None = None


def reserve_instant(ctx: TableContext, state: TableState, role: Role = "write") -> str:
    """Take a unique instant by creating its lease, then look whether somebody was there before (docs/protocol.md §4).

    A deleted lease frees its name, so the name alone proves nothing: an equal or newer time on the timeline means that this one
    may have been used, and a later one is taken.

    Raises:
        Unavailable: the table's newest time lies too far ahead of this clock.
        Internal: no instant was free in many tries.
    """
    times = known_times(state.timeline, state.log)
    for _ in range(INSTANTS_TRIED_MAX):
        instant = next_after(times, ctx.clock.now_ms(), state.config.name, state.zone)
        if not take_lease(ctx, instant, role):
            times |= {instant}
            continue
        newer = {
            time for time in load_timeline(ctx.storage, state.config).known_times if len(time) == 17 and time >= instant
        }
        if not newer:
            return instant
        drop_lease(ctx, instant)
        times |= newer
    raise Internal(f"no free instant in {INSTANTS_TRIED_MAX} tries", table=state.config.name)


def begin(
    ctx: TableContext,
    loader: StateLoader,
    action: str,
    plan: bytes = b"",
    inflight_body: bytes = b"",
    wait: Callable[[TableState], bool] | None = None,
    *,
    is_locked: bool = False,
) -> Attempt:
    """Reserve an instant and put it on the timeline, requested and inflight.

    Args:
        ctx: components of the table.
        loader: where the state comes from.
        action: pending word of the action, for example `commit`.
        plan: content of the requested file; empty for ingestion.
        inflight_body: content of the inflight file: what a write is about to touch.
        wait: called before an instant is taken; True when it let time pass, and the state must be read again.
        is_locked: the caller holds the table lock.

    Returns:
        The attempt; its lease is the caller's to renew and to drop.

    Raises:
        Busy: the lock, under which instants are taken beside Apache Hudi's writers, was not to be had.
    """
    loader.seed()
    while True:
        state = loader.load()
        while wait is not None and wait(state):
            state = loader.load()
        leased_s = ctx.clock.monotonic_s()
        with nullcontext() if is_locked else alone_with_the_clock(ctx, loader.commits, state):
            instant = reserve_instant(ctx, state, "rollback" if action == "rollback" else "write")
            requested = state.timeline.path(requested_name(instant, action))
            # The instant is ours by its lease: a retried request may have put the very file that is found.
            ensure(ctx.storage, requested, plan)
        inflight = state.timeline.path(inflight_name(instant, action))
        ensure(ctx.storage, inflight, inflight_body)
        # A sleeper may have been cancelled, or archived past, before its files appeared (docs/protocol.md §4).
        after = loader.load()
        if not was_passed(after, instant):
            logger.info("begun %s %s", action, instant)
            return Attempt(instant, action, beginning_of(state, after), leased_s=leased_s, seen=after)
        ctx.storage.delete(inflight)
        ctx.storage.delete(requested)
        drop_lease(ctx, instant)


def was_passed(state: TableState, instant: str) -> bool:
    """Whether an instant was cancelled, or archived past, before its files appeared on the timeline.

    Below the timeline's start they would be taken for rows by readers that list (docs/format.md §9.1), and the start may lie far
    above the boundary.
    """
    fate = state.log.fate(instant)
    is_cancelled = isinstance(fate[1] if fate else None, Cancel)
    return is_cancelled or instant <= state.log.boundary or instant < state.timeline.start


def beginning_of(before: TableState, after: TableState) -> TableState:
    """The state that an attempt answers for: the one read before its instant was taken, never the one after.

    What completed in between may have a later instant; its base files would hide those of this attempt.
    """
    return before

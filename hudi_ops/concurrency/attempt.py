"""One try of one write: take an instant, announce it, and find out in time that it was cancelled.

The order is what keeps a crash harmless: lease, requested, inflight, and only then data. An inflight file without its requested
one makes the whole table unreadable for Apache Hudi (docs/format.md §2.3), so undoing goes the other way round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from hudi_ops.concurrency.ended import ends_if_it_fails
from hudi_ops.concurrency.foreign.foreign_writers import (
    alone_with_the_clock,
    has_foreign_writers,
    tell_lock_of_foreign_writers,
)
from hudi_ops.concurrency.lease.lease import LeaseRole, discard, drop_lease, lease_facts, take_lease
from hudi_ops.concurrency.lease.own_clock import refuse_ahead_at_lease
from hudi_ops.context import TableContext
from hudi_ops.errors import AlreadyExists, Internal, OutcomeUnknown, Unavailable
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.log.reserve import known_times, next_after, refuse_future_beside_foreign_writers
from hudi_ops.timeline.names import State, inflight_name, requested_name
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


@dataclass(frozen=True)
class Wanted:
    """What is to be put on the timeline: the pending word, the content of its requested file, and what its owner does with it.

    `beside_foreign_writers`: writers may be there that take instants without a lease and decide without a slot.
    """

    action: str
    requested: bytes
    role: LeaseRole
    beside_foreign_writers: bool


def reserve_instant(ctx: TableContext, loader: StateLoader, state: TableState, wanted: Wanted) -> str | None:
    """Take a unique instant by creating its lease, and put its requested file (docs/protocol.md §4).

    Nothing of a later time may have completed before the lease was there: who reads with a fence has been given it, and would
    not wait for this one. And a deleted lease frees its name: a requested file that is there already, of an instant that has got
    any further, means that it was used. In both cases a later one is taken.

    Args:
        ctx: components of the table.
        loader: reads the log on.
        state: read before; the instant lies above all its times.
        wanted: what is put.

    Returns:
        None when the state was one that an earlier decision had left, and is older than it looked.

    Raises:
        InvalidRequest: instants in the future were accepted, and Apache Hudi's writers may be there.
        Unavailable: the table's newest time lies too far ahead of this clock, or this clock ahead of all others.
        OutcomeUnknown: the requested file may be there or not.
        Internal: no instant was free in many tries.
    """
    times = known_times(state.timeline, state.log)
    if wanted.beside_foreign_writers and ctx.follows_future:
        refuse_future_beside_foreign_writers(times, ctx.clock.now_ms(), state.config.name, state.zone)
    for _ in range(INSTANTS_TRIED_MAX):
        instant = next_after(
            times, ctx.clock.now_ms(), state.config.name, state.zone, follows_future=ctx.follows_future
        )
        if not take_named_lease(ctx, instant, wanted.role):
            times |= {instant}
            continue
        with ends_if_it_fails(ctx, instant):
            newer = newer_decisions(loader.probe(), state, instant)
            if wanted.beside_foreign_writers:
                newer |= newer_times(ctx, state, instant)
            is_outdated = loader.has_left(state) and loader.probed_head > state.log.head
            if not newer and not is_outdated and put_requested(ctx, state, instant, wanted.action, wanted.requested):
                return instant
        # Not without a look: who took the same millisecond without leases has put its own heartbeat over ours.
        discard(ctx.storage, instant, lease_facts(ctx, wanted.role))
        if is_outdated:
            return None
        times |= newer | {instant}
    raise Internal(f"no free instant in {INSTANTS_TRIED_MAX} tries", table=state.config.name)


def take_named_lease(ctx: TableContext, instant: str, role: LeaseRole) -> bool:
    """Take the lease of an instant that this machine's clock named; False when the name is taken.

    Raises:
        Unavailable: the clock is far ahead of all others; the lease is gone again.
    """
    asked_s = ctx.clock.monotonic_s()
    if not take_lease(ctx, instant, role):
        return False
    try:
        refuse_ahead_at_lease(ctx, instant, asked_s)
    except Unavailable:
        discard(ctx.storage, instant, lease_facts(ctx, role))
        raise
    return True


def newer_decisions(log: Log, state: TableState, instant: str) -> frozenset[str]:
    """Times at or above an instant that slots name, if a state did not know all slots."""
    if log.head == state.log.head:
        return frozenset()
    return frozenset(time for time in known_times(state.timeline, log) if len(time) == 17 and time >= instant)


def newer_times(ctx: TableContext, state: TableState, instant: str) -> frozenset[str]:
    """Times on the timeline now that are not below an instant: one of them may be its own, and have been used."""
    times = load_timeline(ctx.storage, state.config).known_times
    return frozenset(time for time in times if len(time) == 17 and time >= instant)


def put_requested(ctx: TableContext, state: TableState, instant: str, action: str, body: bytes) -> bool:
    """Put an instant on the timeline; False when it was there and has got further: it had been used.

    Raises:
        OutcomeUnknown: it may be there or not.
    """
    path = state.timeline.path(requested_name(instant, action))
    try:
        ctx.storage.put_if_absent(path, body)
    except (AlreadyExists, OutcomeUnknown):
        found = load_timeline(ctx.storage, state.config).find(instant)
        if found is not None and (found.action, found.states) != (action, frozenset({State.REQUESTED})):
            return False
        # Its lease is ours: a retried request may have put the very file that is found.
        ensure(ctx.storage, path, body)
    return True


def begin(
    ctx: TableContext,
    loader: StateLoader,
    action: str,
    requested: bytes = b"",
    inflight_body: bytes = b"",
    wait: Callable[[TableState], bool] | None = None,
    *,
    is_locked: bool = False,
    start: TableState | None = None,
) -> Attempt:
    """Reserve an instant and put it on the timeline, requested and inflight.

    Args:
        ctx: components of the table.
        loader: where the state comes from.
        action: pending word of the action, for example `commit`.
        requested: content of the requested file: a service's plan; empty for ingestion.
        inflight_body: content of the inflight file: what a write is about to touch.
        wait: called before an instant is taken; True when it let time pass, and the state must be read again.
        is_locked: the caller holds the table lock.
        start: the state as it was read a moment ago; None: it is read.

    Returns:
        The attempt; its lease is the caller's to renew and to drop.

    Raises:
        Busy: the lock, under which instants are taken beside Apache Hudi's writers, was not to be had.
    """
    loader.seed()
    state = start if start is not None else loader.resume()
    while True:
        while wait is not None and wait(state):
            state = loader.load()
        leased_s = ctx.clock.monotonic_s()
        shared = has_foreign_writers(ctx.storage, loader.commits, state)
        tell_lock_of_foreign_writers(ctx, has_any=shared)
        wanted = Wanted(
            action, requested, "rollback" if action == "rollback" else "write", beside_foreign_writers=shared
        )
        with alone_with_the_clock(ctx) if shared and not is_locked else nullcontext():
            instant = reserve_instant(ctx, loader, state, wanted)
        if instant is None:
            state = loader.load()
            continue
        loader.set_out(state)
        inflight = state.timeline.path(inflight_name(instant, action))
        with ends_if_it_fails(ctx, instant):
            ensure(ctx.storage, inflight, inflight_body)
            # A sleeper may have been cancelled, or archived past, before its files appeared (docs/protocol.md §4).
            after = seen_now(loader, state, beside_foreign_writers=shared)
        if not was_passed(after, instant):
            logger.info("begun %s %s", action, instant)
            return Attempt(instant, action, beginning_of(state, after), leased_s=leased_s, seen=after)
        ctx.storage.delete(inflight)
        ctx.storage.delete(state.timeline.path(requested_name(instant, action)))
        drop_lease(ctx, instant)
        state = loader.load()


def seen_now(loader: StateLoader, state: TableState, *, beside_foreign_writers: bool) -> TableState:
    """The state once an attempt is on the timeline: the log always, the timeline where somebody else may have moved on it."""
    log = loader.probe()
    is_quiet = not beside_foreign_writers and log.head == state.log.head and not state.timeline.pending
    return TableState(state.config, log, state.timeline) if is_quiet else loader.relist(state)


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

    What completed in between may have a later instant; its base files would hide those of this attempt. A function, so that a test
    can show what happens with the other one.
    """
    return before

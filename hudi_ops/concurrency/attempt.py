"""Begin a write attempt: reserve an instant and put it on the timeline.

The order of files makes a crash harmless: first the lease, then the requested file, the inflight file, and only then data. An
inflight file without its requested file makes the table unreadable for Apache Hudi (docs/format §2.3), so files are removed in
reverse order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from hudi_ops.concurrency.ended import ends_if_it_fails
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers, tell_lock_of_foreign_writers
from hudi_ops.concurrency.lease.lease import LeaseRole, discard, drop_lease, lease_facts, take_lease
from hudi_ops.concurrency.lease.own_clock import next_instant, refuse_ahead_at_lease
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.context import TableContext
from hudi_ops.errors import AlreadyExists, Internal, OutcomeUnknown, Unavailable
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.log.entries import cancel_of
from hudi_ops.timeline.log.reserve import known_times, newest_known, refuse_future_beside_foreign_writers
from hudi_ops.timeline.names import State, inflight_name, requested_name
from hudi_ops.timeline.state import StateLoader, TableState

logger = logging.getLogger(__name__)

INSTANTS_TRIED_MAX = 1_000


@dataclass(frozen=True)
class Attempt:
    """A running write.

    `begun` is the state read before the instant was reserved: the attempt is validated against all later completions. `epoch` is 0
    for a new instant; only TAKEOVER slots give higher ones. `leased_s` is the monotonic time just before the lease was taken,
    `seen` the state read after the instant was put on the timeline, and `is_shared` whether there were foreign writers then.
    `takeover` is the TAKEOVER slot, -1 without one. It identifies the executor among all plans, as the epochs of each begin at 1.
    """

    instant: str
    action: str
    begun: TableState
    epoch: int = 0
    leased_s: float | None = None
    seen: TableState | None = None
    is_shared: bool = False
    takeover: int = -1


@dataclass(frozen=True)
class Wanted:
    """A new instant: pending word, content of its requested file, and role of its lease.

    `beside_foreign_writers`: foreign writers may take instants without a lease and decide without a slot.
    """

    action: str
    requested: bytes
    role: LeaseRole
    beside_foreign_writers: bool


def reserve_instant(ctx: TableContext, loader: StateLoader, state: TableState, wanted: Wanted) -> str | None:
    """Take a unique instant by its lease, and put its requested file (docs/protocol §4).

    The instant is above all times of `state`. A later instant is tried if a later time completed before the lease existed, since a
    fenced reader has then passed this instant, or if the instant is already on the timeline beyond requested: its lease was
    deleted, but its name was used.

    Returns None if `state` is left from an earlier decision of this process and is outdated.

    Raises:
        InvalidRequest: future instants were accepted beside foreign writers.
        Unavailable: the table's newest time is too far ahead of this clock, or this clock ahead of all others.
        OutcomeUnknown: the requested file may exist.
        Internal: no instant was free in `INSTANTS_TRIED_MAX` tries.
    """
    times = newest_known(state.timeline, state.log)
    if wanted.beside_foreign_writers and ctx.follows_future:
        refuse_future_beside_foreign_writers(times, ctx.clock.now_ms(), state.config.name, state.zone)
    for _ in range(INSTANTS_TRIED_MAX):
        instant = next_instant(ctx, times, state)
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
        # `discard` checks the owner: a foreign writer with the same instant may have replaced the lease by its heartbeat.
        discard(ctx.storage, instant, lease_facts(ctx, wanted.role))
        if is_outdated:
            return None
        times |= newer | {instant}
    raise Internal(f"no free instant in {INSTANTS_TRIED_MAX} tries", table=state.config.name)


def take_named_lease(ctx: TableContext, instant: str, role: LeaseRole) -> bool:
    """Take the lease of an instant named by this machine's clock; return False if it exists.

    Raises:
        Unavailable: the clock is far ahead of all others; the lease is removed.
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
    """Return the times at or above an instant in slots that `state` did not know."""
    if log.head == state.log.head:
        return frozenset()
    return frozenset(time for time in known_times(state.timeline, log) if len(time) == 17 and time >= instant)


def newer_times(ctx: TableContext, state: TableState, instant: str) -> frozenset[str]:
    """Return the times on the timeline at or above an instant, which may be used already."""
    times = load_timeline(ctx.storage, state.config).known_times
    return frozenset(time for time in times if len(time) == 17 and time >= instant)


def put_requested(ctx: TableContext, state: TableState, instant: str, action: str, body: bytes) -> bool:
    """Put an instant's requested file; return False if the instant exists beyond requested.

    Raises:
        OutcomeUnknown: the file may exist.
    """
    path = state.timeline.path(requested_name(instant, action))
    try:
        ctx.storage.put_if_absent(path, body)
    except (AlreadyExists, OutcomeUnknown):
        found = load_timeline(ctx.storage, state.config).find(instant)
        if found is not None and (found.action, found.states) != (action, frozenset({State.REQUESTED})):
            return False
        # The lease is ours, so a retried request of this process may have put the file.
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

    `action` is a pending word, for example `commit`; `requested` a service's plan, empty for ingestion; `inflight_body` the write's
    intent. `wait` is called before an instant is taken, and returns whether it waited, so that the state must be read again.
    `is_locked`: the caller holds the table lock. `start` is the state, if just read. The caller renews and drops the lease.

    Raises:
        Busy: beside foreign writers an instant is taken under the table lock, which was not free in time.
    """
    loader.seed()
    state = start if start is not None else loader.resume()
    while True:
        while wait is not None and wait(state):
            state = loader.load()
        leased_s = ctx.clock.monotonic_s()
        shared = has_foreign_writers(ctx.storage, loader.commits, state)
        tell_lock_of_foreign_writers(ctx, has_any=shared)
        role: LeaseRole = "rollback" if action == "rollback" else "write"
        wanted = Wanted(action, requested, role, beside_foreign_writers=shared)
        # Foreign writers take their instants by the clock alone, under the same lock.
        with hold_lock(ctx, "take an instant") if shared and not is_locked else nullcontext():
            instant = reserve_instant(ctx, loader, state, wanted)
        if instant is None:
            state = loader.load()
            continue
        loader.set_out(state)
        inflight = state.timeline.path(inflight_name(instant, action))
        with ends_if_it_fails(ctx, instant):
            ensure(ctx.storage, inflight, inflight_body)
            # A paused process may have been cancelled or archived before its files appeared (docs/protocol §4).
            after = state_after(loader, state, beside_foreign_writers=shared)
        if not was_passed(after, instant):
            logger.info("begun %s %s", action, instant)
            begun = beginning_of(state, after)
            return Attempt(instant, action, begun, leased_s=leased_s, seen=after, is_shared=shared)
        ctx.storage.delete(inflight)
        ctx.storage.delete(state.timeline.path(requested_name(instant, action)))
        drop_lease(ctx, instant)
        state = loader.load()


def state_after(loader: StateLoader, state: TableState, *, beside_foreign_writers: bool) -> TableState:
    """Return the state after an attempt's files were put; relist if others may write."""
    log = loader.probe()
    is_quiet = not beside_foreign_writers and log.head == state.log.head and not state.timeline.pending
    return TableState(state.config, log, state.timeline) if is_quiet else loader.relist(state)


def was_passed(state: TableState, instant: str) -> bool:
    """Return whether an instant was cancelled or archived before its files were put.

    Also true below the timeline's start, which may be far above the archive boundary: readers that list would show the data files
    of such an instant (docs/format §9.1).
    """
    is_cancelled = cancel_of(state.log.fate(instant)) is not None
    return is_cancelled or instant <= state.log.boundary or instant < state.timeline.start


def beginning_of(before: TableState, after: TableState) -> TableState:
    """Return the state that an attempt is validated against: the one before its instant.

    A write that completed in between may have a later instant, and its base files would hide those of this attempt. This is a
    function so that a test can replace it.
    """
    return before

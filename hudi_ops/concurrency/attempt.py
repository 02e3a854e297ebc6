"""One try of one write: take an instant, announce it, and find out in time that it was cancelled.

The order is what keeps a crash harmless: lease, requested, inflight, and only then data. An inflight file without its requested
one makes the whole table unreadable for Apache Hudi (docs/format.md §2.3), so undoing goes the other way round.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hudi_ops.concurrency.lease import Role, drop_lease, take_lease
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
    lease was taken.
    """

    instant: str
    action: str
    begun: TableState
    epoch: int = 0
    leased_s: float | None = None


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
    ctx: TableContext, loader: StateLoader, action: str, plan: bytes = b"", inflight_body: bytes = b""
) -> Attempt:
    """Reserve an instant and put it on the timeline, requested and inflight.

    Args:
        ctx: components of the table.
        loader: where the state comes from.
        action: pending word of the action, for example `commit`.
        plan: content of the requested file; empty for ingestion.
        inflight_body: content of the inflight file; empty but for overwrites.

    Returns:
        The attempt; its lease is the caller's to renew and to drop.
    """
    loader.seed()
    while True:
        state = loader.load()
        leased_s = ctx.clock.monotonic_s()
        instant = reserve_instant(ctx, state, "rollback" if action == "rollback" else "write")
        folder = state.config.timeline_folder
        requested = f"{folder}/{requested_name(instant, action)}"
        inflight = f"{folder}/{inflight_name(instant, action)}"
        for path, body in ((requested, plan), (inflight, inflight_body)):
            # The instant is ours by its lease: a retried request may have put the very file that is found.
            ensure(ctx.storage, path, body)
        # A sleeper may have been cancelled, or archived past, before its files appeared (docs/protocol.md §4).
        after = loader.load()
        fate = after.log.fate(instant)
        if not isinstance(fate[1] if fate else None, Cancel) and instant > after.log.boundary:
            logger.info("begun %s %s", action, instant)
            return Attempt(instant, action, state, leased_s=leased_s)
        ctx.storage.delete(inflight)
        ctx.storage.delete(requested)
        drop_lease(ctx, instant)

"""Check this machine's clock: commits far in the future would stop all other writers.

Only the system clock is checked, against the clocks of the lock service and the storage.
Source: docs/protocol.md §4.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hudi_ops.clock import SystemClock, ToldTime
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.context import TableContext
from hudi_ops.errors import Unavailable

logger = logging.getLogger(__name__)

AHEAD_MS_MAX = 300_000
"""How far this machine's clock may be ahead of the nearest other clock."""

_LOCK, _LEASE = "lock", "lease"


def refuse_ahead_at_lease(ctx: TableContext, instant: str, asked_s: float) -> None:
    """Check the clock that named an instant, before any file but its lease is put.

    The lease was put just after the monotonic time `asked_s`; its change time shows the storage's clock. It is read once a session,
    and again if all earlier readings contradict this machine's clock.

    Raises:
        Unavailable: the clock is ahead of every other one by more than `AHEAD_MS_MAX`; the caller drops the lease.
    """
    if not isinstance(ctx.clock, SystemClock):
        return
    _note_lock(ctx)
    if _is_confirmed(ctx):
        return
    if _LEASE in ctx.told:
        ctx.told.forget()  # the machine was suspended or its clock was set, so earlier readings no longer count
    found = ctx.storage.head(lease_path(instant))
    if found is not None:
        ctx.told.note(_LEASE, ToldTime(f"the storage {ctx.storage.uri}", found.modified_ms, asked_s))
    _judge(ctx)


def refuse_ahead_at_lock(ctx: TableContext) -> None:
    """Check the clock before a completion time is taken, if the lock service returned its time.

    Raises:
        Unavailable: the clock is ahead of every other one by more than `AHEAD_MS_MAX`.
    """
    if isinstance(ctx.clock, SystemClock) and _note_lock(ctx):
        _judge(ctx)
        _warn_disagreement(ctx)


def _note_lock(ctx: TableContext) -> bool:
    # Locks of a lock service know when they were taken by its clock; in-process locks do not.
    told: ToldTime | None = getattr(ctx.locks, "told", None)
    if told is not None:
        ctx.told.note(_LOCK, told)
    return told is not None


def _is_confirmed(ctx: TableContext) -> bool:
    ahead = ctx.told.ahead_ms(ctx.clock).values()
    return bool(ahead) and min(ahead) <= AHEAD_MS_MAX


def _judge(ctx: TableContext) -> None:
    ahead = ctx.told.ahead_ms(ctx.clock)
    if not ahead or min(ahead.values()) <= AHEAD_MS_MAX:
        return
    raise Unavailable(
        f"this machine's clock is {min(ahead.values()) / 1000:.0f} s ahead of every clock that it was compared with",
        expected=f"a clock at most {AHEAD_MS_MAX // 1000} s ahead of one of them",
        found=_told_text(ahead),
        next_step="set this machine's clock (NTP), then run the same call again; nothing was committed",
        ahead_ms=ahead,
    )


def _warn_disagreement(ctx: TableContext) -> None:
    ahead = ctx.told.ahead_ms(ctx.clock)
    if max(ahead.values()) > AHEAD_MS_MAX:
        logger.warning("other clocks disagree about this machine's clock: %s. Check them (NTP)", _told_text(ahead))


def _told_text(ahead: Mapping[str, int]) -> str:
    return "; ".join(
        f"{by} is {abs(ms) / 1000:.0f} s {'behind' if ms > 0 else 'ahead of'} it" for by, ms in ahead.items()
    )

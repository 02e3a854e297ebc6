"""Check this machine's clock: times far in the future would stop all other writers.

Only the system clock is checked, against the clocks of the lock service and the storage.
Source: docs/protocol §4.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NoReturn

from hudi_ops.clock import TOLERANCE_MS, SystemClock, ToldTime
from hudi_ops.concurrency.lease.lease import lease_path, read_lease
from hudi_ops.context import TableContext
from hudi_ops.errors import Unavailable
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.reserve import ACCEPTING, next_after
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

CLOCK_PROBE = ".hoodie/.hudi_ops_now"
"""File that is put so that its change time shows the storage's clock."""

_LOCK, _STORAGE = "lock", "storage"


def refuse_ahead_at_lease(ctx: TableContext, instant: str, asked_s: float) -> None:
    """Check the clock that named an instant, before any file but its lease is put.

    The lease was put just after the monotonic time `asked_s`; its change time shows the storage's clock. It is read once a session,
    and again if all earlier readings contradict this machine's clock.

    Raises:
        Unavailable: the clock is ahead of every other one by more than `TOLERANCE_MS`; the caller drops the lease.
    """
    if not isinstance(ctx.clock, SystemClock):
        return
    _note_lock(ctx)
    if _is_confirmed(ctx):
        return
    found = ctx.storage.head(lease_path(instant))
    _note_storage(ctx, found.modified_ms if found is not None else None, asked_s)
    _judge(ctx)


def refuse_ahead(ctx: TableContext) -> None:
    """Check the clock before a decision: by a clock that is ahead every live process looks dead.

    A file is put, to learn the storage's time, unless an earlier reading of the session confirms the clock.

    Raises:
        Unavailable: the clock is ahead of every other one by more than `TOLERANCE_MS`.
    """
    if not isinstance(ctx.clock, SystemClock):
        return
    _note_lock(ctx)
    if not _is_confirmed(ctx):
        _ask_storage(ctx)
        _judge(ctx)


def refuse_ahead_at_lock(ctx: TableContext) -> None:
    """Check the clock before a completion time is taken, if the lock service returned its time.

    Raises:
        Unavailable: the clock is ahead of every other one by more than `TOLERANCE_MS`.
    """
    if isinstance(ctx.clock, SystemClock) and _note_lock(ctx):
        _judge(ctx)
        _warn_disagreement(ctx)


def next_instant(ctx: TableContext, times: frozenset[str], state: TableState) -> str:
    """Return the first free time that is not before now and above every one of `times`.

    Raises:
        Unavailable: the table's newest time lies too far in the future. Raised by `_blame`.
    """
    now_ms = ctx.clock.now_ms()
    try:
        return next_after(times, now_ms, state.config.name, state.zone, follows_future=ctx.follows_future)
    except Unavailable as error:
        _blame(ctx, error, state)


def storage_ms(storage: Storage) -> int | None:
    """Return the storage's time in ms since 1970 UTC.

    None: another process asked at the same time, and deleted the file.
    """
    storage.put(CLOCK_PROBE, b"")
    info = storage.head(CLOCK_PROBE)
    storage.delete(CLOCK_PROBE)
    return info.modified_ms if info is not None else None


def _note_lock(ctx: TableContext) -> bool:
    # Locks of a lock service know when they were taken by its clock; in-process locks do not.
    told: ToldTime | None = getattr(ctx.locks, "told", None)
    if told is not None:
        ctx.told.note(_LOCK, told)
    return told is not None


def _ask_storage(ctx: TableContext) -> None:
    asked_s = ctx.clock.monotonic_s()
    _note_storage(ctx, storage_ms(ctx.storage), asked_s)


def _note_storage(ctx: TableContext, wall_ms: int | None, asked_s: float) -> None:
    if _STORAGE in ctx.told:
        ctx.told.forget()  # the machine was suspended or its clock was set, so earlier readings no longer count
    if wall_ms is not None:
        ctx.told.note(_STORAGE, ToldTime(f"the storage {ctx.storage.uri}", wall_ms, asked_s))


def _is_confirmed(ctx: TableContext) -> bool:
    ahead = ctx.told.ahead_ms(ctx.clock).values()
    return bool(ahead) and min(ahead) <= TOLERANCE_MS


def _judge(ctx: TableContext) -> None:
    ahead = ctx.told.ahead_ms(ctx.clock)
    if not ahead or min(ahead.values()) <= TOLERANCE_MS:
        return
    raise Unavailable(
        f"this machine's clock is {min(ahead.values()) / 1000:.0f} s ahead of every clock that it was compared with",
        expected=f"a clock at most {TOLERANCE_MS // 1000} s ahead of one of them",
        found=_told_text(ahead),
        next_step="set this machine's clock (NTP), then run the same call again; nothing was committed",
        ahead_ms=ahead,
    )


def _blame(ctx: TableContext, error: Unavailable, state: TableState) -> NoReturn:
    """Refuse to follow an instant in the future, with the machine whose clock is wrong.

    Raises:
        Unavailable: the given error, if this machine's clock is behind all others or no other is known; else names the writer.
    """
    if isinstance(ctx.clock, SystemClock) and _STORAGE not in ctx.told:
        _ask_storage(ctx)
    ahead = ctx.told.ahead_ms(ctx.clock) if isinstance(ctx.clock, SystemClock) else {}
    if not ahead or max(ahead.values()) < -TOLERANCE_MS:
        error.found += f"; {_told_text(ahead)}" if ahead else ""
        raise error
    writer = _writer_of(ctx, error.instant, state)
    seconds = error.details["behind_ms"] / 1000
    raise Unavailable(
        f"the table's newest instant lies {seconds:.0f} s in the future: the clock of {writer or 'its writer'} was ahead",
        table=error.table,
        instant=error.instant,
        expected="an instant of the past; this machine's clock is right",
        found=f"{error.found}; {_told_text(ahead)}",
        next_step=f"set the clock of {f'the machine of {writer}' if writer else 'the machine that wrote it'} (NTP), and wait "
        f"{seconds:.0f} s; {ACCEPTING}",
        writer=writer,
        **error.details,
    ) from None


def _writer_of(ctx: TableContext, time: str, state: TableState) -> str:
    """Return the process that took this time, by its slot or lease; empty if unknown."""
    named = next((one.time for one in state.timeline if time in {one.time, one.completion_time}), time)
    fate, lease = fate_of(ctx.storage, state, named), read_lease(ctx.storage, named)
    if fate is not None:
        return fate[1].owner
    if lease is not None:
        return str(lease.owner or "")
    return ""


def _warn_disagreement(ctx: TableContext) -> None:
    ahead = ctx.told.ahead_ms(ctx.clock)
    if max(ahead.values()) > TOLERANCE_MS:
        logger.warning("other clocks disagree about this machine's clock: %s. Check them (NTP)", _told_text(ahead))


def _told_text(ahead: Mapping[str, int]) -> str:
    return "; ".join(
        f"{by} is {abs(ms) / 1000:.0f} s {'behind' if ms > 0 else 'ahead of'} it" for by, ms in ahead.items()
    )

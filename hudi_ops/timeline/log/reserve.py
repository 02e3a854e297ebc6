"""Choice of unique instants and rising completion times: pure functions over lists."""

from __future__ import annotations

from hudi_ops.clock import TOLERANCE_MS
from hudi_ops.errors import InvalidRequest, Unavailable
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.names import ahead_ms, instant_of_ms, ms_of_instant, newest_of

CLOCK_AHEAD_MS_MAX = 2 * TOLERANCE_MS
"""Longest time in ms by which the table's newest time may be ahead of this clock; beyond it, decisions are refused."""
ACCEPTING = (
    "where no writer of Apache Hudi shares the table, --accept-future-instants goes on behind it, and so does "
    "accept_future_instants: true under `conflicts` of the table in tables.yaml (in Python, of ConflictSettings)"
)
"""Advice for a table whose newest instant lies in the future."""


def known_times(timeline: Timeline, log: Log | None) -> frozenset[str]:
    """Return every request and completion time of the timeline and the loaded part of the log."""
    return timeline.known_times | (log.times if log is not None else frozenset())


def newest_known(timeline: Timeline, log: Log | None) -> frozenset[str]:
    """Return the newest of `known_times`, as a set with one time; empty for an empty table."""
    newest = max(timeline.newest_time, log.newest_time if log is not None else "")
    return frozenset({newest} if newest else ())


def next_after(times: frozenset[str], now_ms: int, table: str, zone: str, *, follows_future: bool = False) -> str:
    """Return the first time that is not before now and above every one of `times`.

    If the clock was set back, times rise by single milliseconds until the clock has caught up. `follows_future`: accept a newest
    time in the future.

    Raises:
        Unavailable: the table's newest time is more than a minute ahead of this clock: this clock, or that of the writer, is wrong,
            and times taken now would move the table further ahead.
    """
    newest = newest_of(times)
    now = instant_of_ms(now_ms, zone)
    if newest < now:
        return now
    behind_ms = ahead_ms(newest, now_ms, zone)
    if behind_ms > CLOCK_AHEAD_MS_MAX and not follows_future:
        raise Unavailable(
            f"this machine's clock is {behind_ms / 1000:.0f} s behind the table's newest instant",
            table=table,
            instant=newest,
            expected=f"a clock at or after {newest}",
            found=f"{now}, in zone {zone}",
            next_step="set this machine's clock (NTP), or wait until it has passed that instant; where the clock of a writer was "
            f"wrong: {ACCEPTING}",
            setting="conflicts.accept_future_instants",
            behind_ms=behind_ms,
        )
    return instant_of_ms(ms_of_instant(newest) + 1)


def refuse_future_beside_foreign_writers(times: frozenset[str], now_ms: int, table: str, zone: str) -> None:
    """Refuse to follow an instant in the future on a table with foreign writers.

    Apache Hudi's writers take the present time, which would be below our instant.

    Raises:
        InvalidRequest: the newest time lies more than a minute ahead of this clock.
    """
    newest = newest_of(times)
    if newest and ahead_ms(newest, now_ms, zone) > CLOCK_AHEAD_MS_MAX:
        raise InvalidRequest(
            "instants in the future are not followed on a table with foreign writers",
            table=table,
            instant=newest,
            expected="a table that only hudi-ops writes",
            found="a table that was adopted, or that a foreign writer writes",
            next_step="leave --accept-future-instants out, and accept_future_instants out of `conflicts` of the table in "
            "tables.yaml; wait until the clocks have passed that instant",
            setting="conflicts.accept_future_instants",
        )


def free_at_or_below(time: str, taken: frozenset[str]) -> str:
    """Return the first time from `time` downwards that is not among `taken`.

    No process that knows `time` will take the returned time later, since times rise.
    """
    while time in taken:
        time = instant_of_ms(ms_of_instant(time) - 1)
    return time

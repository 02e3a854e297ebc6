"""Time as a component that simulations replace: wall time, monotonic time and sleep."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

DURATION_MAX_S = 10 * 365 * 86_400
"""Ten years: longest duration that an option, a request or a setting takes. A longer one is a typing error."""

TOLERANCE_MS = 30_000
"""How far a machine's clock may be ahead of the nearest other clock.

Every other limit of time is larger, so that two machines within the tolerance never refuse each other or take each other for dead.
"""

FIRST_MS, LAST_MS = -62_135_510_400_000, 253_402_214_399_999
"""0001-01-02 and 9999-12-30 UTC, in ms since 1970: every time zone can represent the times between them."""


def bounded_ms(ms: int) -> int:
    """Return the nearest time that a calendar can represent in every time zone."""
    return min(max(ms, FIRST_MS), LAST_MS)


def iso_of_ms(ms: int) -> str:
    """Return a time as ISO text in UTC, to the second."""
    return datetime.fromtimestamp(bounded_ms(ms) / 1000, UTC).isoformat(timespec="seconds")


class Clock(Protocol):
    """Time for protocols."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970-01-01 UTC; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never run backwards; for waits and durations only."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class ToldTime(NamedTuple):
    """Wall time that another machine reported.

    Attributes:
        by: the machine, for people.
        wall_ms: the time, in ms since 1970 UTC.
        asked_s: our monotonic clock just before the machine answered.
    """

    by: str
    wall_ms: int
    asked_s: float


class ToldTimes:
    """Newest time that each other machine reported, continued by the monotonic clock."""

    def __init__(self) -> None:
        self._told: dict[str, ToldTime] = {}

    def note(self, key: str, told: ToldTime) -> None:
        """Replace the time that is kept under `key`."""
        self._told[key] = told

    def forget(self) -> None:
        """Drop all times: the monotonic clock stands still while a machine sleeps."""
        self._told.clear()

    def __contains__(self, key: str) -> bool:
        return key in self._told

    def ahead_ms(self, clock: Clock) -> dict[str, int]:
        """Return how far a clock is ahead of each machine's time; negative where it is behind."""
        now_ms, now_s = clock.now_ms(), clock.monotonic_s()
        return {one.by: round(now_ms - one.wall_ms - (now_s - one.asked_s) * 1000) for one in list(self._told.values())}

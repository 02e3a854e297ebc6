"""Time as a component: wall time, monotonic time and sleep, so that simulations can stand in for all three."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What protocols may know of time."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970-01-01 UTC; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never run backwards; for waits and durations only."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep_s(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

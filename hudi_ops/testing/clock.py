"""Clock that tests move by hand, so that they wait for nothing and repeat exactly."""

from __future__ import annotations

import threading


class ManualClock:
    """Wall time that a test sets; a sleep advances it.

    Args:
        start_ms: the first wall time, in ms since 1970 UTC.
        tick_ms: how far each look at the wall time moves it; 0 makes equal times, a fault worth testing.
    """

    def __init__(self, start_ms: int, tick_ms: int = 0) -> None:
        self._wall_ms = start_ms
        self._tick_ms = tick_ms
        self._elapsed_ms = 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Wall time; moves on by the tick afterwards."""
        with self._lock:
            now_ms = self._wall_ms
            self._move(self._tick_ms)
            return now_ms

    @property
    def state(self) -> tuple[int, int, int]:
        """Return wall time, elapsed time and tick, in ms, without a move of the clock."""
        with self._lock:
            return self._wall_ms, self._elapsed_ms, self._tick_ms

    def monotonic_s(self) -> float:
        """Seconds since the clock was made, jumps not counted."""
        with self._lock:
            return self._elapsed_ms / 1000

    def sleep_s(self, seconds: float) -> None:
        """Advance by that long, at once."""
        self.advance_ms(round(seconds * 1000))

    def advance_ms(self, elapsed_ms: int) -> None:
        """Let time pass."""
        with self._lock:
            self._move(elapsed_ms)

    def jump_ms(self, by_ms: int) -> None:
        """Set the wall clock forward or back, as NTP does; monotonic time stays."""
        with self._lock:
            self._wall_ms += by_ms

    def _move(self, elapsed_ms: int) -> None:
        self._wall_ms += elapsed_ms
        self._elapsed_ms += elapsed_ms

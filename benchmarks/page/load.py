"""Send requests at a steady rate, also to a slow server, and measure their latencies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

CONNECTIONS = 32


@dataclass(frozen=True)
class Latencies:
    """Milliseconds of requests, from the time at which each was due."""

    ms: tuple[float, ...]

    def percentile(self, percent: float) -> float:
        """Return a percentile: the smallest value that this percentage of the values does not exceed."""
        return sorted(self.ms)[max(0, math.ceil(len(self.ms) * percent / 100) - 1)]


def at_rate(call: Callable[[int], int], per_s: float, seconds: float, until: Event | None = None) -> Latencies:
    """Make requests at a rate; a late answer delays no other request, and counts from the time at which its request was due.

    Args:
        call: makes the request of a number; returns its status.
        per_s: requests a second.
        seconds: how long, at most.
        until: ends it earlier.

    Raises:
        RuntimeError: a request was refused.
    """

    def timed(number: int, due: float) -> float:
        if (status := call(number)) >= 300:
            raise RuntimeError(f"a request ended with {status}")
        return (time.monotonic() - due) * 1000

    answers: list[Future[float]] = []
    begun = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for number in range(int(per_s * seconds)):
            due = begun + number / per_s
            time.sleep(max(0.0, due - time.monotonic()))
            if until is not None and until.is_set():
                break
            answers.append(pool.submit(timed, number, due))
        return Latencies(tuple(answer.result() for answer in answers))

"""Beats from threads of this process: for storage that no other process can open, and where none can be started."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hudi_ops.clock import SystemClock

logger = logging.getLogger(__name__)

FAREWELL_S = 2.0
"""How long a beat that hangs may keep the end of the work."""
HANGING_MAX = 4
"""Beats of one lease that may hang at a time: each is a thread, and after four the lease is dead in any case."""


class ThreadBeats:
    """Each beat has a thread of its own, so that one which hangs stops neither the next ones nor the end of the work."""

    @contextmanager
    def every(self, interval_s: float, beat: Callable[[], None], *, first_s: float | None = None) -> Iterator[None]:
        """Call `beat` each `interval_s` seconds; its errors are the beat's own business and must be handled there.

        Args:
            interval_s: from one beat to the next.
            beat: what to call.
            first_s: when the first one is due; None: after an interval.
        """
        stop = threading.Event()
        under_way: list[threading.Thread] = []

        def run() -> None:
            pause_s = interval_s if first_s is None else first_s
            while not stop.wait(pause_s):
                pause_s = interval_s
                under_way[:] = [thread for thread in under_way if thread.is_alive()]
                if len(under_way) < HANGING_MAX:
                    under_way.append(_started(beat, "hudi-ops-beat"))

        timer = _started(run, "hudi-ops-lease")
        try:
            yield
        finally:
            stop.set()
            timer.join()
            _wait_for(under_way)


def _started(run: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _wait_for(threads: list[threading.Thread]) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + FAREWELL_S
    for thread in threads:
        thread.join(max(0.0, deadline_s - clock.monotonic_s()))
    if any(thread.is_alive() for thread in threads):
        logger.warning("a beat still hangs after its work has ended; should it land, it undoes itself")

"""Renew leases from threads if no heartbeat process can be started or open the storage."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease.heartbeat_process import HANGING_MAX

logger = logging.getLogger(__name__)

FAREWELL_S = 2.0
"""Longest time for which a hung heartbeat delays the end of the work, in seconds."""


class ThreadBeats:
    """Heartbeats with a thread each, so that a hung one does not delay the next."""

    @contextmanager
    def every(self, interval_s: float, beat: Callable[[], None], *, first_s: float | None = None) -> Iterator[None]:
        """Call `beat`, which handles its errors, each `interval_s` seconds, first after `first_s`.

        If no thread can be started, the work continues without heartbeats: its end judges the gap.
        """
        stop = threading.Event()
        under_way: list[threading.Thread] = []

        def run() -> None:
            pause_s = interval_s if first_s is None else first_s
            while not stop.wait(pause_s):
                pause_s = interval_s
                under_way[:] = [thread for thread in under_way if thread.is_alive()]
                if len(under_way) < HANGING_MAX and (thread := _started(beat, "hudi-ops-beat")) is not None:
                    under_way.append(thread)

        timer = _started(run, "hudi-ops-lease")
        try:
            yield
        finally:
            stop.set()
            if timer is not None:
                timer.join()
            _wait_for(under_way)


def _started(run: Callable[[], None], name: str) -> threading.Thread | None:
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        logger.warning("no thread can renew leases: %s", error)
        return None
    return thread


def _wait_for(threads: list[threading.Thread]) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + FAREWELL_S
    for thread in threads:
        thread.join(max(0.0, deadline_s - clock.monotonic_s()))
    if any(thread.is_alive() for thread in threads):
        logger.warning("a heartbeat still hangs after its work has ended; should it land, it undoes itself")

"""Progress of long work: how much of a known total is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

from hudi_ops.clock import Clock, SystemClock

LINE_EVERY_S = 10.0
"""Interval in seconds of the lines that a log gets of long work."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of long work: units of `what`, and bytes where they are known.

    `note` says what the work waits for, or how fast it is.
    """

    what: str
    done: int
    total: int
    bytes_done: int = 0
    bytes_in: int = 0
    note: str = ""


TellProgress: TypeAlias = Callable[[Progress], None]
"""Called after each unit, by any thread, one call at a time."""


class Tally:
    """Counter of one kind of work, for any thread; it reports the progress after each `add`."""

    def __init__(self, tell: TellProgress, what: str, total: int, bytes_in: int = 0) -> None:
        self._tell, self._what, self._total, self._bytes_in = tell, what, total, bytes_in
        self._lock = threading.Lock()
        self._done = self._bytes_done = 0

    def add(self, size_bytes: int = 0, units: int = 1) -> None:
        """Count units that have `size_bytes` together."""
        with self._lock:
            self._done += units
            self._bytes_done += size_bytes
            self._tell(Progress(self._what, self._done, self._total, self._bytes_done, self._bytes_in))


class ProgressLines:
    """Lines about long work for a log: what is done, of how much, and the time left.

    A thread says one every ten seconds while the context lasts, so that one long step is not silent.

    Args:
        what: the work, for the beginning of each line.
        say: takes a line.
        clock: measures the time.
        every_s: interval of the lines.
    """

    def __init__(
        self, what: str, say: Callable[[str], None], clock: Clock | None = None, every_s: float = LINE_EVERY_S
    ) -> None:
        self._what, self._say, self._clock, self._every_s = what, say, clock or SystemClock(), every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hudi-ops-progress", daemon=True)
        self._started_s = self._begun_s = self._told_s = self._clock.monotonic_s()
        self._newest: Progress | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def tell(self, progress: Progress) -> None:
        """Take the progress for the next line."""
        if self._newest is None or self._newest.what != progress.what:
            self._begun_s = self._told_s  # this kind of work began when the one before it was last told of
        self._newest, self._told_s = progress, self._clock.monotonic_s()

    def line(self) -> str:
        """Return the line of this moment."""
        now_s, one = self._clock.monotonic_s(), self._newest
        parts = [f"{now_s - self._started_s:.0f} s so far"]
        if one is not None:
            done, total = (one.bytes_done, one.bytes_in) if one.bytes_in else (one.done, one.total)
            of_bytes = f" ({one.bytes_done:,} of {one.bytes_in:,} bytes)" if one.bytes_in else ""
            parts.insert(0, f"{one.what} {one.done:,} of {one.total:,}{of_bytes}")
            if 0 < done < total:
                parts.append(f"about {(now_s - self._begun_s) * (total - done) / done:.0f} s left")
            parts += [one.note] if one.note else []
        return f"{self._what}: {', '.join(parts)}"

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self._say(self.line())

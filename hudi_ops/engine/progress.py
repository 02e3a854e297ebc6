"""Progress of long work: how much of a known total is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


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

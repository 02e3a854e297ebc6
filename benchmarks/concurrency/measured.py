"""The lock and the storage of one writer, measured from outside: how long the lock is waited for and held, and what is called.

Both pass everything on. The time under the lock ends when its release has returned: until then nobody else can have it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.storage_calls import CountingStorage

# What a path is, by the first pattern that fits.
_KINDS = (
    ("hoodie.properties", r"^\.hoodie/hoodie\.properties"),
    ("payload", r"^\.hoodie/\.commit_log/payload"),
    ("slot", r"^\.hoodie/\.commit_log/"),
    ("lease", r"^\.hoodie/\.heartbeat"),
    ("marker", r"^\.hoodie/\.temp"),
    ("halves of puts", r"^\d+$"),  # sweep_temp is given no path but an age
    ("ledger", r"^\.hoodie/\.ingest"),
    ("timeline folder", r"^\.hoodie/timeline/?$"),
    ("requested", r"\.requested$"),
    ("inflight", r"inflight$"),
    ("completed", r"^\.hoodie/timeline/"),
    ("partition metadata", r"\.hoodie_partition_metadata$"),
    ("data file", r"\.parquet$"),
    ("partition", r"^[^.]"),
)


def kind_of(path: str) -> str:
    """What lies under a path.

    >>> kind_of(".hoodie/.commit_log/00000000/000000000007.json")
    'slot'
    """
    return next((kind for kind, pattern in _KINDS if re.search(pattern, path)), path or "table")


@dataclass
class MeasuredLock:
    """A `LockProvider` around another one; `storage` learns which of its calls were made under the lock."""

    inner: Any
    storage: CountingStorage | None = None
    waited_s: list[float] = field(default_factory=list)
    held_s: list[float] = field(default_factory=list)
    purposes: list[str] = field(default_factory=list)
    under: Counter[tuple[str, str]] = field(default_factory=Counter)

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[Any]:
        """As the lock inside does."""
        asked_s = time.perf_counter()
        got_s = asked_s
        try:
            with self.inner.acquire(timeout_s, purpose) as held:
                got_s = time.perf_counter()
                before = len(self.storage.paths) if self.storage is not None else 0
                try:
                    yield held
                finally:
                    if self.storage is not None:
                        self.under.update((name, kind_of(path)) for name, path in self.storage.paths[before:])
        finally:
            if got_s != asked_s:
                self.waited_s.append(got_s - asked_s)
                self.held_s.append(time.perf_counter() - got_s)
                self.purposes.append(purpose.split(" ")[0])

    @property
    def address(self) -> str:
        """As the lock inside says."""
        return str(self.inner.address)

    def holder(self) -> Any:
        """As the lock inside does."""
        return self.inner.holder()

    def clear(self) -> None:
        """Forget what was measured."""
        for taken in (self.waited_s, self.held_s, self.purposes, self.under):
            taken.clear()

"""A lock that records the storage calls under it, and calls back before and after each holding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.storage_calls import CountingStorage

ANNOUNCES = "announce new partitions"
"""How the purpose of the decision begins that announces partitions."""
Heard = Callable[[str], None]


def nothing(purpose: str) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Section:
    """One holding of the lock: its purpose, and the storage calls under it, in order."""

    purpose: str
    calls: tuple[tuple[str, str], ...]

    @property
    def by_name(self) -> Counter[str]:
        """How often each call was made."""
        return Counter(name for name, _ in self.calls)


@dataclass
class WatchedLock:
    """A `LockProvider` around another one.

    Attributes:
        inner: the lock that is held.
        storage: counts the calls under the lock; None: calls are not counted.
        before: called with the purpose before the lock is asked for.
        after: called with the purpose when it was given back.
        sections: all holdings so far.
    """

    inner: Any
    storage: CountingStorage | None = None
    before: Heard = nothing
    after: Heard = nothing
    sections: list[Section] = field(default_factory=list)

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[Any]:
        """As the lock inside does."""
        self.before(purpose)
        with self.inner.acquire(timeout_s, purpose) as held:
            first = len(self.storage.paths) if self.storage is not None else 0
            try:
                yield held
            finally:
                if self.storage is not None:
                    self.sections.append(Section(purpose, tuple(self.storage.paths[first:])))
        self.after(purpose)

    @property
    def address(self) -> str:
        """As the lock inside says."""
        return str(self.inner.address)

    def holder(self) -> Any:
        """As the lock inside does."""
        return self.inner.holder()

"""World that simulated actors share: storage, table lock, time, and a digest of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from hudi_ops.concurrency.lock.locks import LockHolder
from hudi_ops.storage.memory import MemoryStorage


def fold(seen: bytes, *more: str | bytes) -> bytes:
    """Extend a digest by a value."""
    digest = blake2b(seen, digest_size=16)
    for one in more:
        digest.update(one.encode() if isinstance(one, str) else one)
        digest.update(b"\0")
    return digest.digest()


class WorldClock:
    """The world's true time, which gives files their change times; only calls move it."""

    def __init__(self, start_ms: int) -> None:
        self.wall_ms = start_ms
        self._start_ms = start_ms

    def now_ms(self) -> int:
        """Wall time in ms since 1970 UTC."""
        return self.wall_ms

    def monotonic_s(self) -> float:
        """Seconds since the simulation began."""
        return (self.wall_ms - self._start_ms) / 1000

    def sleep_s(self, seconds: float) -> None:
        """Let time pass."""
        self.wall_ms += round(seconds * 1000)


@dataclass
class Acquisition:
    """One acquisition of the lock; `is_noticed`: it was lost, and `still_mine` says so."""

    actor: str
    token: int
    holder: LockHolder
    is_noticed: bool = False


@dataclass
class SharedLock:
    """The one table lock, which is fair; the simulation can take it away."""

    held: Acquisition | None = None
    waiting: deque[str] = field(default_factory=deque)
    acquisitions: int = 0

    def can_enter(self, actor: str) -> bool:
        """Return whether an actor can take the lock now; waiting actors come first, in order."""
        return self.held is None and (not self.waiting or self.waiting[0] == actor)

    def enter(self, actor: str, holder: LockHolder) -> Acquisition:
        """Take the lock; `can_enter` must be true."""
        self.leave_queue(actor)
        self.acquisitions += 1
        self.held = Acquisition(actor, self.acquisitions, holder)
        return self.held

    def leave_queue(self, actor: str) -> None:
        """Remove an actor from the queue."""
        if actor in self.waiting:
            self.waiting.remove(actor)

    def free(self, held: Acquisition) -> None:
        """Free the lock, if this acquisition still holds it."""
        if self.held is held:
            self.held = None

    def drop(self, actor: str) -> None:
        """End the session of a dead process: free its lock, and its place in the queue."""
        self.leave_queue(actor)
        if self.held is not None and self.held.actor == actor:
            self.held = None

    def state(self) -> tuple[object, ...]:
        """Return everything that later acquisitions depend on."""
        return (None if self.held is None else (self.held.actor, self.held.token), *self.waiting, self.acquisitions)


class World:
    """Storage, lock and clock that all actors of one simulation share.

    Args:
        storage: the state to start from; it is copied.
        start_ms: the time to start at, in ms since 1970 UTC.
    """

    def __init__(self, storage: MemoryStorage, start_ms: int) -> None:
        self.clock = WorldClock(start_ms)
        self.storage = storage.copy(self.clock)
        self.lock = SharedLock()
        self._files: dict[str, tuple[bytes, int]] = {}
        self._digest = 0
        for info in self.storage.list():
            self.changed(info.path)

    def changed(self, path: str) -> None:
        """Update the digest after a file was put or deleted."""
        old = self._files.pop(path, None)
        if old is not None:
            self._digest ^= old[1]
        info = self.storage.head(path)
        if info is not None:
            body = blake2b(self.storage.get(path), digest_size=16).digest()
            entry = int.from_bytes(fold(body, path, str(info.modified_ms)), "big")
            self._files[path] = (body, entry)
            self._digest ^= entry

    def body_digest(self, path: str) -> bytes:
        """Digest of a file's bytes; empty when there is none."""
        found = self._files.get(path)
        return b"" if found is None else found[0]

    @property
    def storage_digest(self) -> int:
        """Digest of every path with its bytes and its change time."""
        return self._digest


@dataclass
class LateEffect:
    """Change that has not landed yet, and that its caller takes for failed."""

    name: str
    path: str
    effect: Callable[[], object]

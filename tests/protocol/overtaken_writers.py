"""A writer that is overtaken, or dies, before one of its operations, beside a consumer of changes that looks then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from tests.tables import NOW_MS, rows, table_of

EVEN = {f"k{i}": 100 + i for i in (0, 2, 4, 6)}
ODD = {f"k{i}": 200 + i for i in (1, 3, 5, 7)}
WORKING = "put:part="
"""The first data file is put: the instant is announced and not decided."""


class Before:
    """Runs something before one operation of a storage: the n-th, or the first whose point begins so."""

    def __init__(self, at: int | str, move: Callable[[], None], *, crash: bool = False) -> None:
        self._at, self._move, self._crash = at, move, crash
        self.fired = False

    def fault_at(self, number: int, point: str) -> Fault | None:
        is_it = number == self._at if isinstance(self._at, int) else point.startswith(self._at)
        if self.fired or not is_it:
            return None
        self.fired = True
        self._move()
        return Fault.CRASH_BEFORE if self._crash else None


class Consumer:
    """Keeps what it was given, by key, and the checkpoint; and in which order it came, by request."""

    def __init__(self, storage: MemoryStorage, clock: ManualClock, *, fence: bool = False) -> None:
        self._table = table_of(storage, clock, "consumer")
        self._fence = fence
        self.checkpoint: str | None = None
        self.held: dict[str, int] = {}
        self.calls: list[list[str]] = []

    def poll(self) -> dict[str, int]:
        """Take what is new; returns it."""
        found = self._table.changes(self.checkpoint, fence=self._fence)
        fresh = {row["id"]: row["value"] for row in found.to_arrow().to_pylist()}
        self.held |= fresh
        self.calls.append([one.time for one in found.instants])
        self.checkpoint = found.checkpoint
        return fresh


def upsert(storage: Any, clock: ManualClock, actor: str, values: dict[str, int]) -> None:
    data = rows(*[(key, f"p{int(key[-1]) % 2}", value, 5, None) for key, value in values.items()])
    table_of(storage, clock, actor).ingest(data)


def overtaken(
    base: MemoryStorage, at: int | str, *, fence: bool = False, crash: bool = False
) -> tuple[MemoryStorage, ManualClock, Consumer, bool]:
    """The even keys' writer is overtaken before one of its operations by the odd keys' writer, and the consumer looks then."""
    storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)
    consumer = Consumer(storage, clock, fence=fence)

    def move() -> None:
        upsert(storage, clock, "odd", ODD)
        consumer.poll()

    plan = Before(at, move, crash=crash)
    try:
        upsert(FaultyStorage(storage, plan), clock, "even", EVEN)
    except Crash:
        assert crash
    return storage, clock, consumer, plan.fired

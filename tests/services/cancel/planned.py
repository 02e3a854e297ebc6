"""Plans of compactions that may be cancelled, and how far an execution comes."""

from __future__ import annotations

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from tests.tables import NOW_MS, table_of


def planned(storage: MemoryStorage, **request: object) -> str:
    """Publish a plan that may be cancelled; returns its instant."""
    table = table_of(storage, ManualClock(NOW_MS - 1_000), "planner")
    made = table.compaction.plan(**{"cancel": "cancellable", **request})
    assert made.instant is not None
    return made.instant


def history_until(storage: MemoryStorage, path: str) -> list[str]:
    """Return the operations of an execution up to the first put below a path."""
    faulty = FaultyStorage(storage.copy())
    table_of(faulty, ManualClock(NOW_MS), "trial").compaction.execute()
    at = next(number for number, point in enumerate(faulty.history, 1) if point.startswith("put") and path in point)
    return list(faulty.history[:at])

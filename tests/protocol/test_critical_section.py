"""What happens between taking the table lock and giving it back: every storage call, counted and classified.

Goal: the critical section is bounded. It reads no data, lists no partition, and takes as many calls with fifty partitions and two
hundred commits as with one of each; every write that completed meanwhile adds two reads: its slot and what it says it touched.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hudi_ops.commit.recover.recover import recover
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from tests.fault_plans import MoveBefore
from tests.tables import DEFINITION, START_MS, made, rows, table_of

KINDS = {
    r"get:\.hoodie/hoodie\.properties": "properties",
    r"get:\.hoodie/\.commit_log/\d+/\d+\.json": "slot",
    r"list_folder:\.hoodie/timeline": "timeline",
    r"put:\.hoodie/\.commit_log/payload/.*": "put payload",
    r"put_if_absent:\.hoodie/\.commit_log/\d+/\d+\.json": "claim",
    r"get:\.hoodie/\.commit_log/payload/.*": "payload",
    r"put_if_absent:\.hoodie/timeline/\d+_\d+\.\w+": "completed file",
    r"get:\.hoodie/timeline/\d+_\d+\.\w*commit": "commit metadata",
}
COMPLETING = Counter({"properties": 1, "slot": 2, "timeline": 2, "put payload": 1, "claim": 1, "completed file": 1})
"""Calls of the section that decides and completes a write which met nobody, at most."""
CANCELLING = Counter({"properties": 1, "slot": 3, "timeline": 2, "claim": 1})
SIZES = [(1, 1), (50, 200)]
Section = Counter[str]


class Watched:
    """A lock that keeps, for each time it was held, the storage calls made meanwhile."""

    def __init__(self, locks, storage: FaultyStorage) -> None:
        self._locks = locks
        self.address = locks.address
        self._storage = storage
        self.sections: list[Section] = []

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[object]:
        with self._locks.acquire(timeout_s, purpose) as held:
            before = self._storage.operations
            try:
                yield held
            finally:
                self.sections.append(Counter(kind_of(point) for point in self._storage.history[before:]))

    def holder(self):
        return self._locks.holder()


def kind_of(point: str) -> str:
    return next((kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, point)), point)


def batch(partitions: int, value: int = 0, key: str = "k"):
    return rows(*[(f"{key}{n}", f"p{n}", value, 1, None) for n in range(partitions)])


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]}-partitions-{size[1]}-commits")
def base(request: pytest.FixtureRequest) -> tuple[MemoryStorage, int]:
    partitions, commits = request.param
    return made(DEFINITION, batch(partitions), *(batch(1, value) for value in range(commits - 1))), partitions


@contextmanager
def writer(
    storage: MemoryStorage, actor: str = "writer", at_ms: int = START_MS + 600_000
) -> Iterator[tuple[Table, Watched]]:
    faulty = FaultyStorage(storage)
    ctx = simulated_context(faulty, ManualClock(at_ms, tick_ms=1), actor)
    locks = Watched(ctx.locks, faulty)
    yield Table(replace(ctx, locks=locks)), locks


def removed(table: Table, partitions: int) -> object:
    return table.delete_partition([f"part=p{n}" for n in range(partitions)])


WRITES: dict[str, Callable[[Table, int], object]] = {
    "upsert": lambda table, n: table.ingest(batch(n, 7)),
    "insert": lambda table, n: table.ingest(batch(n, 7, "new"), "insert"),
    "bulk_insert": lambda table, n: table.ingest(batch(n, 7, "bulk"), "bulk_insert"),
    "delete": lambda table, n: table.ingest(batch(n), "delete"),
    "insert_overwrite": lambda table, n: table.ingest(batch(n, 8), "insert_overwrite"),
    "insert_overwrite_table": lambda table, n: table.ingest(batch(n, 9), "insert_overwrite_table"),
    "delete_partition": removed,
    "truncate": lambda table, n: table.truncate(),
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_write_decides_in_as_many_calls_whatever_the_table(base: tuple[MemoryStorage, int], operation: str) -> None:
    storage, partitions = base[0].copy(), base[1]
    with writer(storage) as (table, locks):
        WRITES[operation](table, partitions)
    (section,) = locks.sections
    assert section <= COMPLETING, section - COMPLETING
    print(f"{operation}: {section.total()} calls under the lock, {dict(section)}")


def test_undoing_takes_as_many_calls_whatever_the_table(base: tuple[MemoryStorage, int]) -> None:
    storage, partitions = base[0].copy(), base[1]

    class DiesAtTheSlot:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.CRASH_BEFORE if "put_if_absent:.hoodie/.commit_log" in point else None

    dead = FaultyStorage(storage, DiesAtTheSlot())
    with contextlib.suppress(Crash):
        table_of(dead, ManualClock(START_MS + 600_000, tick_ms=1), "dead").ingest(batch(partitions, 5))
    with writer(storage, "second", START_MS + 600_000 + 2 * EXPIRY_MS) as (table, locks):
        assert recover(table._session), "nothing was rolled back"
    cancel, begun, rollback = locks.sections
    print(f"beginning a rollback: {begun.total()} calls under the lock, {dict(begun)}")
    # Instead of a second look at log and timeline it asks for the mark, and whether the writer is dead even now.
    assert cancel.total() <= CANCELLING.total(), cancel - CANCELLING
    assert not [call for call in cancel + begun if call.startswith("list")], "a partition was listed under the lock"
    assert rollback <= COMPLETING, rollback - COMPLETING


@pytest.mark.parametrize("others", [1, 5])
def test_each_completion_meanwhile_adds_two_reads(others: int) -> None:
    storage = made(DEFINITION, batch(2))

    def move() -> None:
        for value in range(others):
            other.ingest(rows(("k1", "p1", value, 2, None)))

    other = table_of(storage, ManualClock(START_MS + 600_000, tick_ms=1), "other")
    faulty = FaultyStorage(storage, MoveBefore("^put:part=p0", move))
    ctx = simulated_context(faulty, ManualClock(START_MS + 599_000, tick_ms=1), "writer")
    locks = Watched(ctx.locks, faulty)
    Table(replace(ctx, locks=locks)).ingest(batch(1, 7))
    (section,) = locks.sections
    meanwhile = Counter({"slot": others, "commit metadata": others})
    assert section <= COMPLETING + meanwhile, section - COMPLETING - meanwhile

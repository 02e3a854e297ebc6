"""Cleans delete ring files that no writer and no undo can ask for, and nothing that counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.index.ring_files import RINGS_FOLDER
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from tests.fault_plans import DiesBefore
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, by_key, made, rows, table_of

CONSISTENT = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=2)
Opened = Callable[[Storage], Any]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


@pytest.fixture
def opened(clock: ManualClock) -> Opened:
    return lambda storage: table_of(storage, clock, "writer", upkeep=BY_HAND)


def overwritten(table: Any, first: int, last: int) -> list[str]:
    return [
        table.ingest(rows(("a", "p0", value, value, None)), operation="insert_overwrite").instant
        for value in range(first, last)
    ]


def files(storage: MemoryStorage) -> list[str]:
    return sorted(info.name for info in storage.list(RINGS_FOLDER))


def test_cleans_delete_old_rings_and_tell_their_number(opened: Opened) -> None:
    storage = made(CONSISTENT, rows(("a", "p0", 0, 0, None)))
    instants = overwritten(opened(storage), 1, 6)
    before = files(storage)
    planned = opened(storage).clean.plan(retain=2, dry_run=True)
    assert "old ring files" in planned.note
    assert files(storage) == before
    done = opened(storage).clean.run(retain=2)
    kept = instants[-2]
    assert done.ring_files == len(before) - 2
    assert files(storage) == sorted([f"{kept}.commit", f"{kept}.hashing_meta", f"{instants[-1]}.hashing_meta"])
    opened(storage).ingest(rows(("a", "p0", 9, 9, None), ("b", "p0", 9, 9, None)))
    assert by_key(opened(storage)) == {"a": 9, "b": 9}
    assert [one for one in opened(storage).verify(deep=True).findings if one.severity == "error"] == []


def test_savepoint_keeps_its_ring(opened: Opened) -> None:
    storage = made(CONSISTENT, rows(("a", "p0", 0, 0, None)))
    overwritten(opened(storage), 1, 3)
    saved = opened(storage).savepoints.create().instant
    overwritten(opened(storage), 3, 6)
    opened(storage).clean.run(retain=1)
    opened(storage).savepoints.restore(saved)
    opened(storage).ingest(rows(("a", "p0", 9, 9, None)))
    assert by_key(opened(storage)) == {"a": 9}


@pytest.mark.parametrize("point", [f"put_if_absent:{RINGS_FOLDER}", f"delete:{RINGS_FOLDER}"])
def test_next_execution_finishes_after_a_crash(opened: Opened, clock: ManualClock, point: str) -> None:
    storage = made(CONSISTENT, rows(("a", "p0", 0, 0, None)))
    instants = overwritten(opened(storage), 1, 6)
    with pytest.raises(Crash):
        opened(FaultyStorage(storage, DiesBefore(point))).clean.run(retain=2)
    clock.advance_ms(3_600_000)
    opened(storage).clean.run(retain=2)
    assert [name for name in files(storage) if name < instants[-2]] == []
    opened(storage).ingest(rows(("a", "p0", 9, 9, None)))
    assert by_key(opened(storage)) == {"a": 9}

"""Reads amid a restore: they show the table before it or after it, and never a state between two undone writes."""

from __future__ import annotations

import pytest

from hudi_ops.errors import Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from tests.definitions import Definition
from tests.fault_plans import MoveBefore
from tests.protocol.log_actors import timeline_of
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, by_key, made, rows, table_of

FIRST = rows(*((f"k{n}", f"p{n % 2}", n, 0, None) for n in range(6)))
SAVED = {f"k{n}": n for n in range(6)}
KINDS = pytest.mark.parametrize(
    "definition", [DEFINITION, MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["cow", "mor", "mor-mdt"]
)


def saved(definition: Definition) -> tuple[MemoryStorage, ManualClock, str, dict[str, int]]:
    """A savepoint with four writes above it, of whose older slices a clean removed the files; then the newest rows."""
    storage, clock = made(definition, FIRST), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    savepoint = table.savepoints.create().instant
    for version in range(1, 5):
        table.ingest(rows(("k0", "p0", 100 + version, version, None), (f"n{version}", "p1", version, version, None)))
        if definition.table_type == "MERGE_ON_READ":
            table.compaction.run(threshold=1)
    assert table.clean.run(retain=1).deleted > 0
    return storage, clock, savepoint, by_key(table)


class ReadsBeside:
    """A plan without faults: another process reads before every operation that changes something."""

    def __init__(self, storage: MemoryStorage, clock: ManualClock, **query: str) -> None:
        self.storage, self.clock, self.query = storage, clock, query
        self.shown: list[tuple[str, dict[str, int], bool]] = []

    def fault_at(self, number: int, point: str) -> Fault | None:
        if point.startswith(("put", "delete")):
            pending = any(one.action == "restore" for one in timeline_of(self.storage).pending)
            self.shown.append((point, by_key(table_of(self.storage, self.clock, "reader"), **self.query), pending))
        return None


@KINDS
@pytest.mark.parametrize("listing", ["auto", "storage"])
def test_a_pending_restore_is_read_as_its_savepoint(definition: Definition, listing: str) -> None:
    storage, clock, savepoint, before = saved(definition)
    watch = ReadsBeside(storage, clock, listing=listing)
    table_of(FaultyStorage(storage, watch), clock, "restorer").savepoints.restore(savepoint)
    assert [point for point, rows_, pending in watch.shown if pending and rows_ != SAVED] == []
    assert [point for point, rows_, pending in watch.shown if rows_ not in (before, SAVED)] == []
    assert sum(pending for *_, pending in watch.shown) >= 20
    assert by_key(table_of(storage, clock, "reader"), listing=listing) == SAVED


def test_an_earlier_instant_and_one_above_the_savepoint_are_read_amid_a_restore() -> None:
    storage, clock, savepoint, _ = saved(DEFINITION)
    undone = timeline_of(storage).completed_writes[-1].time
    reader = table_of(storage, clock, "reader")
    found: list[dict[str, int]] = []

    def read() -> None:
        found.extend(by_key(reader, as_of=time) for time in (savepoint, undone))

    move = MoveBefore("delete:part=", read)
    table_of(FaultyStorage(storage, move), clock, "restorer").savepoints.restore(savepoint)
    assert found == [SAVED, SAVED]


@KINDS
def test_a_reader_that_sleeps_while_a_table_is_restored_fails_or_reads_one_of_the_two(definition: Definition) -> None:
    base, _, savepoint, before = saved(definition)
    whole = FaultyStorage(base.copy())
    assert by_key(table_of(whole, ManualClock(NOW_MS, tick_ms=1), "reader")) == before
    read = failed = 0
    for number in range(1, whole.operations + 1):
        clock = ManualClock(NOW_MS + 1_000_000, tick_ms=1)
        storage = base.copy(clock)
        restorer = table_of(storage, clock, "restorer")
        move = MoveBefore.at(number, lambda restorer=restorer: restorer.savepoints.restore(savepoint))
        try:
            shown = by_key(table_of(FaultyStorage(storage, move), clock, "reader"))
        except Unavailable:
            failed += 1
            continue
        assert shown in (before, SAVED), f"restored before operation {number}, {move.moved_at}"
        read += 1
    print(f"{read} reads ended, {failed} failed")
    assert read >= 2
    assert failed >= 2

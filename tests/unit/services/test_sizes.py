"""`show` divides the bytes of data files by reason: what is live, read as of the past, held, pending, and left over."""

from __future__ import annotations

from hudi_ops.services.inspect.summary import TableSummary, describe_table
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.definitions import Definition
from tests.tables import DEFINITION, NOW_MS, WITH_METADATA, made, rows, table_of


def sizes(storage: MemoryStorage, clock: ManualClock) -> tuple[int, int, int, int, int | None]:
    found: TableSummary = describe_table(storage, clock=clock)
    return found.total_bytes, found.as_of_bytes, found.held_bytes, found.pending_bytes, found.leftover_bytes


def files(storage: MemoryStorage) -> list[int]:
    """Bytes of the data files, oldest first."""
    found = [info for info in storage.list("") if info.path.startswith("part=p0/") and info.path.endswith(".parquet")]
    return [info.size_bytes for info in sorted(found, key=lambda info: info.name.rpartition("_")[2])]


def written(definition: Definition, clock: ManualClock) -> tuple[MemoryStorage, list[str]]:
    storage = made(definition)
    table = table_of(storage, clock, "writer")
    return storage, [str(table.ingest(rows(("k", "p0", n, n, None))).instant) for n in range(4)]


def test_bytes_are_divided_by_reason() -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage, instants = written(DEFINITION, clock)
    first, second, third, live = files(storage)
    assert sizes(storage, clock) == (live, first + second + third, 0, 0, 0)

    table = table_of(storage, clock, "keeper")
    table.savepoints.create(instants[1])
    assert sizes(storage, clock) == (live, first + third, second, 0, 0)
    table.holds.take(instants[2], seconds=60)
    assert sizes(storage, clock) == (live, first, second + third, 0, 0)
    clock.advance_ms(61_000)
    assert sizes(storage, clock) == (live, first + third, second, 0, 0)

    storage.put("part=p0/00000000-0000-0000-0000-000000000000-0_0-0-0_20310101000000000.parquet", b"x" * 7)
    assert sizes(storage, clock) == (live, first + third, second, 0, 7)
    storage.put(".hoodie/timeline/20310101000000000.commit.requested", b"")
    storage.put(".hoodie/timeline/20310101000000000.inflight", b"")
    assert sizes(storage, clock) == (live, first + third, second, 7, 0)


def test_the_metadata_table_does_not_know_leftovers() -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage, _ = written(WITH_METADATA, clock)
    *old, live = files(storage)
    assert sizes(storage, clock) == (live, sum(old), 0, 0, None)
    table_of(storage, clock, "cleaner").clean.run(retain=1)
    assert sizes(storage, clock) == (live, old[-1], 0, 0, None)

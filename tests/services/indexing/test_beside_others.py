"""Builds beside compactions of the metadata table, and beside drops that delete late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.concurrency.lock.locks import Held
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.layout import kept_partitions
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.tables import BY_RECORD_INDEX, NOW_MS, SCHEMA, by_key, made, of_schema, table_of

CITIES = replace(BY_RECORD_INDEX, schema=pa.schema([*SCHEMA, ("city", pa.string())]))
INDEX = "secondary_index_city"
SLOT = "put_if_absent:.hoodie/.commit_log/0"
DELTA = "put:.hoodie/metadata/"


def cities(*values: tuple[str, str, int, str]) -> pa.Table:
    """Rows: key, partition, time and city."""
    return of_schema(CITIES.schema, [(key, part, ts, ts, None, city) for key, part, ts, city in values])


FIRST = cities(("k1", "a", 1, "Oslo"), ("k2", "a", 1, "Bergen"), ("k4", "b", 1, "Oslo"), ("n1", "c", 1, "Rome"))


class Beside:
    """Acts right before the slot of the announcement, right after the announcement, and once the first delta is put."""

    def __init__(
        self,
        storage: MemoryStorage,
        slots: int,
        before: Callable[[], object],
        after: Callable[[], object],
        late: Callable[[], object] | None = None,
    ) -> None:
        self._storage, self._slots, self._before, self._after, self._late = storage, slots, before, after, late
        self.acted: list[str] = []

    def fault_at(self, number: int, point: str) -> None:
        if point.startswith(SLOT):
            self._slots -= 1
            if self._slots == 0:
                self.acted.append("before")
                self._before()
        if "after" not in self.acted and load_config(self._storage).metadata_partitions_inflight:
            self.acted.append("after")
            self._after()
        elif self._late is not None and "after" in self.acted and point.startswith(DELTA):
            late, self._late = self._late, None
            self.acted.append("late")
            late()


@pytest.mark.parametrize("compacts", ["before catch-up", "before its decision", "by us", ""])
@pytest.mark.parametrize("partition", [INDEX, "record_index"])
def test_a_compaction_between_announcement_and_catch_up_takes_no_record_from_an_index(
    partition: str, compacts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write before the announcement is caught up after a later write of the same key carried the index.

    A compaction of Apache Hudi, modelled by one of ours, merges announced partitions, too.
    """
    if compacts != "by us":
        monkeypatch.setattr("hudi_ops.services.metadata_table.compact.mergeable_partitions", kept_partitions)
    storage, clock = made(CITIES, FIRST, after=10**6), ManualClock(NOW_MS + 3_600_000, tick_ms=1)
    rebuilds = partition == "record_index"

    def table(actor: str, of: object = storage) -> Table:
        return table_of(of, clock, actor, metadata_compact_after=10**6)

    def before() -> None:
        if rebuilds:
            table("first").delete_partition(["part=c"])
        else:
            table("first").ingest(cities(("k1", "a", 5, "Bergen")))

    def after() -> None:
        row = ("n1", "c", 6, "Lima") if rebuilds else ("k1", "a", 6, "Oslo")
        table("second").ingest(cities(row), operation="bulk_insert" if rebuilds else "upsert")
        table("third").ingest(cities(("k9", "b", 6, "Rome")), operation="bulk_insert" if rebuilds else "upsert")
        if compacts in {"before catch-up", "by us"}:
            compact()

    def compact() -> None:
        assert table("compactor").compact_metadata().instant is not None

    late = compact if compacts == "before its decision" else None
    beside = Beside(storage, 4 if rebuilds else 3, before, after, late)
    executor = table("executor", FaultyStorage(storage, beside))
    executor.indexing.run(partitions=(partition,) if rebuilds else (f"{INDEX}=city",), rebuild=rebuilds)
    assert beside.acted == ["before", "after", *(["late"] if compacts == "before its decision" else [])]
    assert verify_table(storage, index=True).errors == ()
    model = {"k1": 1 if rebuilds else 6, "k2": 1, "k4": 1, "n1": 6 if rebuilds else 1, "k9": 6}
    assert by_key(table("reader")) == model
    if rebuilds:
        done = table("fourth").ingest(cities(("n1", "a", 9, "Paris")))
        assert (done.inserted, done.updated) == (0, 1), "the index knows the key"
    else:
        found = table("reader").read(["id"], where="city = 'Oslo'")
        assert sorted(found["id"].to_pylist()) == ["k1", "k4"]
    assert verify_table(storage, index=True).errors == ()


@pytest.mark.parametrize("is_whole", [True, False], ids=["rolled back", "rollback pending"])
def test_a_delta_that_apache_hudi_rolls_back_before_it_counts_is_put_again(is_whole: bool) -> None:
    """Its 1.0 release rolls back each pending instant of the metadata table before it writes; here its rollback alone."""
    storage, clock = made(CITIES, FIRST, after=10**6), ManualClock(NOW_MS + 3_600_000, tick_ms=1)

    def before() -> None:
        table_of(storage, clock, "first").ingest(cities(("k1", "a", 5, "Bergen")))

    def pending() -> list[str]:
        return [one.time for one in load_metadata_timeline(storage) if not one.is_completed]

    def roll_back() -> None:
        (delta,) = pending()
        if is_whole:
            undo_delta(storage, [delta])
            return
        storage.put(f"{TIMELINE_FOLDER}/{instant_of_ms(clock.now_ms())}.rollback.requested", b"")
        for info in [*storage.list(f"{FOLDER}/{INDEX}")]:
            if f"_{delta}." in info.name:
                storage.delete(info.path)

    class RolledBack(Beside):
        """Also acts where the executor says what catch-up has put: right before it decides."""

        def fault_at(self, number: int, point: str) -> None:
            super().fault_at(number, point)
            is_put = "after" in self.acted and point.startswith("put:.hoodie/.indexing/")
            if is_put and "rolled back" not in self.acted and pending():
                self.acted.append("rolled back")
                roll_back()

    beside = RolledBack(storage, 3, before, lambda: None)
    table_of(FaultyStorage(storage, beside), clock, "executor").indexing.run(partitions=(f"{INDEX}=city",))
    assert beside.acted == ["before", "after", "rolled back"]
    assert {one.kind for one in load_metadata_timeline(storage) if not one.is_completed} <= {"rollback"}
    assert verify_table(storage, index=True).errors == ()
    found = table_of(storage, clock, "reader").read(["id"], where="city = 'Bergen'")
    assert sorted(found["id"].to_pylist()) == ["k1", "k2"]


class SlowToDelete:
    """The table lock for a process that waits before it takes it to delete what it dropped."""

    def __init__(self, lock: InProcessLock, wait: Callable[[], object]) -> None:
        self._lock, self._wait = lock, wait
        self.address = lock.address

    def holder(self) -> str | None:
        return self._lock.holder()

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[Held]:
        """Wait, then take the lock."""
        if purpose.startswith("delete dropped"):
            self._wait()
        with self._lock.acquire(timeout_s, purpose) as held:
            yield held


@pytest.mark.parametrize("name", ["bloom_filters", INDEX])
@pytest.mark.parametrize("stop", [20, 60, 100, 140])
def test_a_drop_that_deletes_late_leaves_a_build_that_began_in_between(name: str, stop: int) -> None:
    """Method: the dropper has decided, and waits for the lock; a build stops without the lock, and lets it delete."""
    storage, clock, lock = made(CITIES, FIRST, after=10**6), ManualClock(NOW_MS, tick_ms=1), InProcessLock("shared")
    asked = (f"{INDEX}=city",) if name == INDEX else (name,)
    table_of(storage, clock, "indexer").indexing.run(partitions=asked)
    goes_on, stopped = threading.Semaphore(0), threading.Semaphore(0)
    said: list[str] = []

    def table(actor: str, locks: object, of: object = storage) -> Table:
        return Table(replace(simulated_context(of, clock, actor), locks=locks))

    def wait() -> None:
        stopped.release()
        goes_on.acquire()

    def drop() -> None:
        try:
            table("dropper", SlowToDelete(lock, wait)).indexing.drop([name])
        except Conflict as error:
            said.append(error.what)
        stopped.release()

    class Stops:
        def fault_at(self, number: int, point: str) -> None:
            if number >= stop and lock.holder() is None and not self.has_stopped:
                self.has_stopped = True
                goes_on.release()
                stopped.acquire()

        has_stopped = False

    dropper = threading.Thread(target=drop, daemon=True)
    dropper.start()
    stopped.acquire()
    try:
        table("builder", lock, FaultyStorage(storage, Stops())).indexing.run(partitions=asked)
        was_built = True
    except Conflict:
        was_built = False
    goes_on.release()
    dropper.join(timeout=30)
    assert not dropper.is_alive()
    assert (name in load_config(storage).metadata_partitions) == was_built
    assert verify_table(storage, index=True).errors == ()
    table("writer", lock).ingest(cities(("k1", "a", 7, "Paris")))
    table("again", lock).indexing.run(partitions=asked)
    assert name in load_config(storage).metadata_partitions
    assert verify_table(storage, index=True).errors == ()


@pytest.mark.parametrize("dies", [False, True], ids=["listed", "announced"])
@pytest.mark.parametrize("stop", range(44, 72, 2))
def test_an_executor_that_sleeps_while_it_reserves_leaves_its_successors_index(stop: int, dies: bool) -> None:
    """It sleeps past its lease and its lock; its successor takes the same instant, and lists or only announces the indexes."""
    storage, clock = made(CITIES, FIRST, after=10**6), ManualClock(NOW_MS + 3_600_000, tick_ms=1)
    names = (f"{INDEX}=city", "bloom_filters")
    table_of(storage, clock, "planner").indexing.plan(partitions=names)
    done: list[str] = []

    class Sleeps:
        def fault_at(self, number: int, point: str) -> None:
            if number == stop and not done:
                clock.advance_ms(2 * EXPIRY_MS)
                done.append(point)
                if dies:
                    with pytest.raises(Crash):
                        table_of(FaultyStorage(storage, DiesAnnounced()), clock, "successor").indexing.execute()
                else:
                    table_of(storage, clock, "successor").indexing.execute()

    class DiesAnnounced:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.CRASH_BEFORE if load_config(storage).metadata_partitions_inflight else None

    with pytest.raises((Busy, Cancelled, Conflict)):
        table_of(FaultyStorage(storage, Sleeps()), clock, "sleeper").indexing.execute()
    assert done
    if dies:
        clock.advance_ms(2 * EXPIRY_MS)
        table_of(storage, clock, "third").indexing.execute()
    assert INDEX in load_config(storage).metadata_partitions
    assert verify_table(storage, index=True).errors == ()
    assert sorted(table_of(storage, clock, "reader").read(["id"], where="city = 'Oslo'")["id"].to_pylist()) == [
        "k1",
        "k4",
    ]

"""Index builds whose decisions are applied late, by any process, while foreign writers and Apache Hudi change the table.

Goal: no announcement and no listing, whichever process applies it and whenever, loses a row for a reader, or names a folder that is
gone. Method: builders that die or sleep right before `hoodie.properties` is put or a slot is claimed, and a write, or a drop, of
Apache Hudi in between; such a write is made by a writer of ours upon a copy without the slots, and put beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import FOLDER as LOG
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY, load_config, read_properties, write_properties
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import DEFINITION, NOW_MS, WITH_METADATA, rows

THEIRS = rows(("theirs", "p0", 5, 9, None))
DEFAULT = ("column_stats", "files", "partition_stats")
INDEXED = (*DEFAULT, "record_index")
AT_PROPERTIES = "put:.hoodie/hoodie.properties"
AT_SLOT = "put_if_absent:.hoodie/.commit_log/0"
"""Slots of a build: PLAN, TAKEOVER, the announcement, COMPLETE, the listing."""


class Stop:
    """The process dies, or another makes a move, right before the operation at a point that comes as number `nth`."""

    def __init__(self, point: str, move: Callable[[], object] | None = None, nth: int = 1) -> None:
        self._point = point
        self._move = move
        self._left = nth
        self.fired = False

    def fault_at(self, number: int, point: str) -> Fault | None:
        if self.fired or not point.startswith(self._point):
            return None
        self._left -= 1
        if self._left:
            return None
        self.fired = True
        if self._move is None:
            return Fault.CRASH_BEFORE
        self._move()
        return None


def slots_of(storage: MemoryStorage) -> set[str]:
    return {info.path for info in storage.list(LOG)}


def number_of_newest(storage: MemoryStorage) -> str:
    return str(max(int(path[-17:-5]) for path in slots_of(storage) if path.endswith(".json")))


def write_of_a_stranger(storage: MemoryStorage, slots: set[str], now_ms: int = NOW_MS + 5_000) -> None:
    """A write that knows no slots, nor what those that are not among `slots` decided: it adds to what the properties name."""
    twin = storage.copy(ManualClock(now_ms))
    for path in slots_of(twin) - slots:
        twin.delete(path)
    had = {info.path for info in twin.list()}
    table_of(twin, ManualClock(now_ms, tick_ms=1), "stranger").ingest(THEIRS)
    for info in twin.list():
        if info.path in had or info.path.startswith((LOG, ".hoodie/.heartbeat", ".hoodie/.temp")):
            continue
        body = twin.get(info.path)
        if info.path.startswith(".hoodie/timeline") and info.name.endswith(".commit"):
            said = CommitMetadata.from_bytes(body)
            body = replace(said, extra={"schema": said.extra["schema"]}).to_bytes()
        storage.put(info.path, body)


def build(storage, clock: ManualClock, actor: str, partitions=("record_index",)):
    return build_indexes(table_of(storage, clock, actor)._session, IndexRequest(partitions=partitions))


def left_by_a_dead_builder(
    base: MemoryStorage, clock: ManualClock, point: str = AT_PROPERTIES, nth: int = 2
) -> MemoryStorage:
    """A builder that died before an operation; by default before its completed build was listed in the properties."""
    storage = base.copy(clock)
    stop = Stop(point, nth=nth)
    with contextlib.suppress(Crash):
        build(FaultyStorage(storage, stop), clock, "builder")
    assert stop.fired
    return storage


def check(storage: MemoryStorage, clock: ManualClock, named: tuple[str, ...]) -> None:
    """The properties name these, nothing is lost, and the same call builds what is missing."""
    assert load_config(storage).metadata_partitions == named
    found = read_rows(storage, clock)
    wrong = {"foreign-instant"}
    assert [one for one in faults_of(storage, clock) if one.invariant not in {*wrong, "index-dropped"}] == []
    clock.advance_ms(EXPIRY_MS + 1_000)
    build(storage, clock, "next")
    assert "record_index" in load_config(storage).metadata_partitions
    table_of(storage, clock, "writer").ingest(LATER)
    assert read_rows(storage, clock) == {**found, "k6": 66, "n4": 4}
    assert [one for one in faults_of(storage, clock) if one.invariant not in wrong] == []


@pytest.fixture(scope="module")
def base() -> MemoryStorage:
    return make_table(WITH_METADATA)


@pytest.mark.parametrize(("point", "nth"), [(AT_PROPERTIES, 2), (AT_SLOT, 5)], ids=["listing decided", "not decided"])
def test_a_helper_lists_what_is_complete(base: MemoryStorage, point: str, nth: int) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = left_by_a_dead_builder(base, clock, point, nth)
    assert load_config(storage).metadata_partitions == DEFAULT
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "helper").recover()
    check(storage, clock, INDEXED)


@pytest.mark.parametrize(("point", "nth"), [(AT_PROPERTIES, 1), (AT_SLOT, 4)], ids=["not announced", "not complete"])
def test_a_helper_lists_nothing_that_is_not_complete(base: MemoryStorage, point: str, nth: int) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = left_by_a_dead_builder(base, clock, point, nth)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "helper").recover()
    config = load_config(storage)
    assert (config.metadata_partitions, config.metadata_partitions_inflight) == (DEFAULT, ("record_index",))
    check(storage, clock, DEFAULT)


@pytest.mark.parametrize(("point", "nth"), [(AT_PROPERTIES, 1), (AT_SLOT, 3)], ids=["not folded", "not decided"])
def test_a_write_that_does_not_know_the_announcement_is_added(base: MemoryStorage, point: str, nth: int) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = left_by_a_dead_builder(base, clock, point, nth)
    write_of_a_stranger(storage, slots_of(base))
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "helper").recover()
    assert "theirs" in read_rows(storage, clock)
    check(storage, clock, DEFAULT)


def test_a_whole_metadata_table_without_a_write_is_not_listed() -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    base = make_table(DEFINITION)
    storage = base.copy(clock)
    with contextlib.suppress(Crash):
        build(FaultyStorage(storage, Stop(AT_PROPERTIES)), clock, "builder", None)
    write_of_a_stranger(storage, slots_of(base))
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "helper").recover()
    assert load_config(storage).metadata_partitions == ()
    assert "theirs" in read_rows(storage, clock)
    build(storage, clock, "next", None)
    assert load_config(storage).metadata_partitions == DEFAULT
    assert "theirs" in read_rows(storage, clock)
    assert [one for one in faults_of(storage, clock) if one.invariant != "foreign-instant"] == []


def test_what_apache_hudi_dropped_or_built_meanwhile_stays_so(base: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = left_by_a_dead_builder(base, clock)
    set_properties(storage, {METADATA_PARTITIONS: "bloom_filters,column_stats,files"})
    for info in storage.list(f"{FOLDER}/partition_stats"):
        storage.delete(info.path)
    table_of(storage, clock, "helper").recover()
    assert load_config(storage).metadata_partitions == ("bloom_filters", "column_stats", "files", "record_index")


def test_an_announced_partition_that_apache_hudi_dropped_is_not_listed(base: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = left_by_a_dead_builder(base, clock)
    set_properties(storage, {METADATA_PARTITIONS_INFLIGHT: ""})
    for info in storage.list(f"{FOLDER}/record_index"):
        storage.delete(info.path)
    table_of(storage, clock, "helper").recover()
    check(storage, clock, DEFAULT)


def test_what_was_built_in_a_metadata_table_that_is_gone_is_not_listed(base: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = left_by_a_dead_builder(base, clock)
    set_properties(storage, {METADATA_PARTITIONS: "", METADATA_PARTITIONS_INFLIGHT: ""})
    for info in storage.list(FOLDER):
        storage.delete(info.path)
    table_of(storage, clock, "helper").recover()
    check(storage, clock, ())


def test_a_drop_that_is_applied_late_leaves_what_apache_hudi_built_meanwhile(base: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = base.copy(clock)
    with contextlib.suppress(Crash):
        table_of(FaultyStorage(storage, Stop(AT_PROPERTIES)), clock, "dropper").indexing.drop(["partition_stats"])
    set_properties(storage, {METADATA_PARTITIONS: "bloom_filters,files,partition_stats"})
    table_of(storage, clock, "helper").recover()
    assert load_config(storage).metadata_partitions == ("bloom_filters", "files")


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_a_write_of_a_stranger_before_any_slot_is_in_the_index(base: MemoryStorage, nth: int) -> None:
    """The stranger does not wait for the lock."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage, slots = base.copy(clock), slots_of(base)
    plan = Stop(AT_SLOT, lambda: write_of_a_stranger(storage, slots), nth)
    build(FaultyStorage(storage, plan), clock, "builder")
    assert plan.fired
    clock.advance_ms(20_000)
    check(storage, clock, INDEXED)


@pytest.mark.parametrize("nth", [1, 2], ids=["announcement", "listing"])
def test_a_decider_that_slept_before_its_put_goes_on(base: MemoryStorage, nth: int) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage, slots = base.copy(clock), slots_of(base)

    def meanwhile() -> None:
        write_of_a_stranger(storage, slots)
        clock.advance_ms(20_000)
        table_of(storage, clock, "helper").recover()

    build(FaultyStorage(storage, Stop(AT_PROPERTIES, meanwhile, nth)), clock, "builder")
    assert "theirs" in read_rows(storage, clock)
    check(storage, clock, INDEXED)


@pytest.mark.parametrize("slot", [3, 5], ids=["announcement", "listing"])
def test_without_the_number_in_the_file_a_late_decider_meets_what_ours_wrote(base: MemoryStorage, slot: int) -> None:
    """No other process applies the entry then, so that writers of ours go on without what it names."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = base.copy(clock)

    def meanwhile() -> None:
        said = read_properties(storage)
        write_properties(storage, {key: said[key] for key in said if key != FOLDED_KEY}, NOW_MS, first=False)
        table_of(storage, clock, "writer").ingest(THEIRS)

    # Right after the slot was won, before the file is read.
    build(FaultyStorage(storage, After(AT_SLOT, meanwhile, slot)), clock, "builder")
    assert "theirs" in read_rows(storage, clock)
    check(storage, clock, INDEXED)


class After(Stop):
    """The move is made right after the operation, before the next one."""

    def fault_at(self, number: int, point: str) -> Fault | None:
        if self.fired and self._move is not None:
            move, self._move = self._move, None
            move()
        if not self.fired and point.startswith(self._point):
            self._left -= 1
            self.fired = not self._left
        return None


@pytest.mark.parametrize("nth", [1, 2], ids=["announcement", "listing"])
def test_without_the_number_a_decider_that_slept_before_its_put_goes_on(base: MemoryStorage, nth: int) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = base.copy(clock)
    said = read_properties(storage)
    write_properties(storage, {key: said[key] for key in said if key != FOLDED_KEY}, NOW_MS, first=False)
    plan = Stop(AT_PROPERTIES, lambda: table_of(storage, clock, "writer").ingest(THEIRS), nth)
    build(FaultyStorage(storage, plan), clock, "builder")
    assert "theirs" in read_rows(storage, clock)
    check(storage, clock, INDEXED)


@pytest.mark.parametrize("fault", CRASHES)
def test_helpers_may_die_anywhere(base: MemoryStorage, fault: Fault) -> None:
    left_clock = ManualClock(NOW_MS, tick_ms=1)
    left = left_by_a_dead_builder(base, left_clock)
    write_of_a_stranger(left, slots_of(base))
    for died in fault_sweep(
        left,
        lambda storage, clock: table_of(storage, clock, "helper").recover(),
        fault,
        "listing partitions late",
        points=2,
        step=1,
        only_changes=True,
        clock=lambda: ManualClock(NOW_MS + 30_000, tick_ms=1),
    ):
        assert {*load_config(died.storage).metadata_partitions} in ({*DEFAULT}, {*INDEXED})
        table_of(died.storage, died.clock, "another").recover()
        assert load_config(died.storage).metadata_partitions == INDEXED
        assert [one for one in faults_of(died.storage, died.clock) if one.invariant != "foreign-instant"] == []
        assert "theirs" in read_rows(died.storage, died.clock)


def test_an_old_file_that_a_sleeper_puts_back_gets_its_names_again(base: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = base.copy(clock)
    old = read_properties(storage)
    build(storage, clock, "builder")
    table_of(storage, clock, "writer").ingest(pa.concat_tables([THEIRS, LATER]))
    write_properties(storage, old, NOW_MS, first=False)
    table_of(storage, clock, "helper").recover()
    assert load_config(storage).metadata_partitions == INDEXED
    assert faults_of(storage, clock) == []

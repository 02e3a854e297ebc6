"""Adopting tables of Apache Hudi under crashes, errors and races: one slot 0, and no row lost, doubled or shown too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Conflict, Corrupt, InvalidRequest, Unsupported
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.commit_log import load_log, read_slot, slot_path
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.definitions import Definition, create_table
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import NEW, OLD, SECOND, assert_whole, make_base, visible
from tests.protocol.foreign_table import (
    METADATA,
    METADATA_FILES,
    TERMS,
    build_metadata_table,
    make_foreign,
    opened,
    snapshot,
)
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import NOW_MS, SCHEMA, START_MS, TIMELINE, rows, table_of

LATER = instant_of_ms(NOW_MS + 86_400_000)
WAYS = [*CRASHES, Fault.ERROR_BEFORE, Fault.ERROR_AFTER]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    return make_base(tmp_path_factory.mktemp("source"))


@pytest.fixture
def foreign(made: MemoryStorage) -> MemoryStorage:
    return make_foreign(made)


@pytest.fixture
def with_metadata_table(made: MemoryStorage) -> MemoryStorage:
    return make_foreign(made, with_metadata_table=True)


def check_whole(storage: MemoryStorage, clock: ManualClock, story: str = "") -> None:
    assert_whole(storage, clock, NEW, story)
    first = read_slot(storage, 0)
    assert isinstance(first, Properties)
    assert (first.set, first.remove, first.facts.buckets, first.facts.hash_fields) == ({}, (), 2, ("id",)), story


def test_the_first_write_adopts(foreign: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    opened(foreign, clock, "writer").ingest(SECOND)
    check_whole(foreign, clock)


@pytest.mark.parametrize("fault", WAYS)
def test_the_first_write_goes_wrong_at_every_operation(foreign: MemoryStorage, fault: Fault) -> None:
    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        opened(storage, clock, "writer").ingest(SECOND)

    runs = 51 if SOAK and fault in CRASHES else 5
    for left in fault_sweep(foreign, run, fault, "a first write", points=51, runs=runs):
        assert visible(left.storage.copy(), left.clock) in (OLD, NEW), left.story
        left.clock.advance_ms(EXPIRY_MS + 1_000)
        opened(left.storage, left.clock, "second").ingest(SECOND)
        check_whole(left.storage, left.clock, left.story)


@pytest.mark.parametrize("fault", WAYS)
def test_dropping_the_metadata_table_goes_wrong_at_every_operation(
    with_metadata_table: MemoryStorage, fault: Fault
) -> None:
    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        opened(storage, clock, "dropper").adopt(drop_metadata_table=True)

    runs = 26 if SOAK and fault in CRASHES else 2
    for left in fault_sweep(with_metadata_table, run, fault, "dropping the metadata table", points=26, runs=runs):
        storage, story = left.storage, left.story
        # Whoever believes the properties finds what they name.
        lying = {info.path for info in storage.list(METADATA)}
        assert lying == set(METADATA_FILES) or not load_config(storage).metadata_partitions, story
        assert visible(storage.copy(), left.clock) == OLD, story
        second = opened(storage, left.clock, "second")
        if load_config(storage).metadata_partitions:
            with pytest.raises(Unsupported, match="metadata table"):
                second.ingest(SECOND)
        second.adopt(drop_metadata_table=True)
        assert not storage.list(METADATA), story
        assert not any("metadata.partitions" in key for key in load_config(storage).raw), story
        second.ingest(SECOND)
        check_whole(storage, left.clock, story)


def test_two_adopters_with_one_mind(foreign: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    other = opened(foreign, clock, "other")
    plan = MoveBefore("put_if_absent:.hoodie/.commit_log", lambda: other.adopt())
    done = opened(FaultyStorage(foreign, plan), clock, "writer").adopt()
    assert plan.moved
    first = read_slot(foreign, 0)
    assert first is not None
    assert (first.owner, done.table_id) == (str(other.context.owner), first.table_id)
    opened(foreign, clock, "writer").ingest(SECOND)
    check_whole(foreign, clock)


def test_two_adopters_who_disagree(made: MemoryStorage) -> None:
    """Without a single key in its files, a table fits any number of buckets."""
    clock, storage = ManualClock(NOW_MS), make_foreign(made)
    opened(storage, clock, "emptier", TERMS).ingest(rows(*[(f"k{i}", f"p{i % 2}", 0, 9, True) for i in range(8)]))
    storage = make_foreign(storage)
    plan = MoveBefore("put_if_absent:", lambda: opened(storage, clock, "other", AdoptionOptions(buckets=4)).adopt())
    with pytest.raises(InvalidRequest, match="says buckets 4, the call says 2"):
        opened(FaultyStorage(storage, plan), clock, "writer").ingest(SECOND)
    assert plan.moved
    log = load_log(storage, None)
    assert log is not None
    assert (log.head, log.properties.facts.buckets) == (0, 4)
    with pytest.raises(InvalidRequest, match="says buckets 4, the call says 2"):
        opened(storage, clock, "third").ingest(SECOND)
    opened(storage, clock, "fourth", AdoptionOptions()).ingest(SECOND)


@pytest.mark.parametrize(
    "terms",
    [
        AdoptionOptions(),
        AdoptionOptions(buckets=3),
        AdoptionOptions(buckets=2, timezone="Europe/Berlin"),
        AdoptionOptions(2, ("part",)),
    ],
)
def test_what_is_refused_changes_nothing(foreign: MemoryStorage, terms: AdoptionOptions) -> None:
    before, clock = snapshot(foreign), ManualClock(NOW_MS)
    for call in (
        lambda table: table.adopt(),
        lambda table: table.adopt(dry_run=True),
        lambda table: table.ingest(SECOND),
        lambda table: table.ingest(SECOND, "delete"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            call(opened(foreign, clock, "writer", terms))
        assert caught.value.table == "crash"
    assert snapshot(foreign) == before


def test_the_number_of_buckets_is_proposed(foreign: MemoryStorage) -> None:
    with pytest.raises(InvalidRequest, match="which fit 2 buckets") as caught:
        opened(foreign, ManualClock(NOW_MS), "writer", AdoptionOptions()).adopt()
    assert caught.value.details["counts"] == [2]
    assert "--buckets 2" in str(caught.value)


def test_rows_that_do_not_fit_leave_a_table_that_is_not_adopted(foreign: MemoryStorage) -> None:
    before = snapshot(foreign)
    table = opened(foreign, ManualClock(NOW_MS), "writer")
    with pytest.raises(InvalidRequest):
        table.ingest(rows((None, "p0", 1, 2, None)))  # type: ignore[arg-type]
    assert table.ingest(SECOND.slice(0, 0)).instant is None
    assert table.adopt(dry_run=True).adopted
    assert snapshot(foreign) == before


def test_a_preview_does_not_adopt(foreign: MemoryStorage, tmp_path: Path) -> None:
    before = snapshot(foreign)
    (tmp_path / "a.csv").write_text("id\n")
    assert opened(foreign, ManualClock(NOW_MS), "writer").preview_folder(str(tmp_path)).files
    assert snapshot(foreign) == before


POINTS = [
    "put_if_absent:.hoodie/.commit_log/0",
    "put_if_absent:.hoodie/.heartbeat",
    "put:part=",
    "put:.hoodie/.commit_log/payload",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_metadata_table_built_meanwhile_is_never_ignored(foreign: MemoryStorage, point: str) -> None:
    clock = ManualClock(NOW_MS)
    plan = MoveBefore(point, lambda: build_metadata_table(foreign))
    table = opened(FaultyStorage(foreign, plan), clock, "writer")
    if point.endswith("payload"):  # past the last look, where only the lock keeps Apache Hudi away
        table.ingest(SECOND)
        assert plan.moved
        with pytest.raises(Unsupported, match="metadata table"):
            table.ingest(SECOND)
        return
    with pytest.raises(Unsupported, match="metadata table"):
        table.ingest(SECOND)
    assert plan.moved
    assert visible(foreign, clock) == OLD
    assert set(METADATA_FILES) == {info.path for info in foreign.list(METADATA)}


def test_a_metadata_table_built_while_its_forerunner_is_dropped_stays(with_metadata_table: MemoryStorage) -> None:
    plan = MoveBefore(f"list:{METADATA}", lambda: build_metadata_table(with_metadata_table))
    with pytest.raises(Conflict, match="another process built the metadata table again"):
        opened(FaultyStorage(with_metadata_table, plan), ManualClock(NOW_MS), "dropper").adopt(drop_metadata_table=True)
    assert plan.moved
    assert set(METADATA_FILES) == {info.path for info in with_metadata_table.list(METADATA)}


def test_an_index_under_construction_is_not_dropped(with_metadata_table: MemoryStorage) -> None:
    with_metadata_table.put(f"{TIMELINE}/20300101000000000.indexing.requested", b"")
    with pytest.raises(Busy, match="being built"):
        opened(with_metadata_table, ManualClock(NOW_MS), "dropper").adopt(drop_metadata_table=True)


def test_head_is_found_when_all_our_commits_are_archived(foreign: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    opened(foreign, clock, "writer").ingest(SECOND)
    head = load_log(foreign, None).head  # type: ignore[union-attr]
    newest = max(info.path for info in foreign.list(TIMELINE) if info.name.endswith(".commit"))
    # Apache Hudi writes once more, then archives all before it; its commit carries no pointer.
    for name in (f"{LATER}.commit.requested", f"{LATER}.inflight", f"{LATER}_{LATER[:-1]}9.commit"):
        foreign.put(f"{TIMELINE}/{name}", foreign.get(newest) if name.endswith(".commit") else b"")
    foreign = make_without_pointer(foreign)
    for info in foreign.list(TIMELINE):
        if not info.name.startswith(LATER):
            foreign.delete(info.path)
    clock.advance_ms(2 * 86_400_000)
    again = opened(foreign, clock, "second", AdoptionOptions())
    again.ingest(rows(("z", "p1", 1, 9, None)))
    log = load_log(foreign, None)
    assert log is not None
    assert log.head > head
    assert visible(foreign, clock) == {**NEW, "z": 1}


def make_without_pointer(storage: MemoryStorage) -> MemoryStorage:
    """All commits without our extra metadata; the log stays."""
    kept = {path: body for path, body in snapshot(storage).items() if path.startswith(".hoodie/.commit_log/")}
    found = make_foreign(storage)
    for path, body in kept.items():
        found.put(path, body)
    return found


def test_a_table_made_anew_by_apache_hudi_is_adopted_anew(foreign: MemoryStorage) -> None:
    """Spark's overwrite removes the whole folder, the log too; a process that held the old log must not go on with it."""
    clock, fresh = ManualClock(NOW_MS), snapshot(foreign)
    table = opened(foreign, clock, "writer")
    table.ingest(SECOND)
    old = read_slot(foreign, 0)
    for info in foreign.list():
        foreign.delete(info.path)
    for path, body in fresh.items():
        foreign.put(path, body)
    with pytest.raises(Conflict, match="dropped and created again"):
        table._session.loader.load()
    table.ingest(SECOND)
    check_whole(foreign, clock)
    new = read_slot(foreign, 0)
    assert old is not None
    assert new is not None
    assert new.table_id != old.table_id


def test_a_lost_log_is_not_begun_again(foreign: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    opened(foreign, clock, "writer").ingest(SECOND)
    foreign.delete(slot_path(0))
    with pytest.raises(Corrupt, match="the commit log that the table's commits name does not exist"):
        opened(foreign, clock, "second").ingest(SECOND)


def test_a_table_whose_first_write_is_under_way_is_waited_for(foreign: MemoryStorage) -> None:
    for info in foreign.list(TIMELINE):
        if info.name.endswith(".commit"):
            foreign.delete(info.path)
    before = snapshot(foreign)
    with pytest.raises(Busy, match="first write is pending"):
        opened(foreign, ManualClock(NOW_MS), "writer").adopt()
    assert snapshot(foreign) == before


@pytest.fixture
def empty() -> MemoryStorage:
    """A table that Apache Hudi has made and not written to yet; its key has two fields."""
    clock = ManualClock(START_MS)
    storage = MemoryStorage("empty", clock)
    create_table(table_of(storage, clock, "creator")._session, EMPTY)
    found = make_foreign(storage)
    for info in found.list(TIMELINE):
        found.delete(info.path)
    return found


EMPTY = Definition("empty", SCHEMA, ("id", "value"), ("part",), None, buckets=4)
SOME = rows(*[(f"k{n}", "p0", n, 1, None) for n in range(20)])


def test_rows_are_routed_by_the_facts_of_whoever_adopted_the_table(empty: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    other = opened(empty, clock, "other", AdoptionOptions(buckets=4, hash_fields=("id",)))
    plan = MoveBefore("put_if_absent:.hoodie/.commit_log/0", lambda: other.ingest(SOME))
    opened(FaultyStorage(empty, plan), clock, "writer", AdoptionOptions(buckets=4)).ingest(SOME)
    assert plan.moved
    assert visible(empty, clock) == {f"k{n}": n for n in range(20)}
    assert verify_table(empty, deep=True, clock=clock).findings == ()


def test_a_program_that_counts_buckets_otherwise_is_found_out_by_its_files(empty: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    other = make_foreign(empty)

    def write() -> None:
        opened(other, clock, "other", AdoptionOptions(buckets=8)).ingest(SOME)
        for path, body in snapshot(make_foreign(other)).items():
            empty.put(path, body)

    plan = MoveBefore("put_if_absent:.hoodie/.commit_log/0", write)
    with pytest.raises(Unsupported, match="of a bucket that a table of 4 buckets does not have"):
        opened(FaultyStorage(empty, plan), clock, "writer", AdoptionOptions(buckets=4)).ingest(SOME)
    assert visible(empty, clock) == {f"k{n}": n for n in range(20)}
    assert not load_timeline(empty, load_config(empty)).pending


@pytest.mark.parametrize("point", ["put_if_absent:.hoodie/.commit_log/0", "put_if_absent:.hoodie/.heartbeat"])
def test_a_first_write_that_begins_while_we_adopt_is_not_shown_too_early(empty: MemoryStorage, point: str) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    first = instant_of_ms(NOW_MS - 1)

    def begin() -> None:
        for name in (f"{first}.commit.requested", f"{first}.inflight"):
            empty.put(f"{TIMELINE}/{name}", b"")

    plan = MoveBefore(point, begin)
    with pytest.raises(Busy, match="a foreign writer began the table's first write"):
        opened(FaultyStorage(empty, plan), clock, "writer", AdoptionOptions(buckets=4)).ingest(SOME)
    assert plan.moved
    timeline = load_timeline(empty, load_config(empty))
    assert not timeline.completed_writes
    assert [one.time for one in timeline.pending] == [first]

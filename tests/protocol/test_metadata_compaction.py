"""The metadata table's compaction, crashed, failed and raced at every change: tables stay whole for all their readers."""

from __future__ import annotations

import contextlib

import pytest

from hudi_ops.errors import Busy, Conflict
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition
from hudi_ops.metadata.writer.compaction import compactions, deltas_since_compaction
from hudi_ops.read.plan import Opened
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.services.metadata_table import compact as metadata_compact
from hudi_ops.services.metadata_table.compact import KEPT_MS, compact_metadata
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from tests.bounds import SOAK
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import FIRST, SECOND
from tests.protocol.metadata_table import (
    LATER,
    THIRD,
    faults_of,
    make_table,
    metadata_files,
    read_rows,
    table_of,
    uncounted_bases,
)
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.tables import LOGGED_WITH_METADATA, NOW_MS, START_MS, WITH_METADATA

DEFINITIONS = [WITH_METADATA, LOGGED_WITH_METADATA]


def go_on(storage, clock, story: str) -> None:
    """Another process writes and compacts: nothing of the first one is in its way, or left."""
    rows = read_rows(storage, clock)
    left = {"leftover-unknown", "states-missing"}  # readers mind neither
    assert [one for one in faults_of(storage, clock) if one.invariant not in left] == [], story
    clock.advance_ms(1_000)
    table = table_of(storage, clock, "second")
    table.ingest(LATER)
    compact_metadata(table._session)
    assert read_rows(storage, clock) == {**rows, "k6": 66, "n4": 4}, story
    assert [one for one in faults_of(storage, clock) if one.invariant != "states-missing"] == [], story
    assert deltas_since_compaction(load_metadata_timeline(storage)) == 1, story
    assert uncounted_bases(storage) == [], story


def first(storage, clock) -> None:
    compact_metadata(table_of(storage, clock, "first")._session)


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.table_type)
def test_crash_at_every_change(definition, fault: Fault) -> None:
    # Between two changes it does not matter where it dies; so before one it is as after the one before that.
    base, step = make_table(definition), 1 if SOAK or fault is Fault.CRASH_AFTER else 3
    for left in fault_sweep(
        base, first, fault, "the metadata table's compaction", points=7, step=step, only_changes=True
    ):
        go_on(left.storage, left.clock, left.story)


@pytest.mark.parametrize("fault", ERRORS)
def test_an_error_at_every_storage_operation_leaves_the_table_whole(fault: Fault) -> None:
    # Errors of reading come in kinds, not in numbers.
    only_changes = fault is not Fault.ERROR_BEFORE
    step, what = 1 if only_changes or SOAK else 9, "the metadata table's compaction"
    for left in fault_sweep(make_table(), first, fault, what, points=7, runs=3, step=step, only_changes=only_changes):
        left.land()
        if left.story:
            go_on(left.storage, left.clock, left.story)


def test_log_files_become_base_files() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    done = compact_metadata(table_of(storage, clock, "first")._session)
    assert (done.groups, done.cleaned) == (4, 0)
    own = load_metadata_timeline(storage)
    assert compactions(own) == {done.instant}
    assert len(metadata_files(storage, ".hfile")) == 5
    assert faults_of(storage, clock) == []


def test_nothing_is_merged_twice() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    session = table_of(storage, clock, "first")._session
    assert compact_metadata(session).instant is not None
    before = storage.list()
    assert compact_metadata(session).instant is None
    assert storage.list() == before


def test_a_dry_run_changes_nothing() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    before = storage.list()
    done = compact_metadata(table_of(storage, clock, "first")._session, dry_run=True)
    assert (done.groups, done.dry_run) == (4, True)
    assert storage.list() == before


def test_two_at_once_make_one_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    merge = metadata_compact._merge
    others = []

    def overtaken(session, chosen):
        monkeypatch.setattr(metadata_compact, "_merge", merge)
        others.append(compact_metadata(table_of(storage, clock, "second")._session))
        return merge(session, chosen)

    monkeypatch.setattr(metadata_compact, "_merge", overtaken)
    done = compact_metadata(table_of(storage, clock, "first")._session)
    assert done.instant == others[0].instant
    assert len(compactions(load_metadata_timeline(storage))) == 1
    go_on(storage, clock, "two at once")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.table_type)
def test_a_write_that_comes_between_lies_upon_the_new_base_files(definition, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = make_table(definition, (FIRST, SECOND)), ManualClock(NOW_MS)
    merge = metadata_compact._merge

    def beside(session, chosen):
        table_of(storage, clock, "writer").ingest(THIRD)
        return merge(session, chosen)

    monkeypatch.setattr(metadata_compact, "_merge", beside)
    assert compact_metadata(table_of(storage, clock, "first")._session).instant is not None
    monkeypatch.undo()
    assert read_rows(storage, clock)["n3"] == 9
    go_on(storage, clock, "a write between")


def test_a_drop_that_comes_between_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    merge = metadata_compact._merge

    def dropped(session, chosen):
        merged = merge(session, chosen)
        drop_metadata(table_of(storage, clock, "other")._session)
        for one in merged:
            storage.put(one.path, b"late")
        return merged

    monkeypatch.setattr(metadata_compact, "_merge", dropped)
    with pytest.raises(Conflict, match="partitions"):
        compact_metadata(table_of(storage, clock, "first")._session)
    assert metadata_files(storage, ".hfile") == []


def test_a_write_between_its_two_commits_is_waited_for() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    state = table_of(storage, clock, "reader")._session.loader.load()
    newest = state.timeline.completed_writes[-1]
    storage.delete(state.timeline.path(newest.file_name))
    session = table_of(storage, clock, "first")._session
    # As Apache Hudi leaves it when it dies there: no slot says that it is complete.
    session.loader.load()
    with pytest.raises(Busy, match=r"between its two commits|being completed"):
        compact_metadata(session, dry_run=True)


def test_a_lost_lock_leaves_the_old_files_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    table = table_of(storage, clock, "first")

    class Lost:
        token = 1

        def still_mine(self) -> bool:
            return False

    @contextlib.contextmanager
    def held(ctx, purpose):
        yield Lost()

    monkeypatch.setattr(metadata_compact, "hold_lock", held)
    with pytest.raises(Busy, match="lost"):
        compact_metadata(table._session)
    monkeypatch.undo()
    assert compactions(load_metadata_timeline(storage)) == frozenset()
    go_on(storage, clock, "a lost lock")


def test_older_slices_are_cleaned_once_nobody_reads_them() -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table().copy(clock)
    table = table_of(storage, clock, "first")
    rows = read_rows(storage, clock)
    cleaned = []
    for number in range(4):
        table.ingest(LATER)
        cleaned.append(compact_metadata(table._session).cleaned)
        clock.advance_ms(KEPT_MS + 1_000 if number != 1 else 1_000)
    # What was superseded twice, the first time long enough ago.
    assert [number > 0 for number in cleaned] == [False, True, False, True]
    assert faults_of(storage, clock) == []
    assert read_rows(storage, clock) == {**rows, "k6": 66, "n4": 4}


def test_compactions_that_follow_each_other_fast_leave_no_older_slices_than_the_time_for_readers() -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table().copy(clock)
    table = table_of(storage, clock, "first")
    rows = read_rows(storage, clock)
    held = []
    for _ in range(16):
        table.ingest(LATER)
        compact_metadata(table._session)
        held.append(len(storage.list_folder(f"{FOLDER}/files").files))
        clock.advance_ms(KEPT_MS // 4)
    # Without an end each round would add files.
    assert held[:5] == sorted(held[:5])
    assert max(held[7:]) <= held[6]
    assert faults_of(storage, clock) == []
    assert read_rows(storage, clock) == {**rows, "k6": 66, "n4": 4}


def test_a_reader_that_sleeps_until_its_slices_are_cleaned_reads_again() -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table().copy(clock)
    table = table_of(storage, clock, "first")
    compact_metadata(table._session)
    table.ingest(LATER)
    rows = read_rows(storage, clock)
    cleaned = []

    def meanwhile() -> None:
        for _ in range(3):
            clock.advance_ms(KEPT_MS + 1_000)
            table.ingest(LATER)
            cleaned.append(compact_metadata(table._session).cleaned)

    # It knows the metadata table's timeline, and has listed no partition of it.
    sleeper = FaultyStorage(storage, MoveBefore(f"list_folder:{FOLDER}/files", meanwhile))
    found = table_of(sleeper, clock, "reader").read(["id"])
    assert all(cleaned)
    assert sorted(found["id"].to_pylist()) == sorted(rows)


def test_base_files_that_never_count_do_not_keep_readers_away() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    faulty = FaultyStorage(storage, FaultPlan.at(4, Fault.CRASH_AFTER), only_mutations=True)
    with contextlib.suppress(Crash):
        compact_metadata(table_of(faulty, clock, "first")._session)
    assert uncounted_bases(storage)
    # Some lie upon base files, others in groups that have none yet.
    opened = Opened.of(storage)
    metadata = open_metadata(storage, opened.config, opened.timeline)
    assert metadata is not None
    assert all(len(metadata.read(MetadataPartition(name))) for name in opened.config.metadata_partitions)
    go_on(storage, clock, "given up")


def test_a_write_compacts_once_enough_deltas_lie_there() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    session = table_of(storage, clock, "first", after=4)._session
    session.memory.metadata_deltas = 3
    metadata_compact.after_write(session)
    assert compactions(load_metadata_timeline(storage)) == frozenset()
    session.memory.metadata_deltas = 4
    metadata_compact.after_write(session)
    assert len(compactions(load_metadata_timeline(storage))) == 1


def test_an_error_of_it_never_fails_a_write() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    faulty = FaultyStorage(storage, FaultPlan.at(12, Fault.ERROR_BEFORE))
    late = table_of(faulty, clock, "first", after=1)._session
    late.memory.metadata_deltas = 3
    metadata_compact.after_write(late)
    assert faulty.fired
    go_on(storage, clock, "an error")


def test_an_instant_of_the_data_table_never_has_its_time() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    table = table_of(storage, clock, "first")
    done = compact_metadata(table._session)
    # A clock that was put back: times rise by single milliseconds from the newest that the table knows.
    clock.jump_ms(-NOW_MS + START_MS)
    instant = table.ingest(LATER).instant
    assert instant is not None
    assert done.instant < instant
    assert storage.head(f"{TIMELINE_FOLDER}/{instant}.deltacommit.requested") is not None
    assert faults_of(storage, clock) == []
